"""What must hold of state machines across replicas, checked after every step of a simulated world.

Owns the promises about what was applied, answered and written down, each by comparison with one reference fold of the
committed log (``Reference``); what concerns the logs, ``invariants`` has. An answer that is too old for a linearizable
question is only noted: the run goes on, so that those who judge the history alone have their chance to find it.

Source: Kafka's ``RaftClient.Listener`` and ``RaftEventSimulationTest`` (SnapshotAtLogStart); KAFKA-15345, KAFKA-17333,
KAFKA-14618; Ongaro's thesis, chapters 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NoReturn

from nemesis.simulator.group_climate import new_machine
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_book import VoterBook, check_snapshot_voters
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.group import Group
from replica.core.log.recovered import StoredSnapshot
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import AppliedEntry, MachineFailedError, Outcome, Snapshot, committed_batch, encode_outcome
from replica.machines.snapshots import CHECKSUM_BYTES
from replica.records import RecordBatch


@dataclass(slots=True)
class _Looked:
    """What of a replica's group was looked at last."""

    applied: Offset | None = None
    log_start: Offset | None = None
    snapshots: tuple[StoredSnapshot, ...] = ()


_WRITTEN = frozenset[type]((fx.StoreSnapshot, fx.InstallSnapshot))


class GroupInvariants(Observer):
    """The promises of all groups of a world. It is told of committed batches before it is told of the step."""

    def __init__(self, nodes: Mapping[ReplicaId, Node], logs: tuple[TopicPartition, ...]) -> None:
        self.references = {log: Reference(log) for log in logs}
        self.books: Mapping[TopicPartition, VoterBook] = {}
        """Who votes in each log by what is committed: given before anything happens."""
        self.stale_read: str | None = None
        """The first answer that was older than its question; absent while there is none."""
        self._known = dict.fromkeys(logs, Offset(0))
        """How far somebody has been told of what was applied."""
        self._floors: dict[ReplicaId, dict[CallId, Offset]] = {replica_id: {} for replica_id in nodes}
        """How far that was when a linearizable question came."""
        self._looked: dict[ReplicaId, dict[TopicPartition, _Looked]] = {replica_id: {} for replica_id in nodes}
        self._storing: dict[ReplicaId, dict[TopicPartition, fx.StoreSnapshot]] = {
            replica_id: {} for replica_id in nodes
        }
        """The snapshots that are on their way."""

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """What was written down is there again, or something older."""
        del torn_bytes
        self._looked[node.replica_id] = {log: _Looked() for log in self.references}
        for log, reference in self.references.items():
            recovered = node.recovered[log]
            if recovered.snapshots:
                self._check_content(node, reference, log, recovered.snapshots[-1].id, recovered.snapshot)

    def on_down(self, node: Node, crash: Crash) -> None:
        """What was asked of it is answered by nobody."""
        del crash
        self._floors[node.replica_id].clear()
        self._storing[node.replica_id].clear()

    def on_step(self, node: Node, step: Step) -> None:
        """Look at what was asked, then at what was written down, then at the replica, then at what it told."""
        self._on_event(node, step.event)
        for effect in () if step.kinds.isdisjoint(_WRITTEN) else step.effects:
            match effect:
                case fx.StoreSnapshot(topic_partition=log, snapshot_id=snapshot_id):
                    self._storing[node.replica_id][log] = effect
                    self._check_content(node, self.references[log], log, snapshot_id, effect.state.encode())
                case fx.InstallSnapshot(topic_partition=log, snapshot_id=snapshot_id, data=data):
                    self._check_content(node, self.references[log], log, snapshot_id, data)
                case _:
                    pass
        if node.core is not None:
            for log, group in node.core.groups.items():
                if step.is_whole_of(log):
                    self._look(node, log, node.core.logs[log], group)
        for effect in step.effects if fx.Reply in step.kinds else ():
            if isinstance(effect, fx.Reply):
                self._on_reply(node, effect.call_id, node.requests[effect.call_id], effect.response)

    def _on_event(self, node: Node, event: ev.Event | None) -> None:
        match event:
            case ev.RequestReceived(call_id=call_id, request=m.QueryRequest() as request):
                if request.consistency is not m.Consistency.STALE:
                    self._floors[node.replica_id][call_id] = self._known[request.topic_partition]
            case ev.SnapshotStored(topic_partition=log, snapshot_id=snapshot_id):
                # What was applied since it was taken must not have got into it.
                stored = self._storing[node.replica_id].pop(log)
                self._check_content(node, self.references[log], log, snapshot_id, stored.state.encode())
            case _:
                pass

    # --- what is written down ---------------------------------------------------------------------------------------

    def _check_content(
        self, node: Node, reference: Reference, log: TopicPartition, snapshot_id: SnapshotId, data: bytes
    ) -> None:
        """A snapshot is the state that the committed log leads to, under its own name, and names its voters."""
        known = reference.snapshot_at(snapshot_id.end_offset)
        if known is None or known.id != snapshot_id:
            _convict("snapshot-id", f"replica {node.replica_id} has {snapshot_id} of {log}, where no such record ends")
        if known.data != check_snapshot_voters(node.replica_id, self.books, log, snapshot_id.end_offset, data):
            _convict(
                "snapshot-content",
                f"replica {node.replica_id} keeps another state of {log} at {snapshot_id.end_offset} than the "
                "committed log leads to",
            )

    # --- the replica after the step ---------------------------------------------------------------------------------

    def _look(self, node: Node, name: TopicPartition, log: QuorumLog, group: Group) -> None:
        looked, reference = self._looked[node.replica_id][name], self.references[name]
        if group.machine_leads:
            self._check_leads(node, name, log, group)
        if group.applied_offset != looked.applied:
            looked.applied = group.applied_offset
            self._check_state(node, name, group, reference)
        if log.log.log_start_offset != looked.log_start or log.snapshots is not looked.snapshots:
            looked.log_start, looked.snapshots = log.log.log_start_offset, log.snapshots
            self._check_log_start(node, name, log, reference)

    def _check_leads(self, node: Node, name: TopicPartition, log: QuorumLog, group: Group) -> None:
        """A machine leads with its log, and knows all that was answered by those who led before."""
        role = log.role
        if not isinstance(role, Leader):
            _convict("machine-leads", f"the machine of replica {node.replica_id} leads {name}, its log is {role.name}")
        if group.applied_offset <= role.epoch_start_offset:
            _convict(
                "machine-leads",
                f"the machine of replica {node.replica_id} leads {name} in epoch {log.leader_epoch}, which began at "
                f"{role.epoch_start_offset}, and has applied up to {group.applied_offset}",
            )

    def _check_state(self, node: Node, name: TopicPartition, group: Group, reference: Reference) -> None:
        """What is applied is committed, and all that have applied equally much are in the same state."""
        digest = reference.digest_at(group.applied_offset)
        if digest is None:
            _convict(
                "applied-is-committed",
                f"replica {node.replica_id} has applied {name} up to {group.applied_offset}, where nothing that is "
                "committed ends",
            )
        try:
            own = group.digest()
        except MachineFailedError as error:
            _convict("state-hash", f"replica {node.replica_id} has no state of {name}: {error}")
        if own != digest:
            _convict(
                "state-hash",
                f"replica {node.replica_id} is in another state at offset {group.applied_offset} of {name} than the "
                "committed log leads to",
            )

    def _check_log_start(self, node: Node, name: TopicPartition, log: QuorumLog, reference: Reference) -> None:
        """SnapshotAtLogStart: what is gone from the log is in a snapshot that ends just there."""
        start, stored = log.log.log_start_offset, [snapshot.id for snapshot in log.snapshots]
        if start > 0 and (not stored or stored[0].end_offset != start):
            _convict(
                "snapshot-at-log-start",
                f"the log {name} of replica {node.replica_id} begins at {start}; it has {stored}",
            )
        for snapshot_id in stored:
            if not reference.is_of_the_log(snapshot_id):
                _convict("snapshot-id", f"replica {node.replica_id} counts on {snapshot_id} of {name}")

    # --- answers ----------------------------------------------------------------------------------------------------

    def _on_reply(self, node: Node, call_id: CallId, request: m.Request, response: m.Response) -> None:
        match request, response:
            case m.ApplyRequest(), m.ApplyResponse(error=ErrorCode.NONE, base_offset=int(base_offset)):
                self._check_outcomes(node, request, Offset(base_offset), response.outcomes)
            case m.QueryRequest(), m.QueryResponse(error=ErrorCode.NONE, applied_offset=int(applied_offset)):
                floor = self._floors[node.replica_id].pop(call_id, Offset(0))
                self._check_answer(node, request, Offset(applied_offset), response.outcomes, floor)
            case m.QueryRequest(), _:
                self._floors[node.replica_id].pop(call_id, None)
            case _:
                pass

    def _check_outcomes(
        self, node: Node, request: m.ApplyRequest, base_offset: Offset, outcomes: tuple[bytes, ...]
    ) -> None:
        """A client is told what its entries came to in the committed log."""
        log = request.topic_partition
        if self.references[log].outcomes(base_offset, len(request.entries)) != outcomes:
            _convict(
                "acknowledged-is-applied",
                f"replica {node.replica_id} answered a command at offset {base_offset} of {log} with what did not "
                "come of it",
            )
        self._known[log] = max(self._known[log], Offset(base_offset + len(outcomes)))

    def _check_answer(
        self, node: Node, request: m.QueryRequest, applied_offset: Offset, answers: tuple[bytes, ...], floor: Offset
    ) -> None:
        """An answer is that of a state that there was, and no older than what was known when it was asked for."""
        log = request.topic_partition
        known = [self.references[log].answer_at(applied_offset, each) for each in request.requests]
        if answers != tuple(None if each is None else encode_outcome(each) for each in known):
            _convict(
                "answer-of-no-state",
                f"replica {node.replica_id} answered a question with what the state at {applied_offset} of {log} "
                "does not say",
            )
        if request.consistency is m.Consistency.STALE:
            return
        if applied_offset < floor and self.stale_read is None:
            self.stale_read = (
                f"replica {node.replica_id} answered a linearizable question with its state at {applied_offset} of "
                f"{log}; {floor} was known before"
            )
        self._known[log] = max(self._known[log], applied_offset)


def _convict(name: str, detail: str) -> NoReturn:
    raise BrokenInvariantError(name, detail)


class Reference:
    """The states of one group by what was committed."""

    def __init__(self, log: TopicPartition) -> None:
        self._log = log
        self._machine = new_machine(log)
        self._earlier = new_machine(log)
        """The state that was asked last of those that are over."""
        self._snapshots: dict[Offset, Snapshot] = {}
        self._digests: dict[Offset, str] = {Offset(0): self._machine.digest()}
        self._outcomes: dict[Offset, bytes] = {}

    def on_commit(self, batch: RecordBatch) -> None:
        """Take the next committed batch."""
        self._machine.apply(committed_batch(batch), self._note)
        taken = self._machine.snapshot()
        self._snapshots[taken.id.end_offset] = taken
        self._digests[taken.id.end_offset] = sha256(taken.data[:-CHECKSUM_BYTES]).hexdigest()

    def _note(self, applied: AppliedEntry) -> None:
        self._outcomes[applied.offset] = encode_outcome(applied.outcome)

    def digest_at(self, applied_offset: Offset) -> str | None:
        """The hash of the state below an offset; None where no committed batch ends."""
        return self._digests.get(applied_offset)

    def snapshot_at(self, end_offset: Offset) -> Snapshot | None:
        """The whole state below an offset; None where no committed batch ends."""
        return self._snapshots.get(end_offset)

    def epoch_below(self, end_offset: Offset) -> Epoch | None:
        """The epoch of the last record below an offset; None where no committed batch ends."""
        snapshot = self._snapshots.get(end_offset)
        return None if snapshot is None else snapshot.id.epoch

    def is_of_the_log(self, snapshot_id: SnapshotId) -> bool:
        """Whether a committed batch of this epoch ends there."""
        return self.epoch_below(snapshot_id.end_offset) == snapshot_id.epoch

    def outcomes(self, base_offset: Offset, count: int) -> tuple[bytes | None, ...]:
        """What the entries from an offset on have come to; None for those that are not committed."""
        return tuple(self._outcomes.get(Offset(base_offset + place)) for place in range(count))

    def answer_at(self, applied_offset: Offset, question: bytes) -> Outcome | None:
        """What the state below an offset answers; None where no committed batch ends."""
        if applied_offset == self._machine.applied_offset:
            return self._machine.query(question)  # As nearly always: it changes nothing.
        if self._earlier.applied_offset != applied_offset:
            machine, snapshot = new_machine(self._log), self._snapshots.get(applied_offset)
            if snapshot is None and applied_offset > 0:
                return None
            if snapshot is not None:
                machine.restore(snapshot)
            self._earlier = machine
        return self._earlier.query(question)
