"""What happened, in at most ten sentences, made from the events of the one log of which most was lost.

Owns which log the story is of, what struck it, and what is left out of a story that would be too long. What befell its
records is told by ``lives``. It says what the replicas and the nemesis have recorded, in the order of time, and calls a
cause unknown where they are silent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nemesis.checks.high_watermarks import COMMITTED_TRUNCATED
from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.placement import INCONSISTENT_OFFSETS
from nemesis.checks.replica_logs import DIVERGED_LOG
from nemesis.history.events import APPEND, METADATA_LOG, ON_LOGS
from nemesis.report.evidence import shortened
from nemesis.report.folder import RunFiles
from nemesis.report.headlines import listed
from nemesis.report.lives import LogLife, Span, Turn, Weight
from nemesis.report.lost_records import explained_losses
from nemesis.report.values import AnomalyView, Fault, Judgement, LostRecord, OperationRow, ReplicaLog, Timeline

WITH_LIVES = frozenset({LOST_WRITE.name, DIVERGED_LOG.name, COMMITTED_TRUNCATED.name, INCONSISTENT_OFFSETS.name})
"""The anomalies that are about records which some replica no longer has, or should not have."""
SENTENCES_MAX = 10
TURNS_MAX = 7
"""So many turns of one anomaly's records are told."""
NOWHERE = -1
OPERATIONS_MAX = 3
"""So many operations of the anomaly a story tells: on a log the first of each replica."""
VALUE_CHARACTERS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The log that the story is of, its offsets that are in question, and when they came to be so.

    ``lost`` is how many of the records that one leader has acknowledged are lost, 0 where it is only something else
    that is wrong: the ``anomaly``.
    """

    log: str
    span: Span
    end_s: float
    lost: int = 0
    anomaly: AnomalyView | None = None


def narrative(
    judgement: Judgement, files: RunFiles, timeline: Timeline, logs: Sequence[ReplicaLog], origin_ns: int
) -> tuple[Judgement, tuple[str, ...]]:
    """The judgement with the cause of each loss and the life of what its anomalies show, and the story of the worst."""
    named = {record.topic_partition for record in judgement.lost}
    named |= {anomaly.topic_partition for anomaly in judgement.anomalies if anomaly.topic_partition}
    if named and len(whole := {log.topic_partition for log in logs} - {METADATA_LOG}) == 1:
        named |= whole
    lives = {log: LogLife(log, files.history, files.events, logs, origin_ns) for log in sorted(named)}
    narrator = Narrator(lives, timeline.faults, logs)
    judgement = replace(
        judgement,
        lost=explained_losses(judgement.lost, lives, timeline.faults),
        anomalies=tuple(
            replace(anomaly, life=narrator.life(anomaly)) if anomaly.anomaly in WITH_LIVES else anomaly
            for anomaly in judgement.anomalies
        ),
    )
    return judgement, narrator.narrative(judgement)


class Narrator:
    """Tells of the logs of one run; what befell each is read once."""

    def __init__(self, lives: Mapping[str, LogLife], faults: Sequence[Fault], logs: Sequence[ReplicaLog]) -> None:
        self._lives = lives
        self._faults = faults
        self._logs = logs

    def narrative(self, judgement: Judgement) -> tuple[str, ...]:
        """The story of the worst that was found; nothing where nothing was, or where no event tells of it."""
        focus = self._of_lost(judgement) or next(filter(None, map(self._of_anomaly, judgement.anomalies)), None)
        if focus is None:
            return ()
        turns = self._turns(focus)
        turns.append(_in_question(focus, self._lives[focus.log]))
        turns += _shown(focus)
        turns += self._struck(focus, turns)
        rest = [*_unexplained(focus, turns), *_elsewhere(judgement.lost, focus)]
        return (*_bounded(turns, SENTENCES_MAX - len(rest)), *rest)

    def life(self, anomaly: AnomalyView) -> tuple[str, ...]:
        """What befell the records at the offsets of an anomaly; nothing where it has none, or nobody has told."""
        focus = self._of_anomaly(anomaly)
        if focus is None:
            return ()
        turns = self._turns(focus)
        if focus.span.epoch is not None:
            turns.append(_acknowledged(focus, self._lives[focus.log]))
        return tuple(_bounded([*turns, *self._struck(focus, turns)], TURNS_MAX))

    def _of_lost(self, judgement: Judgement) -> Focus | None:
        """The log that has lost most, and its epoch of which that is, from the first to the last acknowledgement of it.

        Where two of its logs part as well, that is of the story.
        """
        lost = judgement.lost
        counts = Counter(record.topic_partition for record in lost)
        if not counts:
            return None
        log = counts.most_common(1)[0][0]
        records = {(record.value, record.offset) for record in lost if record.topic_partition == log}
        told = self._lives[log].acknowledgements.spans({value for value, _ in records})
        found = sorted((span for record, span in told.items() if record in records), key=lambda span: span.start_s)
        if not found:
            return None
        # What one leader has acknowledged has one story.
        epoch = Counter(span.epoch for span in found).most_common(1)[0][0]
        found = [span for span in found if span.epoch == epoch]
        offsets = [span.first for span in found]
        span = replace(found[0], first=min(offsets), last=max(offsets))
        parted = (one for one in judgement.anomalies if (one.anomaly, one.topic_partition) == (DIVERGED_LOG.name, log))
        return Focus(log=log, span=span, lost=len(found), end_s=found[-1].start_s, anomaly=next(parted, None))

    def _of_anomaly(self, anomaly: AnomalyView) -> Focus | None:
        """What an anomaly is about, from the first to the last of the operations that show it.

        Without operations, from when the first leader began that may have appended what stands there.
        """
        life = self._life_of(anomaly)
        moments = [at for op in anomaly.operations for at in (op.invoked_s, op.returned_s) if at is not None]
        if life is None or not (moments or anomaly.offsets):
            return None
        # An object's offsets are revisions: of its log, leaders and faults are told.
        offsets = anomaly.offsets if anomaly.topic_partition == life.log else ()
        first, last = min(offsets, default=NOWHERE), max(offsets, default=NOWHERE)
        if anomaly.anomaly == COMMITTED_TRUNCATED.name:
            last -= 1
        start_s = min(moments) if moments else life.appended_s(first, anomaly.replicas)
        span = Span(first=first, last=last, start_s=start_s)
        if anomaly.anomaly == LOST_WRITE.name:
            span = next((own for own in _acknowledgements(anomaly, life) if own.first == first), span)
        return Focus(log=life.log, span=span, end_s=max(moments, default=start_s), anomaly=anomaly)

    def _life_of(self, anomaly: AnomalyView) -> LogLife | None:
        """That of its log; of an object, that of the only log that there is beside the metadata."""
        logs = {log.topic_partition for log in self._logs} - {METADATA_LOG}
        if anomaly.topic_partition in logs or len(logs) != 1:
            return self._lives.get(anomaly.topic_partition)
        return self._lives.get(logs.pop() if anomaly.topic_partition != METADATA_LOG else METADATA_LOG)

    def _turns(self, focus: Focus) -> list[Turn]:
        """What befell the records in question, in the order of time."""
        life, anomaly = self._lives[focus.log], focus.anomaly
        kept = life.kept(focus.span.first)
        if anomaly is not None and len(anomaly.replicas) == 2:
            kept = life.kept(min(anomaly.offsets, default=NOWHERE), anomaly.replicas)
        return life.turns(focus.span, until_s=focus.end_s, kept=kept)

    def _struck(self, focus: Focus, turns: Sequence[Turn]) -> Iterator[Turn]:
        """The faults that went on meanwhile, and struck somebody of whom is told."""
        concerned = {turn.replica_id for turn in turns}
        end_s = max([focus.end_s, *(turn.time_s for turn in turns)])
        leader = self._lives[focus.log].leader_of(focus.span)
        leader_id = None if leader is None else leader.replica_id
        for fault in self._faults:
            if fault.struck(concerned, focus.span.start_s, end_s):
                yield _fault(fault, leader_id, focus.log)


def _fault(fault: Fault, leader_id: int | None, log: str) -> Turn:
    whom = listed(fault.replicas) if fault.replicas else "all replicas"
    leading = ""
    if leader_id in fault.replicas:
        leading = f", {'' if len(fault.replicas) == 1 else 'among them '}the leader of {log}"
    until = "" if fault.end_s is None else f" until {fault.end_s:.1f} s"
    comma = "," if leading and until else ""
    sentence = f"{fault.start_s:.1f} s: {fault.name} struck {whom}{leading}{comma}{until}."
    return Turn(time_s=fault.start_s, sentence=sentence, weight=Weight.FAULT, replica_id=-1)


def _acknowledgements(anomaly: AnomalyView, life: LogLife) -> Iterable[Span]:
    """Those of the appends that an anomaly names."""
    values = {op.value for op in anomaly.operations if op.f == APPEND and op.value.lstrip("-").isdigit()}
    return life.acknowledgements.spans(set(map(int, values))).values()


def _acknowledged(focus: Focus, life: LogLife) -> Turn:
    leader = life.leader_of(focus.span)
    by = "" if leader is None else f" by replica {leader.replica_id}"
    where = f"offset {focus.span.first} of {focus.log}"
    sentence = f"{focus.span.start_s:.1f} s: {where} was acknowledged{by} in epoch {focus.span.epoch}."
    return Turn(time_s=focus.span.start_s, sentence=sentence, weight=Weight.CAUSE, replica_id=-1)


def _in_question(focus: Focus, life: LogLife) -> Turn:
    span = focus.span
    start, end = f"{span.start_s:.1f}", f"{focus.end_s:.1f}"
    during = f"At {start} s" if start == end else f"From {start} s to {end} s"
    leader = life.leader_of(span)
    who = "a leader" if leader is None else f"replica {leader.replica_id}"
    where = f"at offset {span.first}" if span.first == span.last else f"at offsets {span.first} to {span.last}"
    if focus.lost:
        writes, are = ("1 write", "is") if focus.lost == 1 else (f"{focus.lost:,} writes", "are")
        sentence = f"{during} {who} acknowledged {writes} to {focus.log} {where} that {are} lost."
    elif focus.anomaly is not None and focus.anomaly.operations:
        of = f"of {focus.anomaly.topic_partition}" + ("" if span.first == NOWHERE else f" {where}")
        sentence = f"{during} the operations ran that show {focus.anomaly.anomaly} {of}."
    else:
        sentence = f"Then {who} appended to {focus.log} what is in question {where}."
    return Turn(time_s=span.start_s, sentence=sentence, weight=Weight.CAUSE, replica_id=-1)


def _shown(focus: Focus) -> Iterator[Turn]:
    """What a client was told there by each replica, where that is what is wrong."""
    if focus.lost or focus.anomaly is None:
        return
    seen: set[str] = set()
    for operation in focus.anomaly.operations:
        time_s = operation.invoked_s if operation.returned_s is None else operation.returned_s
        who = operation.node or (operation.f if operation.f in ON_LOGS else str(operation.index))
        if time_s is None or who in seen or len(seen) == OPERATIONS_MAX:
            continue
        seen.add(who)
        sentence = f"{time_s:.1f} s: process {operation.process} {_answered(operation, focus.anomaly.offsets)}."
        node = int(operation.node) if operation.node.isdigit() else -1
        yield Turn(time_s=time_s, sentence=sentence, weight=Weight.BESIDE, replica_id=node)


def _answered(operation: OperationRow, offsets: Sequence[int]) -> str:
    """What a client was told, of a poll only what stands at the offsets in question."""
    by = f" from replica {operation.node}" if operation.node else ""
    for value, at, offset in (record.partition("@") for record in operation.value.split(", ")):
        if at and offset in map(str, offsets):
            return f"read {value} at offset {offset}{by}"
    if operation.f == APPEND and operation.offset:
        return f"had the answer{by} that {operation.value} is at offset {operation.offset}"
    if operation.f in ON_LOGS:
        return f"had its {operation.f} answered{by}"
    # A number may have more behind it, which is of no use here.
    number = operation.value.partition(" ")[0]
    value = number if number.lstrip("-").isdigit() else shortened(operation.value, VALUE_CHARACTERS_MAX)
    return f"had its {operation.f} answered{by}: {value}"


def _bounded(turns: Sequence[Turn], limit: int) -> list[str]:
    """The sentences in the order of time; where there are too many, the weightiest and earliest of them."""
    kept = sorted(range(len(turns)), key=lambda k: (-turns[k].weight, turns[k].time_s))[:limit]
    return [turns[k].sentence for k in sorted(kept, key=lambda k: turns[k].time_s)]


def _unexplained(focus: Focus, turns: Sequence[Turn]) -> list[str]:
    """That nobody has told why, where that is so."""
    causes = sum(turn.weight is Weight.CAUSE and turn.time_s > focus.span.start_s for turn in turns)
    if causes or not focus.lost:
        return []
    return [f"No replica has told of truncating {focus.log} there, or of being without it: the cause is not known."]


def _elsewhere(lost: Sequence[LostRecord], focus: Focus) -> list[str]:
    """How much more is lost than the story is of."""
    others = Counter(record.topic_partition for record in lost)
    here = others.pop(focus.log, 0) - focus.lost if focus.lost else 0
    told = [f"{here:,} of {focus.log} in other epochs"] if here > 0 else []
    if others:
        logs = "1 other log" if len(others) == 1 else f"{len(others)} other logs"
        told.append(f"{others.total():,} of {logs}")
    return [f"More acknowledged writes are lost: {', '.join(told)}."] if told else []
