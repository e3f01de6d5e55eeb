"""The judge that is too slow to use and too simple to be wrong: every rule as loops over rows.

Shares no code with the checks. Each function gives the identities of what it convicts, in the words of ``identity``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

from tests.checks.histories import Row
from tests.checks.simulation import Run

Found = tuple[Any, ...]


def identity(row: Row) -> Found:
    """What of an anomaly row must agree: its kind, and the place or the operation that it convicts."""
    match row["anomaly"]:
        case "unseen":
            about: Any = tuple(sorted(row["op_indexes"]))
        case "lost-write":
            about = row["op_indexes"][0]
        case (
            "nonmonotonic-poll"
            | "poll-skip"
            | "int-nonmonotonic-poll"
            | "int-poll-skip"
            | "nonmonotonic-send"
            | "uncommitted-read"
            | "stale-read"
            | "realtime-reorder"
        ):
            about = row["op_indexes"][-1]
        case "epoch-regression" | "fenced-acknowledgement" if row["op_indexes"]:
            about = row["op_indexes"][-1]
        case "two-leaders":
            about = (tuple(row["replicas"]), json.loads(row["evidence"])["epoch"])
        case "phantom-read" | "aborted-read" | "future-read":
            about = json.loads(row["evidence"])["value"]
        case "hole":
            about = None
        case _:
            about = (tuple(row["offsets"]), tuple(row["replicas"]) if not row["op_indexes"] else ())
    return (row["anomaly"], row["severity"], about)


def brute_force(run: Run) -> set[Found]:
    """The identities of everything that is wrong with the run."""
    return set(Brute(run).found())


class Brute:
    """One run, as the lists that every rule walks along."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.appends = [row for row in run.operations if row["f"] == "append"]
        self.acked = [row for row in self.appends if row["type"] == "ok"]
        self.polls = [row for row in run.operations if row["f"] != "append" and row["type"] == "ok"]
        self.replicas: dict[int, list[Row]] = defaultdict(list)
        for row in run.logs:
            self.replicas[row["replica_id"]].append(row)
        self.sightings = list(self.observed())
        self.known = {offset for offset, *_ in self.sightings}

    def found(self) -> Iterator[Found]:
        """Every rule in turn."""
        yield from self.contradictions()
        yield from self.provenance()
        lost = self.lost()
        violations = {about for severity, about in lost if severity == "violation"}
        yield from (("lost-write", severity, about) for severity, about in lost)
        yield from self.unseen({about for _, about in lost} | violations)
        yield from self.sessions()
        yield from self.sends()
        yield from self.real_time()
        yield from self.epochs()
        yield from self.diverged()
        yield from self.leaders()
        if self.run.gapless and self.has_hole():
            yield ("hole", "violation", None)

    # --- what was seen

    def vouched(self, replica_id: int) -> int:
        rows = self.replicas[replica_id]
        read_to = max(row["last_offset"] for row in rows) + 1
        return int(min(rows[0]["high_watermark"] or 0, read_to))

    def observed(self) -> Iterator[tuple[int, int, int | None, int | None]]:
        """(offset, value, operation, replica)"""
        for row in self.acked:
            if row["offset"] is not None:
                yield row["offset"], row["value"], row["invoke_index"], None
        for row in self.polls:
            for record in row["records"]:
                yield record["offset"], record["value"], row["invoke_index"], None
        for replica_id, rows in self.replicas.items():
            for row in rows:
                if row["values"] and not row["is_control"] and row["base_offset"] < self.vouched(replica_id):
                    yield row["base_offset"], row["values"][0], None, replica_id

    def contradictions(self) -> Iterator[Found]:
        values, offsets = defaultdict(set), defaultdict(set)
        for offset, value, *_ in self.sightings:
            values[offset].add(value)
            offsets[value].add(offset)
        for offset, found in values.items():
            if len(found) > 1:
                yield self.contradiction("inconsistent-offsets", {offset}, found)
        for value, places in offsets.items():
            if len(places) > 1:
                yield self.contradiction("duplicate", places, {value})

    def contradiction(self, name: str, offsets: set[int], values: set[int]) -> Found:
        witnesses = [s for s in self.sightings if s[0] in offsets and s[1] in values]
        first = []
        for place in {(s[0], s[1]) for s in witnesses}:
            sightings = [s for s in witnesses if (s[0], s[1]) == place]
            first.append(min(sightings, key=lambda s: (s[2] is None, s[2] or 0, s[3] or 0)))
        if any(s[2] is not None for s in first):
            return (name, "violation", (tuple(sorted(offsets)), ()))
        return (name, "violation", (tuple(sorted(offsets)), tuple(sorted({s[3] for s in first if s[3] is not None}))))

    def provenance(self) -> Iterator[Found]:
        for value in {value for _, value, *_ in self.sightings}:
            outcomes = [row["type"] for row in self.appends if row["value"] == value]
            if not outcomes:
                yield ("phantom-read", "violation", value)
            elif all(outcome == "fail" for outcome in outcomes):
                yield ("aborted-read", "violation", value)
        for value in {value for _, value, *_ in self.sightings}:
            begins = [row["invoke_index"] for row in self.appends if row["value"] == value]
            ends = [p["return_index"] for p in self.polls for r in p["records"] if r["value"] == value]
            if begins and ends and min(ends) < min(begins):
                yield ("future-read", "violation", value)

    # --- losses

    def lost(self) -> set[tuple[str, int]]:
        return {(severity, row["invoke_index"]) for row in self.acked if (severity := self.loss(row))}

    def loss(self, row: Row) -> str | None:
        if self.passed_over(row) or self.absent_from_final_read(row):
            return "violation"
        found = (self.absent_from_logs(row), self.absent_from_majority(row))
        return "violation" if "violation" in found else found[0] or found[1]

    def passed_over(self, row: Row) -> bool:
        offset, value = row["offset"], row["value"]
        if any(r["value"] == value for p in self.polls for r in p["records"]):
            return False
        if offset is None:
            offset = max((at for at, shown, *_ in self.sightings if shown == value), default=None)
        if offset is None:
            return False
        for read in self.polls:
            offsets = [record["offset"] for record in read["records"]]
            if offsets and min(read["position"], *offsets, 10**18) <= offset <= max(offsets):
                return True
        return False

    def absent_from_final_read(self, row: Row) -> bool:
        for read in self.polls:
            if read["f"] != "final-read" or row["return_index"] > read["invoke_index"]:
                continue
            if any(record["value"] == row["value"] for record in read["records"]):
                continue
            offsets = [record["offset"] for record in read["records"]]
            end = (max(offsets) if offsets else -1) if read["limited"] else 10**18
            if row["offset"] is None:
                if read["position"] == 0 and not read["limited"]:
                    return True
            elif read["position"] <= row["offset"] <= end:
                return True
        return False

    def absent_from_logs(self, row: Row) -> str | None:
        for replica_id in sorted(self.replicas):
            rows = self.replicas[replica_id]
            if row["offset"] is None or not rows[0]["complete"] or row["offset"] >= self.vouched(replica_id):
                continue
            batch = next(entry for entry in rows if entry["base_offset"] == row["offset"])
            if batch["values"] is None and not batch["is_control"]:
                return "unknown"
            if batch["is_control"] or batch["values"] != [row["value"]]:
                return "violation"
        return None

    def absent_from_majority(self, row: Row) -> str | None:
        whole = [replica_id for replica_id, rows in self.replicas.items() if rows[0]["complete"]]
        nodes = {entry["node"] for entry in self.run.operations if entry["node"] is not None}
        if row["offset"] is None:
            return None
        without = [
            entries
            for entries in (self.replicas[replica_id] for replica_id in whole)
            if not any(entry["values"] == [row["value"]] and not entry["is_control"] for entry in entries)
        ]
        undecoded = [
            entries for entries in without if any(e["values"] is None and not e["is_control"] for e in entries)
        ]
        majority = len(set(self.replicas) | nodes) / 2
        if len(without) - len(undecoded) > majority:
            return "violation"
        return "unknown" if len(without) > majority else None

    def unseen(self, lost: set[int]) -> Iterator[Found]:
        shown = {record["value"] for row in self.polls for record in row["records"]}
        shown |= {value for _, value, _, replica in self.sightings if replica is not None}
        rows = [row["invoke_index"] for row in self.acked if row["value"] not in shown]
        rows = [index for index in rows if index not in lost]
        if rows:
            yield ("unseen", "unknown", tuple(sorted(rows)))

    # --- sessions

    def sessions(self) -> Iterator[Found]:
        expected: dict[int, int] = {}
        for row in sorted(self.run.operations, key=lambda row: int(row["invoke_index"])):
            if row["f"] == "append" or (row["type"] != "ok" and not row["seek"]):
                continue
            process, index = row["process"], row["invoke_index"]
            if row["seek"] or row["f"] == "final-read" or process not in expected:
                expected[process] = row["position"]
            offsets = [record["offset"] for record in row["records"] or []] if row["type"] == "ok" else []
            if not offsets:
                continue
            if offsets != sorted(set(offsets)):
                yield ("int-nonmonotonic-poll", "violation", index)
            if min(offsets) < expected[process]:
                yield ("nonmonotonic-poll", "violation", index)
            if any(expected[process] <= offset < min(offsets) for offset in self.known):
                yield ("poll-skip", "violation", index)
            if any(min(offsets) < offset < max(offsets) and offset not in offsets for offset in self.known):
                yield ("int-poll-skip", "violation", index)
            if row["high_watermark"] is not None and max(offsets) >= row["high_watermark"]:
                yield ("uncommitted-read", "violation", index)
            expected[process] = max(offsets) + 1

    def sends(self) -> Iterator[Found]:
        came: dict[int, int] = {}
        for row in sorted(self.appends, key=lambda row: int(row["invoke_index"])):
            place, process = self.place(row), row["process"]
            if place is None:
                continue
            if place <= came.get(process, -1):
                yield ("nonmonotonic-send", "violation", row["invoke_index"])
            if row["type"] == "ok":
                came[process] = place

    # --- real time

    def length_before(self, index: int, *, told: bool) -> int:
        longest = 0
        for row in self.run.operations:
            if row["return_index"] is None or row["return_index"] >= index or row["type"] != "ok":
                continue
            lengths = [record["offset"] + 1 for record in row["records"] or []]
            lengths += [row["offset"] + 1] if row["offset"] is not None else []
            lengths += [row["high_watermark"]] if told and row["high_watermark"] is not None else []
            longest = max(longest, *lengths, 0)
        return longest

    def place(self, row: Row) -> int | None:
        if row["type"] == "fail":
            return None
        if row["offset"] is not None:
            return int(row["offset"])
        sightings = [s for s in self.sightings if s[1] == row["value"]]
        return min(sightings, key=lambda s: (s[2] is None, s[2] or 0, s[0]))[0] if sightings else None

    def real_time(self) -> Iterator[Found]:
        for row in self.appends:
            place = self.place(row)
            if place is not None and self.length_before(row["invoke_index"], told=True) > place:
                yield ("realtime-reorder", "violation", row["invoke_index"])
        for row in self.polls:
            if row["limited"] or not (row["strict"] or row["f"] == "final-read"):
                continue
            reached = max([row["position"], *(record["offset"] + 1 for record in row["records"])])
            if self.length_before(row["invoke_index"], told=False) > reached:
                yield ("stale-read", "violation", row["invoke_index"])

    def has_hole(self) -> bool:
        """No matching of the unseen offsets to the appends that may stand there covers them all."""
        top = max(self.known, default=-1)
        if top > 10**6:
            return True
        holes = [offset for offset in range(top) if offset not in self.known]
        seen = {value for _, value, *_ in self.sightings}
        spare = [
            self.length_before(row["invoke_index"], told=True)
            for row in self.appends
            if row["type"] != "fail" and row["offset"] is None and row["value"] not in seen
        ]
        taken: dict[int, int] = {}

        def assign(hole: int, tried: set[int]) -> bool:
            for i, threshold in enumerate(spare):
                if threshold <= hole and i not in tried:
                    tried.add(i)
                    if i not in taken or assign(taken[i], tried):
                        taken[i] = hole
                        return True
            return False

        return not all(assign(hole, set()) for hole in holes)

    # --- replicas

    def epochs(self) -> Iterator[Found]:
        acked = [row for row in self.acked if row["offset"] is not None and row["leader_epoch"] is not None]
        for row in acked:
            earlier = [r for r in acked if (r["offset"], r["invoke_index"]) < (row["offset"], row["invoke_index"])]
            if any(r["leader_epoch"] > row["leader_epoch"] for r in earlier):
                yield ("epoch-regression", "violation", row["invoke_index"])
        told = [row for row in self.acked if row["leader_epoch"] is not None]
        for row in told:
            before = [r for r in told if r["return_index"] is not None and r["return_index"] < row["invoke_index"]]
            if any(r["leader_epoch"] > row["leader_epoch"] for r in before):
                yield ("fenced-acknowledgement", "violation", row["invoke_index"])
        for replica_id, rows in self.replicas.items():
            for first, second in pairwise(rows):
                if second["leader_epoch"] < first["leader_epoch"]:
                    offsets = (first["base_offset"], second["base_offset"])
                    yield ("epoch-regression", "violation", (offsets, (replica_id,)))

    def diverged(self) -> Iterator[Found]:
        highest = max((rows[0]["high_watermark"] or 0 for rows in self.replicas.values()), default=0)
        for first, second in combinations(sorted(self.replicas), 2):
            pairs = list(zip(self.replicas[first], self.replicas[second], strict=False))
            same = [all(a[name] == b[name] for name in ("crc", "leader_epoch", "last_offset")) for a, b in pairs]
            if all(same):
                continue
            offset = same.index(False)
            if offset < min(self.vouched(first), self.vouched(second)) or any(same[offset:]):
                yield ("diverged-log", "violation", ((offset,), (first, second)))
            elif offset < highest or None in (self.replicas[one][0]["high_watermark"] for one in (first, second)):
                yield ("diverged-log", "unknown", ((offset,), (first, second)))

    def leaders(self) -> Iterator[Found]:
        by_epoch = defaultdict(set)
        for row in self.run.events:
            by_epoch[row["epoch"]].add(row["replica_id"])
        for epoch, replicas in by_epoch.items():
            if len(replicas) > 1:
                yield ("two-leaders", "violation", (tuple(sorted(replicas)), epoch))
