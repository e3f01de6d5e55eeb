"""What one process does with one topic-partition: it appends, and reads on from its own position.

Owns how outcomes are recorded, in the words of ``nemesis.workload``: one operation at a time, and an append whose
outcome is unknown tells its process so, which then ends. Which operation comes next is the process's business.

In a cluster any replica answers a consumer (KIP-392), with what it knows to be committed; a reader goes to the leader
whom the answer names, or to anyone, as the climate says.
"""

from __future__ import annotations

from collections.abc import Callable
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


class Office(Protocol):
    """What a session needs of the clients that it is one of."""

    world: World
    record: Record
    climate: Climate
    dice: Random
    is_stopped: bool

    def acknowledge(self, log: TopicPartition) -> None:
        """A write was acknowledged."""


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

    def append(self, value: int, then: OnAppended, *, acks: int | None = None) -> None:
        """Append ``value`` once, and tell ``then`` what is known of it. What is not acknowledged by all is unknown.

        ``acks`` is as the climate says where it is absent.
        """
        self.record(EventType.INVOKE, APPEND, value=value)
        acks = self._draw_acks() if acks is None else acks
        batch = encode_batch([b"%d" % value], timestamp_ms=self._world.now_ms)

        def on_response(response: m.ProduceResponse | None) -> None:
            if response is None:
                self.fail_append(value, "nobody listens", then)
            elif response.error is ErrorCode.NONE and acks == ACKS_ALL:
                self.acknowledge(value, response, then)
            elif response.error is ErrorCode.NONE:
                self.give_up(value, f"acks={acks}", then)
            elif write_definitely_failed(response.error, not_appended=response.not_appended):
                self.fail_append(value, response.error, then)
            else:
                self.give_up(value, response.error, then)

        self.produce(batch.data, acks, on_response, lambda: self.give_up(value, "no answer in time", then))

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

    def acknowledge(self, value: int, response: m.ProduceResponse, then: OnAppended) -> None:
        """The append was acknowledged, at the offset that the response names."""
        self._office.acknowledge(self.log)
        placed = {"offset": response.base_offset, "leader_epoch": response.leader_epoch}
        self.record(EventType.OK, APPEND, value=value, node=self._caller.target, **placed)
        then(EventType.OK)

    def fail_append(self, value: int, error: str, then: OnAppended) -> None:
        """The append certainly did not happen."""
        self.record(EventType.FAIL, APPEND, error=error, value=value)
        then(EventType.FAIL)

    def give_up(self, value: int, error: str, then: OnAppended) -> None:
        """Nobody knows what became of the append."""
        self.record(EventType.INFO, APPEND, value=value, error=error)
        then(EventType.INFO)

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
            if answer.error is not ErrorCode.NONE:
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
