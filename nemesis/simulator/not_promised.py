"""What a world has lost and was allowed to lose: its anomalies are told, and convict nobody.

Owns the rule, which clears one anomaly at a time and only where its reason is known. All else that the history shows
counts: what an election cannot do convicts, and what cannot be told apart is unknown.

1. An election outside the ISR, where the topic or a disk that forgets allows one, gives up what the new leader lacks.
   An anomaly is that election's if the checks name it as the cause, or if it has cut the log at all of its offsets,
   by what the history tells, or by what the judge of partitions knows to have been committed there. A lost write
   must have been acknowledged before it. Who led before may be its own ISR, and acknowledges until it hears of that
   election. What began when such an election was over is never excused by it.
2. What retention or DeleteRecords has deleted before anybody had read it cannot be seen.

Source: KIP-106, KIP-966; ``nemesis.checks.unclean_elections``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nemesis.checks.anomalies import LISTED_MAX
from nemesis.checks.high_watermarks import COMMITTED_TRUNCATED, HIGH_WATERMARK_REGRESSION
from nemesis.checks.losses import LOST_WRITE, UNSEEN
from nemesis.checks.placement import DUPLICATE, INCONSISTENT_OFFSETS
from nemesis.checks.real_time import FENCED_ACKNOWLEDGEMENT, HOLE, REALTIME_REORDER, STALE_READ
from nemesis.checks.replica_logs import EPOCH_REGRESSION
from nemesis.checks.schemas import Severity
from nemesis.checks.sends import NONMONOTONIC_SEND
from nemesis.checks.sessions import NONMONOTONIC_POLL, POLL_SKIP, UNCOMMITTED_READ
from nemesis.history import APPEND, EventType
from nemesis.simulator.partition_history import GivenUp
from nemesis.simulator.record import Record

Row = Mapping[str, Any]
GivenUpByPartition = Mapping[str, Sequence[GivenUp]]

OF_ELECTIONS = frozenset(
    check.name
    for check in (
        LOST_WRITE,
        DUPLICATE,
        INCONSISTENT_OFFSETS,
        UNCOMMITTED_READ,
        NONMONOTONIC_POLL,
        POLL_SKIP,
        NONMONOTONIC_SEND,
        REALTIME_REORDER,
        STALE_READ,
        HOLE,
        FENCED_ACKNOWLEDGEMENT,
        COMMITTED_TRUNCATED,
        HIGH_WATERMARK_REGRESSION,
        EPOCH_REGRESSION,
    )
)
"""What a log with two pasts shows. No election makes logs differ in the end, or shows what nobody has written."""
GIVEN_UP = "an election outside the ISR gave up what was acknowledged"
DELETED = "records were deleted before anybody had read them"
NOT_PROMISED = "not_promised"
"""Where the evidence of an anomaly says why it is allowed."""


def with_allowed(
    anomalies: Iterable[Row], record: Record, given_up: GivenUpByPartition, *, deletes: bool
) -> tuple[Row, ...]:
    """The anomalies of one run, each as severe as it is in its world.

    ``given_up`` has the elections that may have given records up, by partition; ``deletes`` says that retention deletes
    records.
    """
    return tuple(_as_allowed(row, record, given_up, deletes) for row in anomalies)


def _as_allowed(row: Row, record: Record, given_up: GivenUpByPartition, deletes: bool) -> Row:
    name, elections = row["anomaly"], given_up.get(row["topic_partition"], ())
    evidence = json.loads(row["evidence"])
    if name == UNSEEN.name:
        is_deleted = deletes and _lies_below_the_logs(record, row["topic_partition"])
        return _allowed(row, evidence, DELETED) if is_deleted else row
    if row["severity"] != Severity.VIOLATION or not elections or name not in OF_ELECTIONS:
        return row
    if name == FENCED_ACKNOWLEDGEMENT.name and "more" not in evidence:
        return _allowed(row, evidence, GIVEN_UP) if _is_of_a_deposed_leader(evidence, elections) else row
    offsets = row["offsets"] if len(row["offsets"]) < LISTED_MAX else []  # More may have been cut from the list.
    if name == LOST_WRITE.name and _is_younger(record, row["op_indexes"], elections):
        return row
    if _is_excused(name, evidence, offsets, elections) and not _began_later(record, row, elections):
        return _allowed(row, evidence, GIVEN_UP)
    if offsets and max(offsets) < min(election.end_offset for election in elections):
        return row  # There the log has one past.
    return {**row, "severity": Severity.UNKNOWN.value}


def _is_excused(name: str, evidence: Mapping[str, Any], offsets: Sequence[int], elections: Sequence[GivenUp]) -> bool:
    """Whether elections have done what is told of these offsets, as far as they go."""
    if name == LOST_WRITE.name:
        epochs = [
            operation["leader_epoch"] for operation in evidence.get("operations", ()) if "leader_epoch" in operation
        ]
        later = [election for election in elections if epochs and election.epoch > max(epochs)]
        return _is_explained(evidence, ("cause",)) or any(_covers(each, offsets) for each in later)
    places = evidence.get("holes", offsets) if name == HOLE.name else offsets
    return _is_explained(evidence, ("cause", "cut_by")) or any(_covers(each, places) for each in elections)


def _allowed(row: Row, evidence: Mapping[str, Any], reason: str) -> Row:
    told = json.dumps({**evidence, NOT_PROMISED: reason}, sort_keys=True, separators=(",", ":"))
    return {**row, "severity": Severity.ALLOWED.value, "evidence": told}


_COUNTED = {"cause": "causes", "cut_by": "cuts"}
"""Where the row that counts others says of how many of them each reason is known."""


def _is_explained(evidence: Mapping[str, Any], reasons: Sequence[str]) -> bool:
    """Whether an election is the reason of this anomaly; of the row that counts others, of each of them."""
    if "more" in evidence:
        counts = (evidence.get(_COUNTED[reason], {}) for reason in reasons)
        return bool(sum(sum(found.values()) for found in counts) == evidence["more"])
    return any(reason in evidence for reason in reasons)


def _is_of_a_deposed_leader(evidence: Mapping[str, Any], elections: Sequence[GivenUp]) -> bool:
    """Whether an election outside the ISR lies between the epochs of two acknowledgements."""
    epochs = [operation["leader_epoch"] for operation in evidence.get("operations", ())]
    return bool(epochs) and any(min(epochs) < election.epoch <= max(epochs) for election in elections)


def _began_later(record: Record, row: Row, elections: Sequence[GivenUp]) -> bool:
    """Whether all operations of a row began when a leader of the last of these elections had acknowledged something."""
    last = max(election.epoch for election in elections)
    over = next(
        (
            at
            for at, event in enumerate(record.history)
            if event.f == APPEND and event.topic_partition == row["topic_partition"]
            if event.leader_epoch is not None and event.leader_epoch >= last
        ),
        None,
    )
    return over is not None and bool(row["op_indexes"]) and min(row["op_indexes"]) > over


def _covers(election: GivenUp, offsets: Sequence[int]) -> bool:
    """Whether an election has cut the log at all of these offsets."""
    return bool(offsets) and election.end_offset <= min(offsets) and max(offsets) < election.committed_end_offset


def _is_younger(record: Record, op_indexes: Sequence[int], elections: Sequence[GivenUp]) -> bool:
    """Whether a write was acknowledged by a leader that came with the last of these elections, or after it."""
    epochs = [event.leader_epoch for event in record.history if event.invoked in op_indexes[:1]]
    return any(epoch is not None and epoch >= max(each.epoch for each in elections) for epoch in epochs)


def _lies_below_the_logs(record: Record, topic_partition: str) -> bool:
    """Whether what nobody has seen of a partition can only have been deleted.

    Every acknowledged record tells an offset, and all logs end behind it. So each of them either stands in a log, where
    it is seen or convicted as lost, or the logs begin behind it.
    """
    ends = [row.log_end_offset for row in record.logs if row.topic_partition == topic_partition]
    offsets = [
        event.offset
        for event in record.history
        if event.f == APPEND and event.type is EventType.OK and event.topic_partition == topic_partition
        if event.invoked is None or record.history[event.invoked].acks is None
    ]
    return bool(ends) and all(offset is not None and offset < min(ends) for offset in offsets)


def told(anomalies: Iterable[Row]) -> Iterator[str]:
    """What was not promised and did not hold: a sentence for each reason, with the number of each anomaly."""
    numbers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    places: defaultdict[str, set[str]] = defaultdict(set)
    for row in anomalies:
        evidence = json.loads(row["evidence"])
        reason = evidence.get(NOT_PROMISED)
        if reason is not None:
            numbers[reason][row["anomaly"]] += evidence.get("more", evidence.get("unseen", 1))
            places[reason].add(row["topic_partition"])
    for reason, found in numbers.items():
        counted = ", ".join(f"{name} {number}" for name, number in sorted(found.items()))
        yield f"{reason}: {counted} ({', '.join(sorted(places[reason]))})"


def reason_of(sentence: str) -> str:
    """The reason that one of these sentences tells, without its numbers."""
    return sentence.partition(": ")[0]
