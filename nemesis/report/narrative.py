"""What happened, in at most ten sentences, made from the events of the one log of which most was lost.

Owns which events belong to the story: who led the log, what struck the leader, what was acknowledged meanwhile and is
lost, who led next, and who cut it off. It says what the replicas and the nemesis have recorded, in the order of time,
and calls a cause unknown where they are silent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.history.events import APPEND, EventType
from nemesis.report.operations import NS_PER_SECOND
from nemesis.report.values import AnomalyView, Fault, Judgement, LostRecord, Mark, MarkKind, Timeline

SENTENCES_MAX = 10
LED = (MarkKind.ELECTION, MarkKind.UNCLEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The log that the story is of, from ``start_s`` to ``end_s``, and its offsets that are in question.

    ``lost`` is how many acknowledged records of it are lost, 0 where something else is wrong with it.
    """

    log: str
    offsets: Sequence[int]
    lost: int
    start_s: float
    end_s: float


def narrative(judgement: Judgement, timeline: Timeline, history: pa.Table, origin_ns: int) -> tuple[str, ...]:
    """The story of the worst that was found; nothing where nothing was, or where no event tells of it."""
    focus = _of_lost(judgement.lost, history, origin_ns) or _of_anomaly(judgement.anomalies)
    if focus is None:
        return ()
    marks = [mark for mark in timeline.marks if mark.log in (focus.log, None)]
    cuts = [mark for mark in marks if mark.kind is MarkKind.TRUNCATION and _cuts(mark, focus)]
    end_s = max([focus.end_s, *(cut.time_s for cut in cuts[:1])])
    ruled = [mark for mark in marks if mark.kind in LED and mark.time_s <= end_s]
    before = [mark for mark in ruled if mark.time_s <= focus.start_s][-1:]
    leaders = {mark.replica_id for mark in before}
    story: list[tuple[float, str]] = [(mark.time_s, _led(mark, focus.log)) for mark in before]
    for fault in timeline.faults:
        if _meets(fault, focus.start_s, end_s) and (not fault.replicas or leaders & set(fault.replicas)):
            story += _struck(fault, leaders, focus.log)
    story += [(mark.time_s, _led(mark, focus.log)) for mark in ruled if mark.time_s > focus.start_s]
    story.append((focus.start_s, _in_question(focus, before)))
    story += [(cut.time_s, _cut(cut, focus)) for cut in cuts[:1]]
    told = [sentence for _, sentence in sorted(story, key=lambda entry: entry[0])]
    if focus.lost and not cuts:
        told.append(f"No replica has told of cutting {focus.log} there: the cause is not known.")
    return (*told[: SENTENCES_MAX - 1], *_elsewhere(judgement.lost, focus))


def _of_lost(lost: Sequence[LostRecord], history: pa.Table, origin_ns: int) -> Focus | None:
    """The log that has lost most, from the first to the last acknowledgement of what is lost."""
    counts = Counter(record.topic_partition for record in lost)
    if not counts:
        return None
    log = counts.most_common(1)[0][0]
    records = [record for record in lost if record.topic_partition == log]
    is_ack = pc.and_(pc.equal(history.column("f"), APPEND), pc.equal(history.column("type"), EventType.OK.value))
    is_lost = pc.is_in(history.column("value"), pa.array([record.value for record in records], pa.int64()))
    moments = pc.min_max(history.filter(pc.and_(is_ack, is_lost)).column("time_ns")).as_py()
    if moments["min"] is None:
        return None
    start_s, end_s = ((moments[name] - origin_ns) / NS_PER_SECOND for name in ("min", "max"))
    offsets = [record.offset for record in records]
    return Focus(log=log, offsets=offsets, lost=len(offsets), start_s=start_s, end_s=end_s)


def _of_anomaly(anomalies: Sequence[AnomalyView]) -> Focus | None:
    """What the first anomaly is about, the worst, from the first to the last of the operations that show it."""
    for found in anomalies:
        moments = [at for op in found.operations for at in (op.invoked_s, op.returned_s) if at is not None]
        if found.topic_partition and moments:
            return Focus(
                log=found.topic_partition, offsets=found.offsets, lost=0, start_s=min(moments), end_s=max(moments)
            )
    return None


def _cuts(mark: Mark, focus: Focus) -> bool:
    return mark.offset is not None and mark.time_s >= focus.start_s and mark.offset <= max(focus.offsets, default=-1)


def _meets(fault: Fault, start_s: float, end_s: float) -> bool:
    return fault.start_s <= end_s and (fault.end_s is None or fault.end_s >= start_s)


def _led(mark: Mark, log: str) -> str:
    how = ", without being known to hold everything" if mark.kind is MarkKind.UNCLEAN else ""
    epoch = "" if mark.epoch is None else f" in epoch {mark.epoch}"
    return f"{mark.time_s:.1f} s: replica {mark.replica_id} became the leader of {log}{epoch}{how}."


def _struck(fault: Fault, leaders: set[int], log: str) -> list[tuple[float, str]]:
    whom = "all replicas" if not fault.replicas else f"replica {', '.join(map(str, fault.replicas))}"
    leading = "" if not leaders & set(fault.replicas) else f", among them the leader of {log}"
    if leading and len(fault.replicas) == 1:
        leading = f", the leader of {log}"
    told = [(fault.start_s, f"{fault.start_s:.1f} s: {fault.name} struck {whom}{leading}.")]
    if fault.end_s is not None:
        told.append((fault.end_s, f"{fault.end_s:.1f} s: {fault.name} of {whom} ended."))
    return told


def _in_question(focus: Focus, before: Sequence[Mark]) -> str:
    span = f"From {focus.start_s:.1f} s to {focus.end_s:.1f} s"
    if not focus.lost:
        return f"{span} the operations ran that show the worst anomaly of {focus.log}, below."
    who = f"replica {before[0].replica_id}" if before else "a leader"
    first, last = min(focus.offsets), max(focus.offsets)
    writes = "1 write" if focus.lost == 1 else f"{focus.lost:,} writes"
    where = f"at offset {first}" if first == last else f"at offsets {first} to {last}"
    return f"{span} {who} acknowledged {writes} to {focus.log} {where} that are lost."


def _cut(mark: Mark, focus: Focus) -> str:
    gone = "" if not focus.lost else ": what was acknowledged behind that is lost"
    return f"{mark.time_s:.1f} s: replica {mark.replica_id} cut its log of {focus.log} at offset {mark.offset}{gone}."


def _elsewhere(lost: Sequence[LostRecord], focus: Focus) -> list[str]:
    others = Counter(record.topic_partition for record in lost if record.topic_partition != focus.log)
    if not others:
        return []
    logs = "1 other log" if len(others) == 1 else f"{len(others)} other logs"
    return [f"{sum(others.values()):,} more acknowledged writes are lost of {logs}."]
