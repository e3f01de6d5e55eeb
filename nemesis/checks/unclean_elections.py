"""Why an acknowledged record is lost, and what else stands where an unclean election has cut the log.

Owns the reason, never a conviction: a record that was acknowledged and is lost is lost, whoever allowed it. The cause
is the first leader after the epoch of the acknowledgement whose log ended at the record or before it, if its election
was an unclean one. A leader in between that was elected cleanly and whose log was that short already clears every later
election: then something else is wrong. So does one that did not say where its log ended. Only the ends are compared: a
leader in between whose log was long enough is taken to have held the record.

Of other anomalies no cause is claimed. That all their offsets lie between the end of the new leader's log and that of
what was committed before is said as a fact: there the log has two pasts, and whoever saw both has seen a contradiction.

Source: KIP-106 (the unclean election), KIP-966 (who is eligible, and the last known leader).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.partition import NONE, Partition
from nemesis.checks.replica_events import UncleanElection


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An unclean election, where the log of its leader ended then, and where what had been acknowledged ended.

    ``committed_end_offset`` is at or above that: as far as leaders before it had said that the log was committed. What
    was acknowledged in an unknown epoch counts for neither.
    """

    election: UncleanElection
    log_end_offset: int
    acknowledged_end_offset: int
    committed_end_offset: int

    def covers(self, offset: int) -> bool:
        """Whether the log has another past there."""
        return self.log_end_offset <= offset < self.committed_end_offset

    @property
    def words(self) -> str:
        """The same for all records that it lost."""
        kind = "election of the last known leader" if self.election.led_last else "unclean election"
        return f"{kind} in epoch {self.election.epoch} of replica {self.election.leader_id}"

    @property
    def sentence(self) -> str:
        """What was known of the new leader, and what it lacked."""
        election = self.election
        standing = f"was neither in the ISR ({_listed(election.isr)}) nor in the ELR ({_listed(election.elr)})"
        return (
            f"{self.words}, which {standing}: its log ended at offset {self.log_end_offset}, and records below"
            f" {self.acknowledged_end_offset} had been acknowledged"
        )

    @property
    def evidence(self) -> dict[str, Any]:
        """The election as a JSON object."""
        return {
            "epoch": self.election.epoch,
            "leader_id": self.election.leader_id,
            "isr": list(self.election.isr),
            "elr": list(self.election.elr),
            "log_end_offset": self.log_end_offset,
            "acknowledged_end_offset": self.acknowledged_end_offset,
        }


class Cuts:
    """All unclean elections of one topic-partition that a leader began with."""

    def __init__(self, partition: Partition) -> None:
        self._operations = partition.operations
        self._leaders = partition.events.leaders
        # Whoever tells twice of one epoch began with what it told first.
        starts = reversed(partition.events.leader_starts)
        self._starts = {(start.epoch, start.replica_id): start for start in starts}
        elections = {(told.epoch, told.leader_id): told for told in partition.events.unclean_elections}
        self._cuts: Mapping[tuple[int, int], Cut] = {
            leader: _cut(partition, elections[leader], self._starts[leader].log_end_offset)
            for leader in self._leaders
            if leader in elections and leader in self._starts
        }

    def explained(self, anomaly: Anomaly) -> Anomaly:
        """An anomaly with what is known of why it is there; often nothing is."""
        if anomaly.is_loss:
            anomaly = self._with_cause(anomaly)
        return self._with_cut(anomaly)

    def _with_cause(self, anomaly: Anomaly) -> Anomaly:
        """The loss of an acknowledged append with its cause, or as it is where no unclean election caused it."""
        row = int(self._operations.invoke_index.searchsorted(anomaly.op_indexes[0]))
        cause = self._cause(int(self._operations.offset[row]), int(self._operations.leader_epoch[row]))
        if cause is None:
            return anomaly
        return replace(
            anomaly,
            detail=f"{anomaly.detail}; cause: {cause.sentence}",
            evidence={**anomaly.evidence, "cause": cause.words, "unclean_election": cause.evidence},
        )

    def _cause(self, offset: int, leader_epoch: int) -> Cut | None:
        """What lost a record that the leader of ``leader_epoch`` had acknowledged at ``offset``."""
        if NONE in (offset, leader_epoch):
            return None
        for leader in self._leaders:
            start = self._starts.get(leader)
            if leader[0] > leader_epoch and (start is None or start.log_end_offset <= offset):
                return self._cuts.get(leader)
        return None

    def _with_cut(self, anomaly: Anomaly) -> Anomaly:
        """An anomaly of unknown cause with the election that has cut the log at all of its offsets, if one has."""
        if "cause" in anomaly.evidence or not anomaly.offsets:
            return anomaly
        for cut in self._cuts.values():
            if all(cut.covers(offset) for offset in anomaly.offsets):
                return replace(anomaly, evidence={**anomaly.evidence, "cut_by": cut.words})
        return anomaly


def _cut(partition: Partition, election: UncleanElection, log_end_offset: int) -> Cut:
    operations = partition.operations
    is_known = operations.leader_epoch != NONE
    before = operations.append & operations.ok & is_known & (operations.leader_epoch < election.epoch)
    acknowledged_end_offset = int(operations.offset[before].max(initial=NONE)) + 1
    told = [told.offset for told in partition.events.high_watermarks if told.epoch < election.epoch]
    return Cut(
        election=election,
        log_end_offset=log_end_offset,
        acknowledged_end_offset=acknowledged_end_offset,
        committed_end_offset=max(acknowledged_end_offset, *told, 0),
    )


def _listed(replicas: Sequence[int]) -> str:
    return ", ".join(map(str, replicas)) or "nobody"
