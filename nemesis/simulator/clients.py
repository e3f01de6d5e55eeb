"""The clients of a simulated world: the workload ``append`` without an event loop.

Owns what a simulated process does and how its outcomes are recorded, in the words of ``nemesis.workload``: a process
does one operation at a time and reads on from its own position; an append whose outcome is unknown ends its process,
and a new one takes its place. Each process has its own opinion of who leads, so that some still ask an old leader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from nemesis.history import APPEND, FINAL_READ, POLL, EventType, PolledRecord
from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import US_PER_MS, US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import LOG, World
from replica.core import messages as m
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import Offset
from replica.records import CorruptRecordError, decode_records, encode_batch, parse_batches

PRODUCE_TIMEOUT_MS = 1_500
CLIENT_TIMEOUT_MS = 2_000
POLL_BYTES_MAX = 64 << 10
LONG_POLL_MS = 300
"""How long some polls wait at the end of the log for more."""


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


class Clients:
    """``climate.concurrency`` processes at a time, ``climate.rate`` operations a second together.

    With ``values_max``, no process appends once so many values were given out.
    """

    def __init__(
        self, world: World, record: Record, climate: Climate, dice: Random, *, values_max: int | None = None
    ) -> None:
        self.world = world
        self.record = record
        self.climate = climate
        self.dice = dice
        self.acknowledged = 0
        self.is_stopped = False
        self.values_max = values_max
        self._next_value = 1
        self._next_process = 0

    def start(self) -> None:
        """Let the processes begin."""
        for _ in range(self.climate.concurrency):
            Process(self, position=0).pause_then_go()

    @property
    def has_values(self) -> bool:
        """Whether there are values left to append."""
        return self.values_max is None or self._next_value <= self.values_max

    def new_value(self) -> int:
        """A value that nobody had before."""
        value, self._next_value = self._next_value, self._next_value + 1
        return value

    def new_process(self) -> int:
        """A process number that nobody had before."""
        process, self._next_process = self._next_process, self._next_process + 1
        return process


class Process:
    """One process: a number, a position, an opinion of who leads, and at most one operation under way."""

    def __init__(self, clients: Clients, *, position: int) -> None:
        self._clients = clients
        self._world = clients.world
        self._dice = clients.dice
        self._number = clients.new_process()
        self._position = position
        self._has_polled = False
        self._target = self._dice.choice(tuple(self._world.nodes))
        self._operation = 0
        self.has_read_to_the_end = False

    def pause_then_go(self) -> None:
        """Do an operation some time, and then the next, until the clients are stopped."""
        mean_s = self._clients.climate.concurrency / self._clients.climate.rate
        self._world.queue.after(int(self._dice.expovariate(1 / mean_s) * US_PER_S), self._go)

    def _go(self) -> None:
        if self._clients.is_stopped:
            return
        if self._dice.random() < self._clients.climate.appends and self._clients.has_values:
            self._append(self._clients.new_value())
        else:
            self._poll()

    # --- appending --------------------------------------------------------------------------------------------------

    def _append(self, value: int) -> None:
        self._record(EventType.INVOKE, APPEND, value=value)
        batch = encode_batch([b"%d" % value], timestamp_ms=self._world.now_ms)
        request = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, records=batch.data)

        def on_reply(response: m.Response | None) -> None:
            if response is None:
                self._turn()
                self._fail(APPEND, "nobody listens", value=value)
                return
            assert isinstance(response, m.ProduceResponse), response
            if response.error is ErrorCode.NONE:
                self._clients.acknowledged += 1
                placed = {"offset": response.base_offset, "leader_epoch": response.leader_epoch}
                self._record(EventType.OK, APPEND, value=value, node=self._target, **placed)
                self.pause_then_go()
            elif write_definitely_failed(response.error, not_appended=response.not_appended):
                self._follow(response.current_leader)
                self._fail(APPEND, response.error, value=value)
            else:
                self._give_way(value, response.error)

        self._ask(request, on_reply, lambda: self._give_way(value, "no answer in time"))

    def _give_way(self, value: int, error: str) -> None:
        """The outcome is unknown: this process ends, another reads on from here."""
        self._record(EventType.INFO, APPEND, value=value, error=error)
        Process(self._clients, position=self._position).pause_then_go()

    # --- reading ----------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        self._record(EventType.INVOKE, POLL, offset=self._position, seek=not self._has_polled)
        self._has_polled = True

        def on_read(read: Read | str) -> None:
            if isinstance(read, str):
                self._fail(POLL, read)
                return
            self._ok_read(POLL, read, limited=not read.reached_end)
            self.pause_then_go()

        self._fetch(on_read)

    def read_to_the_end(self) -> None:
        """Read from offset 0 to the log's end, when everything is there to be read."""
        self._record(EventType.INVOKE, FINAL_READ, offset=self._position, seek=True)

        def on_read(read: Read | str) -> None:
            if isinstance(read, str):
                self._record(EventType.FAIL, FINAL_READ, error=read)
                self._world.queue.after(100 * US_PER_MS, self.read_to_the_end)
                return
            self._ok_read(FINAL_READ, read, limited=not read.reached_end)
            if read.reached_end:
                self.has_read_to_the_end = True
            else:
                self.read_to_the_end()

        self._fetch(on_read)

    def _ok_read(self, f: str, read: Read, *, limited: bool) -> None:
        self._position = read.next_offset
        fields = {"records": read.records, "high_watermark": read.high_watermark, "node": self._target}
        self._record(EventType.OK, f, limited=limited, **fields)

    def _fetch(self, on_read: Callable[[Read | str], None]) -> None:
        request = m.FetchRequest(
            topic_partition=LOG,
            fetch_offset=Offset(self._position),
            max_bytes=POLL_BYTES_MAX,
            max_wait_ms=self._dice.choice((0, LONG_POLL_MS)),
        )

        def on_reply(response: m.Response | None) -> None:
            if response is None:
                self._turn()
                on_read("nobody listens")
                return
            assert isinstance(response, m.FetchResponse), response
            if response.error is not ErrorCode.NONE:
                self._follow(response.current_leader)
                on_read(response.error)
            elif response.high_watermark is None:
                on_read("the high watermark is not known yet")
            else:
                on_read(read_of(response, self._position))

        def on_silence() -> None:
            self._turn()
            on_read("no answer in time")

        self._ask(request, on_reply, on_silence)

    # --- asking -----------------------------------------------------------------------------------------------------

    def _ask(
        self, request: m.Request, on_reply: Callable[[m.Response | None], None], on_silence: Callable[[], None]
    ) -> None:
        """Ask the replica that seems to lead; exactly one of the two is called."""
        self._operation += 1
        operation = self._operation

        def reply(response: m.Response | None) -> None:
            if self._operation == operation:
                self._operation += 1
                on_reply(response)

        def silence() -> None:
            if self._operation == operation:
                self._operation += 1
                on_silence()

        self._world.ask(self._target, request, reply)
        self._world.queue.after(CLIENT_TIMEOUT_MS * US_PER_MS, silence)

    def _follow(self, leader: m.CurrentLeader | None) -> None:
        """Ask the named leader next, or anyone."""
        if leader is not None and leader.leader_id is not None and leader.leader_id != self._target:
            self._target = leader.leader_id
        else:
            self._turn()

    def _turn(self) -> None:
        others = [node for node in self._world.nodes if node != self._target]
        self._target = self._dice.choice(others or [self._target])

    def _fail(self, f: str, error: str, **fields: int) -> None:
        self._record(EventType.FAIL, f, error=error, **fields)
        self.pause_then_go()

    def _record(self, kind: EventType, f: str, **fields: object) -> None:
        self._clients.record.client(self._number, kind, f, **fields)


def read_of(response: m.FetchResponse, position: int) -> Read:
    """What an answer to a fetch brings from ``position`` on; damaged records in it convict whoever sent them."""
    assert response.high_watermark is not None, response
    try:
        batches = parse_batches(response.records)
    except CorruptRecordError as error:
        raise BrokenInvariantError("damage-served", f"a consumer was sent damaged records: {error}") from error
    records = [record for batch in batches if not batch.is_control for record in decode_records(batch)]
    return Read(
        records=tuple(
            PolledRecord(offset=record.offset, value=int(record.value or b"-1"))
            for record in records
            if record.offset >= position
        ),
        high_watermark=response.high_watermark,
        next_offset=max(position, batches[-1].end_offset) if batches else position,
    )
