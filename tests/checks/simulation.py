"""Random runs: a clean log with overlapping operations, and small lies told about it.

A run is a pure function of its seed. A clean one keeps every promise; each lie changes one cell, so that between none
and a few anomalies show. Which they are is for the brute-force judge to say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.checks.histories import Row, append, became_leader, poll, replica_log

PROCESSES = 4
STEPS = 60


@dataclass
class Simulation:
    """The state of a run that is being made up."""

    rng: random.Random
    gapless: bool
    offset: int = 0
    value: int = 0
    epoch: int = 1
    clock: int = 0
    placed: dict[int, tuple[int, int]] = field(default_factory=dict)
    control: dict[int, int] = field(default_factory=dict)
    pending: dict[int, Row] = field(default_factory=dict)
    position: dict[int, int] = field(default_factory=dict)
    operations: list[Row] = field(default_factory=list)

    def tick(self) -> int:
        """The index of the next event."""
        self.clock += 1
        return self.clock - 1

    def step(self, process: int) -> None:
        """Let one process go on: invoke, take effect, return."""
        row = self.pending.get(process)
        if row is None:
            self.invoke(process)
        elif "effect" not in row:
            self.take_effect(row)
        else:
            self.complete(process, row)

    def invoke(self, process: int) -> None:
        """Begin an append or a poll."""
        if not self.gapless and self.rng.random() < 0.15:
            self.epoch += self.rng.randrange(2)
            self.control[self.offset] = self.epoch
            self.offset += 1
        if self.rng.random() < 0.5:
            self.value += 1
            row = append((self.tick(), None), self.value, process=process, type="info", node=self.rng.randrange(3))
        else:
            first = process not in self.position
            seek = not first and self.rng.random() < 0.1
            at = self.rng.randrange(self.offset + 1) if first or seek else self.position[process]
            row = poll((self.tick(), None), at, process=process, type="info", seek=seek, records=None)
            row["strict"] = self.rng.random() < 0.3
            if seek:
                self.position[process] = at
        self.pending[process] = row
        self.operations.append(row)

    def take_effect(self, row: Row) -> None:
        """The moment at which the operation happens, if it does."""
        row["effect"] = None
        if row["f"] == "append":
            if self.rng.random() < 0.9:
                row["effect"] = self.offset
                self.placed[self.offset] = (row["value"], self.epoch)
                self.offset += 1
            return
        limit = self.rng.choice([2, 3, 100])
        found = [(offset, value) for offset, (value, _) in sorted(self.placed.items()) if offset >= row["position"]]
        row["effect"] = [{"offset": offset, "value": value} for offset, value in found[:limit]]
        row["limited"] = len(found) >= limit
        row["high_watermark"] = self.offset

    def complete(self, process: int, row: Row) -> None:
        """Return what happened, or give up on it."""
        del self.pending[process]
        happened, known = row["effect"], self.rng.random() < 0.85
        if not known:
            if self.rng.random() < 0.5:
                return
            row["return_index"] = self.tick()
            if happened is None:
                row["type"] = "fail"
        elif happened is None:
            row |= {"return_index": self.tick(), "type": "fail"}
        else:
            row |= {"return_index": self.tick(), "type": "ok"}
            if row["f"] == "append":
                row |= {"offset": happened, "leader_epoch": self.placed[happened][1]}
            else:
                row["records"] = happened
        if row["f"] == "poll" and row["type"] == "ok":
            self.position.setdefault(process, row["position"])
        if row["records"]:
            self.position[process] = row["records"][-1]["offset"] + 1

    def finish(self) -> None:
        """Give up what is open; then one final read, by one poll or two."""
        for row in self.pending.values():
            row["return_index"] = None
        found = [(offset, value) for offset, (value, _) in sorted(self.placed.items())]
        cut = self.rng.randrange(len(found) + 1)
        chunks = [(0, found)] if cut == 0 else [(0, found[:cut]), (found[cut - 1][0] + 1, found[cut:])]
        for position, records in chunks if self.rng.random() < 0.7 else ():
            limited = records is not chunks[-1][1]
            span = (self.tick(), self.tick())
            self.operations.append(poll(span, position, *records, f="final-read", process=PROCESSES, limited=limited))

    def logs(self) -> list[Row]:
        """The same log on three replicas, one of them behind."""
        rows: list[Row] = []
        for replica_id in range(3):
            end = self.offset if replica_id else self.rng.randrange(self.offset + 1)
            batches = [
                (self.placed[offset][1], [self.placed[offset][0]])
                if offset in self.placed
                else (self.control[offset], None)
                for offset in range(end)
            ]
            complete = self.rng.random() < 0.8
            watermark = self.rng.choice([end, max(end - 1, 0), None])
            rows += replica_log(replica_id, batches, complete=complete, high_watermark=watermark)
        return rows


@dataclass(frozen=True)
class Run:
    """What a run left behind, as rows."""

    operations: list[Row]
    logs: list[Row]
    events: list[Row]
    gapless: bool


def simulate(seed: int, lies: int) -> Run:
    """A run with this many lies."""
    rng = random.Random(seed)
    simulation = Simulation(rng=rng, gapless=rng.random() < 0.3)
    for _ in range(STEPS):
        simulation.step(rng.randrange(PROCESSES))
    simulation.finish()
    logs = simulation.logs() if rng.random() < 0.6 else []
    for row in simulation.operations:
        row.pop("effect", None)
        row["return_ns"] = None if row["return_index"] is None else row["return_index"] * 1000
    events = [became_leader(rng.randrange(3), epoch) for epoch in range(1, simulation.epoch + 1)]
    run = Run(operations=simulation.operations, logs=logs, events=events, gapless=simulation.gapless)
    for _ in range(lies):
        rng.choice(LIES)(rng, run)
    return run


def _reads(run: Run) -> list[Row]:
    return [row for row in run.operations if row["records"]]


def _lie_about_a_value(rng: random.Random, run: Run) -> None:
    for row in _reads(run)[:1]:
        rng.choice(row["records"])["value"] = rng.randrange(20)


def _lie_about_an_offset(rng: random.Random, run: Run) -> None:
    reads = _reads(run)
    if reads:
        record = rng.choice(rng.choice(reads)["records"])
        record["offset"] = max(record["offset"] + rng.choice([-2, -1, 1, 2, 10**12]), 0)


def _hide_a_record(rng: random.Random, run: Run) -> None:
    reads = _reads(run)
    if reads:
        records = rng.choice(reads)["records"]
        records.pop(rng.randrange(len(records)))


def _repeat_a_record(rng: random.Random, run: Run) -> None:
    reads = _reads(run)
    if reads:
        records = rng.choice(reads)["records"]
        records.insert(rng.randrange(len(records)), dict(rng.choice(records)))


def _hide_a_value(rng: random.Random, run: Run) -> None:
    value = rng.randrange(1, 15)
    for row in _reads(run):
        row["records"][:] = [record for record in row["records"] if record["value"] != value]
    for row in run.logs:
        if row["values"] == [value] and rng.random() < 0.5:
            row |= {"values": None, "is_control": True, "crc": 1}


def _move_an_append(rng: random.Random, run: Run) -> None:
    acked = [row for row in run.operations if row["f"] == "append" and row["offset"] is not None]
    if acked:
        row = rng.choice(acked)
        row["offset"] = rng.choice([None, max(row["offset"] + rng.choice([-2, -1, 1, 2]), 0)])


def _fail_an_append(rng: random.Random, run: Run) -> None:
    ended = [row for row in run.operations if row["f"] == "append" and row["return_index"] is not None]
    if ended:
        rng.choice(ended).update(type="fail", offset=None, leader_epoch=None)


def _lower_a_high_watermark(rng: random.Random, run: Run) -> None:
    reads = _reads(run)
    if reads:
        row = rng.choice(reads)
        row["high_watermark"] = row["records"][-1]["offset"] + rng.randrange(2)


def _forget_the_limit(rng: random.Random, run: Run) -> None:
    for row in run.operations:
        if row["f"] != "append":
            row |= {"limited": False, "strict": row["strict"] or rng.random() < 0.5}


def _forget_a_seek(rng: random.Random, run: Run) -> None:
    for row in run.operations:
        row["seek"] = row["seek"] and rng.random() < 0.5


def _change_an_epoch(rng: random.Random, run: Run) -> None:
    rows = [row for row in run.operations if row["leader_epoch"] is not None] + run.logs
    if rows:
        row = rng.choice(rows)
        row["leader_epoch"] = max(row["leader_epoch"] + rng.choice([-1, 1]), 0)


def _change_a_batch(rng: random.Random, run: Run) -> None:
    if run.logs:
        row = rng.choice(run.logs)
        row |= rng.choice(
            [{"crc": 5}, {"values": [rng.randrange(20)], "crc": 6, "is_control": False}, {"values": None}]
        )


def _cut_two_logs(rng: random.Random, run: Run) -> None:
    end = rng.randrange(1, 12)
    two = rng.sample(range(3), 2)
    run.logs[:] = [row for row in run.logs if row["replica_id"] not in two or row["base_offset"] < end]
    for row in run.logs:
        if row["replica_id"] in two and row["log_end_offset"] > end:
            row |= {"log_end_offset": end, "high_watermark": min(row["high_watermark"] or 0, end)}


LIES: tuple[Callable[[random.Random, Run], None], ...] = (
    _lie_about_a_value,
    _lie_about_an_offset,
    _hide_a_record,
    _repeat_a_record,
    _hide_a_value,
    _move_an_append,
    _fail_an_append,
    _lower_a_high_watermark,
    _forget_the_limit,
    _forget_a_seek,
    _change_an_epoch,
    _change_a_batch,
    _cut_two_logs,
)
