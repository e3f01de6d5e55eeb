"""Topic-partitions, their producers and consumers: histories of logs that keep every promise.

Owns the workload: each operation begins, takes effect whole, and ends, at three moments that the dice choose. A
consumer reads on from where it is, a producer's value goes to the end of its log. A transaction reads before it sends,
and what it sends stands together; one that fails leaves nothing. Of one of unknown outcome either nothing or all has
happened, and its process is not heard of again. In the end everything is read from the start.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.synth.plan import Newcomers, Placing, Plan

POLL_MAX = 10
FINAL_MAX = 500
MICRO_MAX = 3
AT_THE_END = "unseen"
"""This is planted when the workload is over: nobody may look behind it."""
FAIL_SHARE = 0.02
Record = tuple[int, int]


@dataclass(slots=True)
class Send:
    """One value for one log; ``offset`` is what its completion tells."""

    partition: int
    value: int | None
    offset: int | None = None
    epoch: int | None = None


@dataclass(slots=True)
class Poll:
    """One reading of one log from ``position`` on."""

    partition: int
    position: int
    records: list[Record] = field(default_factory=list)
    high_watermark: int | None = None
    limited: bool = False
    strict: bool = False
    seek: bool = False
    final: bool = False


@dataclass(slots=True)
class Call:
    """One operation; several of these are a transaction."""

    process: int
    micro: list[Send | Poll]
    type: str | None = None

    @property
    def partitions(self) -> set[int]:
        """The logs that it touches."""
        return {micro.partition for micro in self.micro}


class Recorder(Protocol):
    """Whoever writes down what happens, in order; each returns the index of the event."""

    def invoke(self, call: Call) -> int:
        """The operation begins."""
        ...

    def complete(self, call: Call, type: str) -> int:
        """It ends as this."""
        ...

    def take_all(self, process: int, partitions: list[int]) -> None:
        """A consumer takes these logs and begins at their start."""
        ...


@dataclass(slots=True)
class Partition:
    """What truly stands in one log: a value for each offset, None for a control record.

    What is planted in its replicas' logs: ``numbers`` of producers by offset, ``checksums`` by replica and offset,
    ``ends`` of the logs of replicas that are short; ``is_shown`` is false where nobody is to look in the end.
    """

    values: list[int | None] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    epoch: int = 1
    numbers: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    checksums: dict[tuple[int, int], int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    is_planted: bool = False
    is_shown: bool = True
    isr_restored: bool = True
    never_written: int = 0
    """Appends of unknown outcome that never happened; whoever judges cannot know it."""

    @property
    def end(self) -> int:
        """The offset behind the last one."""
        return len(self.values)

    def put(self, value: int | None) -> int:
        """Put a record, or a control record, at the end; returns its offset."""
        self.values.append(value)
        self.epochs.append(self.epoch)
        return self.end - 1

    def records(self, start: int, most: int) -> list[Record]:
        """The first values from ``start`` on."""
        found: list[Record] = []
        for offset in range(start, self.end):
            value = self.values[offset]
            if value is not None:
                found.append((offset, value))
                if len(found) == most:
                    break
        return found


Script = Callable[["LogWorld", Placing], None]


class LogWorld(Newcomers):
    """All logs and all processes of one history. ``scripts`` plant, when nothing is pending on their logs."""

    def __init__(
        self, plan: Plan, recorder: Recorder, scripts: dict[str, Script], placed: list[Placing], *, transactions: bool
    ) -> None:
        super().__init__(plan.processes)
        self.rng = random.Random(f"logs {plan.seed}")
        self.recorder = recorder
        self.logs = [Partition() for _ in range(plan.keys)]
        self.transactions = transactions
        self._plan = plan
        self._scripts = scripts
        self._waiting = {key: placing for placing in placed for key in placing.keys}
        self._served = [0] * plan.keys
        self._pending = [0] * plan.keys
        self._running: list[Call | None] = [None] * plan.processes
        self._names = list(range(plan.processes))
        self._positions: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """The workload, what is planted, and the reading of everything in the end."""
        begun = busy = 0
        while begun < self._plan.operations or busy:
            slot = self.rng.randrange(self._plan.processes)
            call = self._running[slot]
            if call is None:
                if begun < self._plan.operations and self._begin(slot):
                    begun, busy = begun + 1, busy + 1
            elif call.type is None:
                self._effect(call)
            else:
                self._end(slot, call)
                busy -= 1
        while self._waiting:
            self._plant(next(iter(self._waiting.values())))
        self._read_all()

    def _begin(self, slot: int) -> bool:
        call = Call(process=self._names[slot], micro=[])
        wanted = self.rng.randrange(1, MICRO_MAX + 1) if self.transactions else 1
        for partition in self.rng.sample(range(self._plan.keys), min(wanted, self._plan.keys)):
            if not self._is_open(partition):
                return False
            call.micro.append(self._micro(call.process, partition))
        self._running[slot] = call
        for partition in call.partitions:
            self._pending[partition] += 1
        self.recorder.invoke(call)
        return True

    def _micro(self, process: int, partition: int) -> Send | Poll:
        if self.rng.random() < 0.5:
            return Send(partition=partition, value=self.fresh())
        is_first = (process, partition) not in self._positions
        position = self._positions.get((process, partition), 0)
        is_sought = not self.transactions and not is_first and self.rng.random() < 0.05
        if is_sought:
            position = self.rng.randrange(self.logs[partition].end + 1)
        if is_first or is_sought:
            self._positions[(process, partition)] = position
        return Poll(partition=partition, position=position, seek=is_sought, strict=self.rng.random() < 0.2)

    def _is_open(self, partition: int) -> bool:
        """Whether the workload may use a log; what is to be planted is planted as soon as its logs are left alone."""
        placing = self._waiting.get(partition)
        if placing is None or placing.name == AT_THE_END:
            return True
        if max(self._served[key] for key in placing.keys) < placing.after:
            return True
        if any(self._pending[key] for key in placing.keys):
            return False
        self._plant(placing)
        return True

    def _plant(self, placing: Placing) -> None:
        for key in placing.keys:
            del self._waiting[key]
            self.logs[key].is_planted = True
        self._scripts[placing.name](self, placing)

    def _effect(self, call: Call) -> None:
        dice = self.rng.random()
        call.type = "info" if dice < self._plan.unknown_rate else "ok"
        if dice >= 1 - FAIL_SHARE and call.type == "ok":
            call.type = "fail"
        happens = call.type == "ok" or (call.type == "info" and self.rng.random() < 0.5)
        for micro in call.micro:
            if isinstance(micro, Poll) and call.type == "ok":
                self._poll(call, micro)
        for micro in call.micro:
            if isinstance(micro, Send) and happens:
                micro.offset = self.logs[micro.partition].put(micro.value)
                micro.epoch = self.logs[micro.partition].epoch
            elif isinstance(micro, Send):
                self.logs[micro.partition].never_written += call.type == "info"

    def _poll(self, call: Call, poll: Poll) -> None:
        log = self.logs[poll.partition]
        poll.records = log.records(poll.position, POLL_MAX)
        poll.limited = len(poll.records) == POLL_MAX
        poll.high_watermark = log.end
        if poll.records:
            self._positions[(call.process, poll.partition)] = poll.records[-1][0] + 1

    def _end(self, slot: int, call: Call) -> None:
        assert call.type is not None, f"{call} has not taken effect"
        self._running[slot] = None
        for partition in call.partitions:
            self._pending[partition] -= 1
            self._served[partition] += 1
        if call.type == "info":
            self._names[slot] = self.new_process()
            if self.rng.random() < 0.5:
                return
        self.recorder.complete(call, call.type)

    def _read_all(self) -> None:
        process = self.new_process()
        shown = [partition for partition, log in enumerate(self.logs) if log.is_shown]
        self.recorder.take_all(process, shown)
        for partition in shown:
            log, position, is_over = self.logs[partition], 0, False
            while not is_over:
                records = log.records(position, FINAL_MAX)
                is_over = len(records) < FINAL_MAX
                poll = Poll(partition=partition, position=position, records=records, high_watermark=log.end, final=True)
                poll.limited = not is_over
                call = Call(process=process, micro=[poll])
                self.recorder.invoke(call)
                self.recorder.complete(call, "ok")
                position = records[-1][0] + 1 if records else position
