"""The judge of transactions that is too slow to use and too simple to be wrong: every rule as loops over operations.

Shares no code with the checks, nor with the reader that they get their columns from. Positions, logs and circles are
found by looking at everything, again and again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.checks.histories import Row
from tests.checks.transactions import KEYS, Op

Found = tuple[Any, ...]
VIOLATION, ALLOWED, UNKNOWN = "violation", "allowed", "unknown"
CIRCLES: dict[tuple[str, str], tuple[str, ...]] = {
    ("G1c", VIOLATION): ("wr",),
    ("G1c-process", VIOLATION): ("wr", "process"),
    ("G1c-realtime", VIOLATION): ("wr", "process", "realtime"),
    ("G0", ALLOWED): ("ww",),
    ("G0-process", ALLOWED): ("ww", "process"),
    ("G0-realtime", ALLOWED): ("ww", "process", "realtime"),
    ("G1c", ALLOWED): ("ww", "wr"),
    ("G1c-process", ALLOWED): ("ww", "wr", "process"),
    ("G1c-realtime", ALLOWED): ("ww", "wr", "process", "realtime"),
}
"""The edges that each circle may have, simpler ones first."""


def identity(row: Row) -> Found:
    """What of a row must agree: its kind, its log, and the operation, value or offset that it convicts."""
    evidence = json.loads(row["evidence"])
    match row["anomaly"]:
        case "inconsistent-offsets":
            about: Any = row["offsets"][0]
        case "duplicate":
            about = evidence["seen"][0]["value"]
        case "phantom-read" | "aborted-read" | "future-read":
            about = evidence["value"]
        case "lost-write" | "precommitted-read":
            about = (row["op_indexes"][0], evidence["value"])
        case "unseen":
            about = tuple(sorted(row["op_indexes"]))
        case _:
            about = row["op_indexes"][-1]
    return (row["anomaly"], row["severity"], row["topic_partition"], about)


class BruteTransactions:
    """One history, judged log by log and then as a whole."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = sorted(ops, key=lambda op: op.index)
        self.seen: dict[int, list[tuple[int, int, int]]] = {}
        self.happened = {op.index for op in self.ops if op.type == "ok" or self.is_committed(op)}

    def is_committed(self, op: Op) -> bool:
        """Of unknown outcome, and something that it sent was read."""
        return op.type == "info" and any(
            any(value == micro.value for _, value in reader.reads(micro.key))
            for micro in op.micro
            if micro.is_send
            for reader in self.ops
            if reader.type == "ok"
        )

    def found(self) -> Iterator[Found]:
        """All but circles."""
        for key in KEYS:
            for name, severity, about in self.of(key):
                yield (name, severity, str(key), about)

    def of(self, key: int) -> Iterator[Found]:
        """All rules for one log."""
        yield from self.contradictions(key)
        yield from self.provenance(key)
        yield from self.losses(key)
        yield from self.polls(key)
        yield from self.sends(key)
        yield from self.real_time(key)

    def sightings(self, key: int) -> list[tuple[int, int, int]]:
        """(offset, value, operation) of everything that is known to have been there."""
        if key not in self.seen:
            self.seen[key] = self.looked_up(key)
        return self.seen[key]

    def looked_up(self, key: int) -> list[tuple[int, int, int]]:
        """The same, looked up."""
        seen = [(offset, value, op.index) for op in self.ops for offset, value in op.reads(key)]
        for op in self.ops:
            if op.index in self.happened:
                seen += [(m.offset, m.value, op.index) for m in op.sends(key) if m.offset is not None]
        return seen

    def contradictions(self, key: int) -> Iterator[Found]:
        seen = self.sightings(key)
        for offset in {offset for offset, *_ in seen}:
            if len({value for at, value, _ in seen if at == offset}) > 1:
                yield ("inconsistent-offsets", VIOLATION, offset)
        for value in {value for _, value, _ in seen}:
            if len({at for at, other, _ in seen if other == value}) > 1:
                yield ("duplicate", VIOLATION, value)

    def provenance(self, key: int) -> Iterator[Found]:
        for value in {value for _, value, _ in self.sightings(key)}:
            writers = [op for op in self.ops for micro in op.sends(key) if micro.value == value]
            readers = [op for op in self.ops if any(v == value for _, v in op.reads(key))]
            if not writers:
                yield ("phantom-read", VIOLATION, value)
            elif all(op.type == "fail" for op in writers) and any(op.type == "ok" for op in readers):
                yield ("aborted-read", VIOLATION, value)
            ended = [op.end for op in readers if op.type == "ok" and op.end is not None]
            if writers and ended and min(ended) < min(op.index for op in writers):
                yield ("future-read", VIOLATION, value)
        for op in self.ops:
            for micro in op.sends(key):
                if any(value == micro.value for _, value in op.reads(key)):
                    yield ("precommitted-read", VIOLATION, (op.index, micro.value))

    def losses(self, key: int) -> Iterator[Found]:
        ok_reads = [record for op in self.ops if op.type == "ok" for record in op.reads(key)]
        bound = max((offset for offset, _ in ok_reads), default=-1)
        unseen = []
        for op in self.ops:
            for micro in op.sends(key):
                if op.index not in self.happened or any(value == micro.value for _, value in ok_reads):
                    continue
                places = [at for at, value, _ in self.sightings(key) if value == micro.value]
                last = max(places, default=None) if micro.offset is None else micro.offset
                if last is not None and last <= bound:
                    yield ("lost-write", VIOLATION, (op.index, micro.value))
                elif op.type == "ok":
                    unseen.append(op.index)
        if unseen:
            yield ("unseen", UNKNOWN, tuple(sorted(unseen)))

    def polls(self, key: int) -> Iterator[Found]:
        known = {offset for offset, *_ in self.sightings(key)}
        expected: dict[int, int | None] = {}
        modes: dict[int, str] = {}
        for op in self.ops:
            if op.f in ("assign", "subscribe") and op.type != "fail":
                left = modes.get(op.process) == "subscribe" and op.f == "assign"
                modes[op.process] = op.f
                if key not in op.keys or op.seek or left:
                    expected[op.process] = None
            offsets = [offset for offset, _ in op.reads(key)]
            if not offsets:
                continue
            severity = ALLOWED if modes.get(op.process) == "subscribe" else VIOLATION
            want = expected.get(op.process)
            if want is not None and min(offsets) < want:
                yield ("nonmonotonic-poll", severity, op.index)
            if want is not None and any(want <= offset < min(offsets) for offset in known):
                yield ("poll-skip", severity, op.index)
            if key not in op.moved:
                if any(second <= first for first, second in pairwise(offsets)):
                    yield ("int-nonmonotonic-poll", VIOLATION, op.index)
                if any(min(offsets) < offset < max(offsets) and offset not in offsets for offset in known):
                    yield ("int-poll-skip", VIOLATION, op.index)
            if op.type == "ok":
                expected[op.process] = max(offsets) + 1

    def place(self, key: int, op: Op, value: int, offset: int | None) -> int | None:
        """Where a send stands."""
        if op.type == "fail":
            return None
        if op.index in self.happened and offset is not None:
            return offset
        seen = [(index, at) for at, other, index in self.sightings(key) if other == value]
        return min(seen)[1] if seen else None

    def sends(self, key: int) -> Iterator[Found]:
        known = {offset for offset, *_ in self.sightings(key)}
        came: dict[int, int] = {}
        for op in self.ops:
            places = [self.place(key, op, micro.value, micro.offset) for micro in op.sends(key)]
            at = [place for place in places if place is not None]
            if at and at[0] <= came.get(op.process, -1):
                yield ("nonmonotonic-send", VIOLATION, op.index)
            for first, second in pairwise(at):
                if second <= first:
                    yield ("int-nonmonotonic-send", VIOLATION, op.index)
                if any(first < offset < second for offset in known):
                    yield ("int-send-skip", ALLOWED, op.index)
            if at and op.type == "ok":
                came[op.process] = at[-1]

    def real_time(self, key: int) -> Iterator[Found]:
        for op in self.ops:
            longest = 0
            for other in self.ops:
                if other.type == "ok" and other.end is not None and other.end < op.index:
                    shown = [offset for offset, _ in other.reads(key)]
                    shown += [micro.offset for micro in other.sends(key) if micro.offset is not None]
                    longest = max([longest, *(offset + 1 for offset in shown)])
            for micro in op.sends(key):
                place = self.place(key, op, micro.value, micro.offset)
                if place is not None and place < longest:
                    yield ("realtime-reorder", VIOLATION, op.index)

    # --- circles

    def edges(self) -> dict[str, set[tuple[int, int]]]:
        """Who stands before whom, by kind."""
        found: dict[str, set[tuple[int, int]]] = {"ww": set(), "wr": set(), "process": set()}
        for key in KEYS:
            writer: dict[int, int] = {}
            for op in self.ops:
                if op.index in self.happened:
                    for micro in op.sends(key):
                        writer.setdefault(micro.value, op.index)
            for op in self.ops:
                if op.type == "ok":
                    writers = {writer[value] for _, value in op.reads(key) if value in writer}
                    found["wr"] |= {(index, op.index) for index in writers if index != op.index}
            order = self.versions(key, writer)
            found["ww"] |= {(writer[a], writer[b]) for a, b in pairwise(order) if writer[a] != writer[b]}
        done = [op for op in self.ops if op.index in self.happened and self.touches(op.index)]
        pairs = [(a, b) for a in done for b in done if a.index < b.index]
        found["process"] = {(a.index, b.index) for a, b in pairs if a.process == b.process}
        answered = [(a, b) for a, b in pairs if a.type == "ok" and a.end is not None and a.end < b.index]
        found["realtime"] = {(a.index, b.index) for a, b in answered}
        return found

    def touches(self, index: int) -> bool:
        """Whether an operation sent something, or was told of a log: others are in none."""
        op = next(op for op in self.ops if op.index == index)
        return any(micro.is_send or micro.polled for micro in op.micro)

    def versions(self, key: int, writer: dict[int, int]) -> list[int]:
        """The written values of a log in order, one for each offset."""
        places: dict[int, tuple[int, int, int]] = {}
        for value in writer:
            seen = [(index, at) for at, other, index in self.sightings(key) if other == value]
            if seen:
                index, at = min(seen)
                if at not in places or (index, value) < places[at][:2]:
                    places[at] = (index, value, at)
        return [places[at][1] for at in sorted(places)]


def shortest(edges: set[tuple[int, int]]) -> int:
    """How many edges the smallest circle has; 0 where there is none."""
    following: dict[int, set[int]] = {}
    for before, after in edges:
        following.setdefault(before, set()).add(after)
    lengths = [length for start in following if (length := back_to(start, following))]
    return min(lengths, default=0)


def back_to(start: int, following: dict[int, set[int]]) -> int:
    """In how many steps one comes back; 0 if never."""
    layer, seen, steps = {start}, set[int](), 0
    while layer:
        layer, steps = {after for node in layer for after in following.get(node, ())} - seen, steps + 1
        if start in layer:
            return steps
        seen |= layer
    return 0
