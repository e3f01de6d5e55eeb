"""The records of one piece, and the proof that they are those that were planned.

A piece is planned with the epoch of its last record. No two records ever have the same epoch and offset, and a log that
holds one holds all that was below it when it was written: so if the last record that was read bears that epoch, none of
the piece was replaced since. The consumer notices what is cut while it reads; a log that was cut below the piece's end
and has not grown again is noticed when nothing comes.

Records are read by the clients' own ``Consumer``, which knows how to find leaders. Source: KIP-320.
"""

from __future__ import annotations

from collections import deque

from replica.client.clock import Clock, Deadline
from replica.client.connections import Closing, Connections
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.failures import LogTruncatedError, OffsetOutOfRangeError, ReadFailedError
from replica.client.polled import PolledRecords
from replica.client.reading import OffsetReset
from replica.ids import Epoch, Offset
from replica.spark.errors import DataLossError, PartitionUnreadableError, TopicTruncatedError
from replica.spark.logs import TopicLogs, view_config
from replica.spark.options import ReadOptions
from replica.spark.values import Piece, Position

POLL_MS = 500


class PieceReader(Closing):
    """Reads one piece, within one event loop. Close it."""

    def __init__(
        self,
        options: ReadOptions,
        piece: Piece,
        *,
        connections: Connections | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._piece = piece
        self._name = piece.topic_partition
        self._connections = connections
        self._clock = clock
        self._logs = TopicLogs(options.connection, connections=connections, clock=clock)
        self._position = piece.start
        self._ready: deque[PolledRecords] = deque()
        self._consumer = self._consumer_at_position()
        self._deadline = self._new_deadline()

    async def close(self) -> None:
        """Close the connections."""
        await self._consumer.close()
        await self._logs.close()

    async def next_records(self) -> PolledRecords | None:
        """Return the next records of the piece, in order; absent at its end.

        Raises TopicTruncatedError, DataLossError, or PartitionUnreadableError after as long as a call may take.
        """
        while self._position.offset < self._piece.end.offset:
            polled = await self._poll()
            if polled is None:
                await self._check_progress()
                continue
            mine = polled.below(self._piece.end.offset)
            self._deadline = self._new_deadline()
            self._go_behind(mine, polled)
            if mine is not None:
                return mine
        return None

    def _go_behind(self, mine: PolledRecords | None, polled: PolledRecords) -> None:
        """Move behind what was read, after the check that the piece's last record is the one that was planned."""
        end = self._piece.end
        if mine and mine.last_offset == end.offset - 1 and end.leader_epoch not in (None, mine.last_epoch):
            found = f"there is a record of epoch {mine.last_epoch} now"
            raise TopicTruncatedError(self._name, end.offset, end.leader_epoch, found)
        offset = min(Offset(polled.last_offset + 1), end.offset)
        self._position = Position(offset=offset, leader_epoch=polled.last_epoch)

    async def _poll(self) -> PolledRecords | None:
        if self._ready:
            return self._ready.popleft()
        try:
            self._ready += await self._consumer.poll_batches(POLL_MS)
            return self._ready.popleft() if self._ready else None
        except OffsetOutOfRangeError as error:
            await self._on_out_of_range(error)
        except LogTruncatedError as error:
            await self._on_truncated(error)
        except ReadFailedError as error:
            raise PartitionUnreadableError(str(error)) from error
        return None

    async def _on_out_of_range(self, error: OffsetOutOfRangeError) -> None:
        bounds = await self._logs.bounds(self._name, self._known_epoch())
        if self._position.offset >= bounds.start:
            await self._logs.check(self._name, self._piece.end)
            await self._begin_again(error)
            return
        if self._options.fail_on_data_loss:
            raise DataLossError(self._name, self._position.offset, bounds.start) from error
        self._position = Position(offset=min(bounds.start, self._piece.end.offset))
        self._seek(self._consumer)

    async def _on_truncated(self, error: LogTruncatedError) -> None:
        """Believe it of a leader that knows the epoch of what was read, of no older one."""
        if error.divergent is None:
            epoch = self._position.leader_epoch
            raise TopicTruncatedError(self._name, self._position.offset, epoch, str(error)) from error
        await self._logs.check(self._name, self._position)
        await self._begin_again(error)

    async def _begin_again(self, error: ReadFailedError) -> None:
        """Ask others, for as long as a call may take."""
        if self._deadline.is_over():
            raise PartitionUnreadableError(str(error)) from error
        await self._deadline.pause(100)
        await self._consumer.close()
        self._consumer = self._consumer_at_position()

    async def _check_progress(self) -> None:
        """Nothing has come: find out whether the planned end still is in the log."""
        self._position = Position(
            offset=max(self._position.offset, await self._consumer.position(self._name)),
            leader_epoch=self._position.leader_epoch,
        )
        if self._position.offset >= self._piece.end.offset:
            return
        await self._logs.check(self._name, self._piece.end)
        if self._deadline.is_over():
            raise PartitionUnreadableError(
                f"{self._name}: nothing came from offset {self._position.offset} on for "
                f"{self._options.connection.api_timeout_ms} ms, though offset {self._piece.end.offset} was committed"
            )

    def _known_epoch(self) -> Epoch | None:
        return self._piece.end.leader_epoch

    def _new_deadline(self) -> Deadline:
        return Deadline(self._logs.clock, self._options.connection.api_timeout_ms)

    def _consumer_at_position(self) -> Consumer:
        fetch_bytes = self._options.max_partition_fetch_bytes
        config = ConsumerConfig(
            auto_offset_reset=OffsetReset.NONE,
            max_partition_fetch_bytes=fetch_bytes,
            client_rack=self._options.client_rack,
        )
        consumer = Consumer(
            self._options.connection.servers,
            config,
            view_config=view_config(self._options.connection),
            connections=self._connections,
            clock=self._clock,
        )
        consumer.assign([self._name])
        self._seek(consumer)
        return consumer

    def _seek(self, consumer: Consumer) -> None:
        at = self._position
        consumer.seek(self._name, at.offset, leader_epoch=at.leader_epoch, topic_id=self._piece.topic_id)
