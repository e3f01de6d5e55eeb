"""What one process does with one topic-partition: it appends, and reads on from its own position.

Owns how outcomes are recorded, in the words of ``nemesis.workload``: one operation at a time, and an append whose
outcome is unknown tells its process so, which then ends. Which operation comes next is the process's business.

A history knows appends of one value. A batch of several is that of a producer which several processes share, as threads
do: the first value is this process's, each of the others that of a process which appends it and nothing ever after.

In a cluster any replica answers a consumer (KIP-392), with what it knows to be committed; a reader goes to the leader
whom the answer names, or to anyone, as the climate says. Where the log begins later than that, the reader does so too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from nemesis.history import APPEND, FINAL_READ, POLL, EventType, PolledRecord
from nemesis.simulator.asking import Caller
from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import CorruptRecordError, decode_records, encode_batch, parse_batches

PRODUCE_TIMEOUT_MS = 1_500
POLL_BYTES_MAX = 64 << 10
LONG_POLL_MS = 300
"""How long some polls wait at the end of the log for more."""
ACKS_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a poll brought: values by offset, and where to read on."""

    records: tuple[PolledRecord, ...]
    high_watermark: int
    next_offset: int

    @property
    def reached_end(self) -> bool:
        """Whether there was nothing more to read at the time."""
        return self.next_offset >= self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What one batch appends, in its order: values, each with the process whose it is."""

    processes: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def records(self) -> list[bytes]:
        """The records of the batch."""
        return [b"%d" % value for value in self.values]


class Office(Protocol):
    """What a session needs of the clients that it is one of."""

    world: World
    record: Record
    climate: Climate
    dice: Random
    is_stopped: bool

    def acknowledge(self, log: TopicPartition) -> None:
        """A write was acknowledged."""

    def new_process(self) -> int:
        """A process number that nobody had before."""


OnAppended = Callable[[EventType], None]


class Session:
    """One process and one log. ``number`` is the process's."""

    def __init__(self, office: Office, number: int, log: TopicPartition, *, position: int) -> None:
        self.log = log
        self.position = position
        self.has_read_to_the_end = False
        self._office = office
        self._world = office.world
        self._dice = office.dice
        self._number = number
        self._has_polled = False
        self._asked = ReplicaId(0)
        self._caller = Caller(self._world, self._dice)

    # --- appending --------------------------------------------------------------------------------------------------

    def begin(self, values: Sequence[int]) -> Writes:
        """Begin to append these values, as one batch."""
        others = (self._office.new_process() for _ in values[1:])
        writes = Writes(processes=(self._number, *others), values=tuple(values))
        self._record_each(writes, EventType.INVOKE)
        return writes

    def append(self, values: Sequence[int], then: OnAppended, *, acks: int | None = None) -> None:
        """Append ``values`` once, and tell ``then`` what is known of it. What is not acknowledged by all is unknown.

        ``acks`` is as the climate says where it is absent.
        """
        writes = self.begin(values)
        acks = self._draw_acks() if acks is None else acks
        batch = encode_batch(writes.records, timestamp_ms=self._world.now_ms)

        def on_response(response: m.ProduceResponse | None) -> None:
            if response is None:
                self.fail_append(writes, "nobody listens", then)
            elif response.error is ErrorCode.NONE and acks == ACKS_ALL:
                self.acknowledge(writes, response, then)
            elif response.error is ErrorCode.NONE:
                self.give_up(writes, f"acks={acks}", then)
            elif write_definitely_failed(response.error, not_appended=response.not_appended):
                self.fail_append(writes, response.error, then)
            else:
                self.give_up(writes, response.error, then)

        self.produce(batch.data, acks, on_response, lambda: self.give_up(writes, "no answer in time", then))

    def _draw_acks(self) -> int:
        cluster = self._office.climate.cluster
        if cluster is None or not cluster.weak_acks or self._dice.random() >= cluster.weak_acks:
            return ACKS_ALL
        return self._dice.choice((0, 1))

    def produce(
        self,
        records: bytes,
        acks: int,
        on_response: Callable[[m.ProduceResponse | None], None],
        on_silence: Callable[[], None],
    ) -> None:
        """Ask whoever seems to lead to append a batch; exactly one of the two is called."""
        request = m.ProduceRequest(topic_partition=self.log, acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, records=records)

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.ProduceResponse | None), response
            if response is None:
                self._caller.turn()
            elif write_definitely_failed(response.error, not_appended=response.not_appended):
                self._caller.follow(response.current_leader)
            on_response(response)

        self._caller.ask(request, on_reply, on_silence)

    def acknowledge(self, writes: Writes, response: m.ProduceResponse, then: OnAppended) -> None:
        """The append was acknowledged, from the offset on that the response names."""
        for _ in writes.values:
            self._office.acknowledge(self.log)
        fields = {"leader_epoch": response.leader_epoch, "node": self._caller.target}
        self._record_each(writes, EventType.OK, base_offset=response.base_offset, **fields)
        then(EventType.OK)

    def fail_append(self, writes: Writes, error: str, then: OnAppended) -> None:
        """The append certainly did not happen."""
        self._record_each(writes, EventType.FAIL, error=error)
        then(EventType.FAIL)

    def give_up(self, writes: Writes, error: str, then: OnAppended) -> None:
        """Nobody knows what became of the append."""
        self._record_each(writes, EventType.INFO, error=error)
        then(EventType.INFO)

    def _record_each(
        self, writes: Writes, kind: EventType, *, base_offset: Offset | None = None, **fields: object
    ) -> None:
        for delta, (process, value) in enumerate(zip(writes.processes, writes.values, strict=True)):
            placed = {} if base_offset is None else {"offset": base_offset + delta}
            self._office.record.client(process, kind, APPEND, topic_partition=self.log, value=value, **placed, **fields)

    def turn(self) -> None:
        """Ask somebody else next."""
        self._caller.turn()

    def follow(self, leader: m.CurrentLeader | None) -> None:
        """Ask the named leader next, or anyone."""
        self._caller.follow(leader)

    # --- reading ----------------------------------------------------------------------------------------------------

    def poll(self, then: Callable[[], None]) -> None:
        """Read on, and call ``then``, whatever came of it."""
        self.record(EventType.INVOKE, POLL, offset=self.position, seek=not self._has_polled)
        self._has_polled = True

        def on_read(read: Read | str) -> None:
            if isinstance(read, str):
                self.record(EventType.FAIL, POLL, error=read)
            else:
                self._ok_read(POLL, read, limited=not read.reached_end)
            then()

        self._fetch(on_read)

    def read_to_the_end(self) -> None:
        """Read from offset 0 to the log's end, when everything is there to be read."""
        self.record(EventType.INVOKE, FINAL_READ, offset=self.position, seek=True)

        def on_read(read: Read | str) -> None:
            if isinstance(read, str):
                self.record(EventType.FAIL, FINAL_READ, error=read)
                self._world.queue.after(100 * US_PER_MS, self.read_to_the_end)
                return
            self._ok_read(FINAL_READ, read, limited=not read.reached_end)
            if read.reached_end:
                self.has_read_to_the_end = True
            else:
                self.read_to_the_end()

        self._fetch(on_read)

    def _ok_read(self, f: str, read: Read, *, limited: bool) -> None:
        self.position = read.next_offset
        fields = {"records": read.records, "high_watermark": read.high_watermark, "node": self._asked}
        self.record(EventType.OK, f, limited=limited, **fields)

    def _fetch(self, on_read: Callable[[Read | str], None]) -> None:
        cluster = self._office.climate.cluster
        if cluster is not None and cluster.follower_reads and self._dice.random() < cluster.follower_reads:
            self._caller.turn()
        self._asked = self._caller.target
        part = m.FetchPartition(topic_partition=self.log, fetch_offset=Offset(self.position), max_bytes=POLL_BYTES_MAX)
        request = m.FetchRequest(
            partitions=(part,), max_bytes=POLL_BYTES_MAX, max_wait_ms=self._dice.choice((0, LONG_POLL_MS))
        )

        def on_reply(response: m.Response | None) -> None:
            if response is None:
                self._caller.turn()
                on_read("nobody listens")
                return
            assert isinstance(response, m.FetchResponse), response
            answer = response.answer_for(self.log)
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE and cluster is not None and cluster.retention_bytes >= 0:
                self._seek_beginning(on_read)
            elif answer.error is not ErrorCode.NONE:
                self._caller.follow(answer.current_leader)
                on_read(answer.error)
            elif answer.high_watermark is None:
                on_read("the high watermark is not known yet")
            else:
                if cluster is not None:
                    self._caller.heed(answer.current_leader)
                on_read(read_of(answer, self.position))

        def on_silence() -> None:
            self._caller.turn()
            on_read("no answer in time")

        self._caller.ask(request, on_reply, on_silence)

    def _seek_beginning(self, on_read: Callable[[Read | str], None]) -> None:
        """Ask where the log begins, and read on from there next, if that is beyond this position."""

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.ListOffsetsResponse | None), response
            if response is None or response.offset is None:
                self._caller.follow(None if response is None else response.current_leader)
            elif response.offset > self.position:
                self.position, self._has_polled = response.offset, False
            on_read(ErrorCode.OFFSET_OUT_OF_RANGE)

        def on_silence() -> None:
            self._caller.turn()
            on_read(ErrorCode.OFFSET_OUT_OF_RANGE)

        self._caller.ask(m.ListOffsetsRequest(topic_partition=self.log), on_reply, on_silence)

    def record(self, kind: EventType, f: str, **fields: object) -> None:
        """Write a line of the history."""
        self._office.record.client(self._number, kind, f, topic_partition=self.log, **fields)


def read_of(answer: m.FetchedPartition, position: int) -> Read:
    """What an answer to a fetch brings from ``position`` on; damaged records in it convict whoever sent them."""
    assert answer.high_watermark is not None, answer
    try:
        batches = parse_batches(answer.records)
    except CorruptRecordError as error:
        raise BrokenInvariantError("damage-served", f"a consumer was sent damaged records: {error}") from error
    records = [record for batch in batches if not batch.is_control for record in decode_records(batch)]
    return Read(
        records=tuple(
            PolledRecord(offset=record.offset, value=int(record.value or b"-1"))
            for record in records
            if record.offset >= position
        ),
        high_watermark=answer.high_watermark,
        next_offset=max(position, batches[-1].end_offset) if batches else position,
    )
