"""What became of the records of one log: who led it, who truncated it and why, and who came back without them.

Owns the reading of one log's events into turns, each a sentence with its time, and of these into causes. A replica
tells of its roles and truncations; that it lost what it held when it ended, nobody tells: it shows when it starts again
with a log that ends below what it had acknowledged, or had said to be committed. Does not judge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.history.events import APPEND, BECAME_LEADER, HIGH_WATERMARK, STARTED, EventType
from nemesis.report.operations import NS_PER_SECOND, Floats, Ints
from nemesis.report.timeline import KINDS, ROLE_PREFIX, TRUNCATED, parsed
from nemesis.report.values import ReplicaLog

NONE = -1
START_S = 1.0
"""So long before a replica says that it has started, what it tells may be of the new process."""


class Weight(IntEnum):
    """What may be left out of a story that has too many turns, the least first."""

    BESIDE = 1
    FAULT = 2
    CAUSE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing that befell a log, in words."""

    time_s: float
    sentence: str
    weight: Weight
    replica_id: int


class Cause(NamedTuple):
    """What a replica did, in words that follow its name, by which a record is lost."""

    time_s: float
    replica_id: int
    deed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The offsets of a log that are in question, ``last`` among them, and since when they are.

    ``epoch`` is that in which they were acknowledged, absent where that is not known. An acknowledgement may come late:
    what is of a later epoch is behind it, whatever the clock says.
    """

    first: int
    last: int
    start_s: float
    epoch: int | None = None

    def precedes(self, time_s: float, epoch: int | None) -> bool:
        """Whether something of a time and an epoch came behind the records."""
        return time_s > self.start_s or (None not in (epoch, self.epoch) and (epoch or 0) > (self.epoch or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgements:
    """The appends to a log that were acknowledged, one entry of each array for each; what was not told is ``NONE``."""

    time_s: Floats
    value: Ints
    offset: Ints
    epoch: Ints

    def end(self, epochs: Collection[int], since_s: float, until_s: float) -> int:
        """The end of what the leader of these epochs has acknowledged between two times; 0 where that is nothing."""
        is_meanwhile = (self.time_s >= since_s) & (self.time_s < until_s)
        own = self.offset[np.isin(self.epoch, np.asarray(sorted(epochs), np.int64)) & is_meanwhile]
        return int(own.max(initial=NONE)) + 1

    def spans(self, values: Collection[int]) -> Mapping[tuple[int, int], Span]:
        """Where and when each of these values was acknowledged, by value and offset."""
        rows = np.flatnonzero(np.isin(self.value, np.asarray(sorted(values), np.int64)))
        return {(int(self.value[row]), int(self.offset[row])): self._span(int(row)) for row in rows}

    def _span(self, row: int) -> Span:
        offset, epoch = int(self.offset[row]), int(self.epoch[row])
        start_s = float(self.time_s[row])
        return Span(first=offset, last=offset, start_s=start_s, epoch=None if epoch == NONE else epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A replica took a role in an epoch, with a log that ended there; absent is what it did not tell."""

    time_s: float
    replica_id: int
    name: str
    epoch: int | None
    leader_id: int | None
    log_end_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A replica truncated its log to ``end_offset``, on following ``leader_id`` in ``epoch``."""

    time_s: float
    replica_id: int
    from_offset: int | None
    end_offset: int
    epoch: int | None
    leader_id: int | None

    def meets(self, span: Span) -> bool:
        """Whether it took something of the span, once that was there."""
        is_held = self.from_offset is None or self.from_offset > span.first
        return span.precedes(self.time_s, self.epoch) and self.end_offset <= span.last and is_held


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A replica started again with a log that ended at ``log_end_offset``, and had held what is below ``held_end``."""

    time_s: float
    replica_id: int
    held_end: int
    log_end_offset: int

    def meets(self, span: Span) -> bool:
        """Whether something of the span was gone then, once that was there."""
        return span.precedes(self.time_s, None) and self.log_end_offset <= span.last and self.held_end > span.first


class LogLife:
    """All that is known of one log over time."""

    def __init__(
        self, log: str, history: pa.Table, events: pa.Table, logs: Sequence[ReplicaLog], origin_ns: int
    ) -> None:
        self.log = log
        rows = list(_rows(log, events, origin_ns))
        self.acknowledgements = _acknowledgements(log, history, origin_ns)
        self.roles = tuple(_role(row) for row in rows if row["event"].startswith(ROLE_PREFIX))
        self.leaders = tuple(role for role in self.roles if f"{ROLE_PREFIX}{role.name}" == BECAME_LEADER)
        self.cuts = tuple(_cut(row) for row in rows if row["event"] == TRUNCATED and row["offset"] is not None)
        self.returns = tuple(_returns(rows, self.acknowledgements))
        self._logs = {one.replica_id: one for one in logs if one.topic_partition == log}
        self._unclean = {row["epoch"]: KINDS[row["event"]] for row in rows if row["event"] in KINDS}

    def leader_of(self, span: Span) -> Role | None:
        """Who led when the records were acknowledged: of their epoch, or whoever had become the leader last."""
        own = (led for led in self.leaders if led.epoch == span.epoch and span.epoch is not None)
        return next(own, next((led for led in reversed(self.leaders) if led.time_s <= span.start_s), None))

    def appended_s(self, offset: int, replicas: Collection[int]) -> float:
        """When the leader began that may first have appended what came to stand at an offset, and was cut off or kept.

        ``replicas`` are those whose records there are in question.
        """
        first = min(self.held_epochs(offset, replicas).values(), default=None)
        cut = next((cut for cut in self.cuts if cut.meets(Span(first=offset, last=offset, start_s=0.0))), None)
        for led in reversed(self.leaders):
            is_before = cut is None or (led.time_s < cut.time_s and led.epoch != cut.epoch)
            if is_before and (cut is not None or led.epoch == first):
                return led.time_s
        return self.leaders[0].time_s if self.leaders else 0.0

    def without(self, span: Span) -> tuple[Role, ...]:
        """The leaders that began, after that, with a log that ended within the span or before it."""
        return tuple(led for led in self.leaders if span.precedes(led.time_s, led.epoch) and self._lacks(led, span))

    def _lacks(self, led: Role, span: Span) -> bool:
        """Whether a leader began with a log that ended within the span or before it."""
        is_other = span.epoch is None or (led.epoch or 0) > span.epoch
        return is_other and led.log_end_offset is not None and led.log_end_offset <= span.last

    def turns(self, span: Span, *, until_s: float = 0.0, kept: Turn | None = None) -> list[Turn]:
        """What befell the span, in the order of time: from the leader that it had before to what was done to it last.

        Other leaders are told of as long as the latter of that and ``until_s``. Who has ``kept`` other records there
        is told with the leader that had appended these.
        """
        lost = [_truncated(self.log, cut) for cut in self.cuts if cut.meets(span)]
        lost += [_returned(self.log, one) for one in self.returns if one.meets(span)]
        without = self.without(span)[:2]
        end_s = max(
            [
                until_s if kept is None else max(until_s, kept.time_s),
                *(turn.time_s for turn in lost),
                *(led.time_s for led in without),
            ]
        )
        before = self.leader_of(span)
        ruled = [led for led in self.leaders if led in without or span.start_s < led.time_s <= end_s]
        told = [] if before is None else [self._led(before, span, Weight.CAUSE)]
        if kept is not None:
            lost.append(kept)
            old = self.held_epochs(span.first).get(kept.replica_id)
            elder = (led for led in self.leaders if led.epoch == old and led.time_s <= span.start_s and led != before)
            told += [self._led(led, span, Weight.CAUSE) for led in elder]
        told += [self._led(led, span, Weight.CAUSE if led in without else Weight.BESIDE) for led in ruled]
        return sorted([*told, *lost], key=lambda turn: turn.time_s)

    def _led(self, led: Role, span: Span, weight: Weight) -> Turn:
        epoch = "" if led.epoch is None else f" in epoch {led.epoch}"
        how = f" by {_with_article(self._unclean[led.epoch])}" if led.epoch in self._unclean else ""
        ended = ""
        if led in self.without(span):
            ended = f", with a log that ended at offset {led.log_end_offset}"
        sentence = f"{led.time_s:.1f} s: replica {led.replica_id} became the leader of {self.log}{epoch}{how}{ended}."
        return Turn(time_s=led.time_s, sentence=sentence, weight=weight, replica_id=led.replica_id)

    def held_epochs(self, offset: int, replicas: Collection[int] | None = None) -> Mapping[int, int]:
        """The epoch of the record that each replica, or each of these, holds in the end at an offset."""
        return {
            replica_id: max(epoch for epoch, start in log.epochs if start <= offset)
            for replica_id, log in self._logs.items()
            if (replicas is None or replica_id in replicas)
            and log.log_end_offset > offset
            and any(start <= offset for _, start in log.epochs)
        }

    def kept(self, offset: int, replicas: Collection[int] | None = None) -> Turn | None:
        """The replica that kept its own record at an offset, though it followed a leader that has another one there.

        Of ``replicas``, or of all. None where their final logs do not differ there.
        """
        epochs = self.held_epochs(offset, replicas)
        if len(set(epochs.values())) < 2:
            return None
        keeper, *_, other = sorted(epochs, key=lambda replica_id: epochs[replica_id])
        for role in self.roles:
            is_later = role.replica_id == keeper and role.epoch is not None and role.epoch >= epochs[other]
            if is_later and role.leader_id not in (None, keeper) and not self._truncated_since(role, offset):
                sentence = (
                    f"{role.time_s:.1f} s: replica {keeper} followed replica {role.leader_id} in epoch {role.epoch} and"
                    f" did not truncate {self.log} to offset {offset}: it kept its record of epoch {epochs[keeper]},"
                    f" where replica {other} holds one of epoch {epochs[other]}."
                )
                return Turn(time_s=role.time_s, sentence=sentence, weight=Weight.CAUSE, replica_id=keeper)
        return None

    def _truncated_since(self, role: Role, offset: int) -> bool:
        """Whether a replica has truncated its log to an offset, or below, since it took a role."""
        own = (cut for cut in self.cuts if cut.replica_id == role.replica_id and cut.time_s >= role.time_s)
        return any(cut.end_offset <= offset for cut in own)

    def causes(self, span: Span) -> tuple[Cause, ...]:
        """Why an acknowledged record is lost, in the order of time; nothing where nobody has told."""
        found = [
            Cause(led.time_s, led.replica_id, f"became the leader in epoch {led.epoch} without it")
            for led in self.without(span)[:1]
        ]
        found += [Cause(cut.time_s, cut.replica_id, f"truncated it{_on_following(cut)}") for cut in self._cut(span)]
        found += [
            Cause(one.time_s, one.replica_id, "started again without it") for one in self.returns if one.meets(span)
        ]
        kept = None if found else self.kept(span.first)
        if kept is not None:
            found = [Cause(kept.time_s, kept.replica_id, "kept another record there and did not truncate it")]
        return tuple(sorted(found))

    def _cut(self, span: Span) -> Iterator[Cut]:
        """The first cut of each replica that took something of the span."""
        seen: set[int] = set()
        for cut in self.cuts:
            if cut.meets(span) and cut.replica_id not in seen:
                seen.add(cut.replica_id)
                yield cut


def _rows(log: str, events: pa.Table, origin_ns: int) -> Iterator[dict[str, Any]]:
    """What concerns a log, in order of time, with ``time_s``, and the detail as an object in ``told``."""
    is_own = pc.fill_null(pc.equal(events.column("topic_partition"), log), False)
    found = events.filter(pc.or_(is_own, pc.equal(events.column("event"), STARTED))).sort_by("time_ns")
    for row in found.to_pylist():
        time_s = (row["time_ns"] - origin_ns) / NS_PER_SECOND
        told = parsed(row["detail"])
        yield row | {"time_s": time_s, "told": told if isinstance(told, dict) else {}}


def _acknowledgements(log: str, history: pa.Table, origin_ns: int) -> Acknowledgements:
    is_ack = pc.and_(pc.equal(history.column("f"), APPEND), pc.equal(history.column("type"), EventType.OK.value))
    is_own = pc.fill_null(pc.equal(history.column("topic_partition"), log), False)
    own = history.select(["time_ns", "value", "offset", "leader_epoch"]).filter(pc.and_(is_ack, is_own))
    time_ns, value, offset, epoch = (np.asarray(column.fill_null(NONE).to_numpy(), np.int64) for column in own.columns)
    return Acknowledgements(time_s=(time_ns - origin_ns) / NS_PER_SECOND, value=value, offset=offset, epoch=epoch)


def _role(row: Mapping[str, Any]) -> Role:
    return Role(
        time_s=row["time_s"],
        replica_id=row["replica_id"],
        name=row["event"].removeprefix(ROLE_PREFIX),
        epoch=row["epoch"],
        leader_id=_int(row["told"].get("leader_id")),
        log_end_offset=_int(row["told"].get("log_end_offset")),
    )


def _cut(row: Mapping[str, Any]) -> Cut:
    return Cut(
        time_s=row["time_s"],
        replica_id=row["replica_id"],
        from_offset=_int(row["told"].get("from_offset")),
        end_offset=row["offset"],
        epoch=row["epoch"],
        leader_id=_int(row["told"].get("leader_id")),
    )


def _int(told: object) -> int | None:
    return told if isinstance(told, int) else None


def _returns(rows: Sequence[Mapping[str, Any]], acknowledged: Acknowledgements) -> Iterator[Return]:
    """Each start of a replica after which its log ended below what it had held."""
    starts = [(row["replica_id"], row["time_s"]) for row in rows if row["event"] == STARTED]
    held: dict[int, tuple[float, int]] = {}
    led: dict[int, set[int]] = {}
    for row in rows:
        replica_id, time_s = row["replica_id"], row["time_s"]
        since_s, end = held.get(replica_id, (0.0, 0))
        if row["event"] == HIGH_WATERMARK and row["offset"] is not None:
            held[replica_id] = (since_s, max(end, row["offset"]))
        elif row["event"] == TRUNCATED and row["offset"] is not None:
            held[replica_id] = (time_s, row["offset"])
        elif row["event"].startswith(ROLE_PREFIX) and (now := _int(row["told"].get("log_end_offset"))) is not None:
            # A process takes its first roles just before it says that it has started.
            if any(one == replica_id and since_s < at <= time_s + START_S for one, at in starts):
                held_end = max(end, acknowledged.end(led.get(replica_id, ()), since_s, time_s))
                if held_end > now:
                    yield Return(time_s=time_s, replica_id=replica_id, held_end=held_end, log_end_offset=now)
            held[replica_id] = (time_s, now)
            if row["event"] == BECAME_LEADER and row["epoch"] is not None:
                led.setdefault(replica_id, set()).add(row["epoch"])


def _truncated(log: str, cut: Cut) -> Turn:
    origin = "" if cut.from_offset is None else f" from offset {cut.from_offset}"
    followed = ""
    if cut.leader_id is not None and cut.leader_id != cut.replica_id:
        epoch = "" if cut.epoch is None else f" in epoch {cut.epoch}"
        followed = f" followed replica {cut.leader_id}{epoch} and"
    sentence = f"{cut.time_s:.1f} s: replica {cut.replica_id}{followed} truncated {log}{origin} to {cut.end_offset}."
    return Turn(time_s=cut.time_s, sentence=sentence, weight=Weight.CAUSE, replica_id=cut.replica_id)


def _on_following(cut: Cut) -> str:
    if cut.leader_id is None or cut.leader_id == cut.replica_id:
        return ""
    return f" on following replica {cut.leader_id}" + ("" if cut.epoch is None else f" in epoch {cut.epoch}")


def _returned(log: str, one: Return) -> Turn:
    sentence = (
        f"{one.time_s:.1f} s: replica {one.replica_id} started again with a log of {log} that ended at offset"
        f" {one.log_end_offset}: it had held what is below {one.held_end}."
    )
    return Turn(time_s=one.time_s, sentence=sentence, weight=Weight.CAUSE, replica_id=one.replica_id)


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
