"""What happened rarely in a world, whatever its kind.

Owns the counting, and the rows of what replicas had happen to them: in any world, to snapshots and those who begin with
one, where the voters of logs change, and in worlds of state machines. Judges nothing. Which brokers and partitions had
rare things happen to them, ``cluster_census`` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemesis.history import BECAME_LEADER
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import LOG, Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.core.quorum.roles import Candidate, Leader, Resigned
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.machines import Refusal, Refused, SessionCommand, SessionId, decode_entry, decode_outcome
from replica.records import RecordBatch, decode_records, decode_voters
from replica.storage import StorageError
from replica.voters import ReplicaKey, VoterEntry, VoterSet


class Census(Observer):
    """Counts ``Rare`` events of one world, and records elections and truncations."""

    def __init__(self, record: Record, log: TopicPartition = LOG) -> None:
        self.steps = 0
        self._record = record
        self._rare = record.rare
        self._log = log
        self._roles: dict[ReplicaId, tuple[type, Epoch]] = {}
        self._candidates: dict[Epoch, set[ReplicaId]] = {}
        self._led: set[Epoch] = set()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        self._rare[Rare.TORN_TAIL] += torn_bytes > 0
        self._roles.pop(node.replica_id, None)

    def on_step(self, node: Node, step: Step) -> None:
        self.steps += 1
        for effect in step.effects if fx.Truncate in step.kinds else ():
            if isinstance(effect, fx.Truncate) and effect.topic_partition == self._log:
                self._rare[Rare.DIVERGENCE_TRUNCATED] += 1
                self._record.replica(node.replica_id, "truncated", topic_partition=self._log, offset=effect.end_offset)
        if fx.Append in step.kinds:
            self._rare[Rare.SEVERAL_RECORDS] += _appends_several(step)
        if node.core is not None and step.is_whole:
            log = node.core.logs[self._log]
            now = (type(log.role), log.leader_epoch)
            before = self._roles.get(node.replica_id)
            if now != before:
                self._roles[node.replica_id] = now
                self._on_role(node.replica_id, now, before)

    def on_down(self, node: Node, crash: Crash) -> None:
        self._rare[Rare.POWER_LOSS] += crash.cause.startswith("power")
        self._rare[Rare.CRASH_BETWEEN_EFFECTS] += 0 < crash.performed < crash.effects
        self._rare[Rare.CRASH_IN_EFFECT] += crash.cause == "power-in-step"
        self._rare[Rare.STORAGE_FAILURE] += node.storage_failed and crash.cause.startswith("halt")
        files = node.disk.files
        self._rare[Rare.FULL_DISK] += files.refused_for_space > 0
        files.refused_for_space = 0

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        del error
        self._rare[Rare.DAMAGE_DETECTED] += node.is_retired
        self._rare[Rare.FULL_DISK] += node.disk.files.refused_for_space > 0
        node.disk.files.refused_for_space = 0

    def finish(self) -> None:
        """Count what only the end shows: epochs in which several campaigned and nobody won."""
        lost = [epoch for epoch, who in self._candidates.items() if len(who) > 1 and epoch not in self._led]
        self._rare[Rare.SPLIT_VOTE] += len(lost)

    def _on_role(self, replica_id: ReplicaId, now: tuple[type, Epoch], before: tuple[type, Epoch] | None) -> None:
        role, epoch = now
        if role is Candidate:
            self._candidates.setdefault(epoch, set()).add(replica_id)
        elif role is Leader:
            self._led.add(epoch)
            self._rare[Rare.ELECTION] += 1
            self._record.replica(replica_id, "became-leader", topic_partition=self._log, epoch=epoch)
        elif role is Resigned and before is not None and before[0] is Leader:
            self._rare[Rare.RESIGNATION] += 1


def _appends_several(step: Step) -> bool:
    """Whether a leader has appended a client's batch of several records."""
    match step.event:
        case ev.RequestReceived(request=m.ProduceRequest(topic_partition=log)):
            appends = [effect for effect in step.effects if isinstance(effect, fx.Append)]
            batches = [batch for effect in appends if effect.topic_partition == log for batch in effect.batches]
            return any(batch.end_offset - batch.base_offset > 1 for batch in batches)
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How what happens to snapshots is called, by what they are of."""

    stored: Rare
    installed: Rare
    in_pieces: Rare
    gone: Rare
    at_start: Rare


OF_MACHINES = Names(
    stored=Rare.SNAPSHOT_STORED,
    installed=Rare.SNAPSHOT_INSTALLED,
    in_pieces=Rare.SNAPSHOT_IN_PIECES,
    gone=Rare.SNAPSHOT_GONE,
    at_start=Rare.RESTORED_AT_START,
)
OF_METADATA = Names(
    stored=Rare.METADATA_SNAPSHOT_STORED,
    installed=Rare.METADATA_SNAPSHOT_INSTALLED,
    in_pieces=Rare.METADATA_SNAPSHOT_IN_PIECES,
    gone=Rare.METADATA_SNAPSHOT_GONE,
    at_start=Rare.METADATA_RESTORED_AT_START,
)


class SnapshotCensus(Observer):
    """Counts the snapshots of some logs."""

    def __init__(self, record: Record, logs: Sequence[TopicPartition], names: Names) -> None:
        self.restored: set[ReplicaId] = set()
        """Whose present process has begun with a snapshot, or loaded one."""
        self._rare = record.rare
        self._logs = logs
        self._names = names

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        del torn_bytes
        self.restored.discard(node.replica_id)
        if any(node.recovered[log].snapshots for log in self._logs):
            self._rare[self._names.at_start] += 1
            self.restored.add(node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        match step.event:
            case ev.SnapshotStored():
                self._rare[self._names.stored] += 1
            case ev.ResponseReceived(response=m.FetchSnapshotResponse() as response):
                self._rare[self._names.in_pieces] += response.position > 0
                self._rare[self._names.gone] += response.error is ErrorCode.SNAPSHOT_NOT_FOUND
            case _:
                pass
        if fx.InstallSnapshot in step.kinds:
            self._rare[self._names.installed] += 1
            self.restored.add(node.replica_id)


class MetadataCensus(SnapshotCensus):
    """Counts what snapshots of the metadata bring about beside that: on new disks, to hosts, and for controllers."""

    def __init__(self, record: Record) -> None:
        super().__init__(record, (METADATA_LOG,), OF_METADATA)
        self._new_disks: set[ReplicaId] = set()
        self._controllers: set[tuple[ReplicaId, Epoch]] = set()
        self._images: dict[ReplicaId, MetadataImage] = {}

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        super().on_boot(node, torn_bytes)
        self._images.pop(node.replica_id, None)

    def on_disk_changed(self, node: Node) -> None:
        self._new_disks.add(node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        super().on_step(node, step)
        before = self._images.get(node.replica_id)
        if node.core is not None:
            self._images[node.replica_id] = node.core.metadata.image
        if fx.InstallSnapshot in step.kinds:
            self._on_installed(node, before or MetadataImage())
        if node.core is not None and node.core.controller is not None and node.core.controller.is_active:
            activity = (node.replica_id, node.core.logs[METADATA_LOG].leader_epoch)
            if activity not in self._controllers:
                self._controllers.add(activity)
                self._rare[Rare.CONTROLLER_AFTER_RESTORE] += node.replica_id in self.restored

    def _on_installed(self, node: Node, before: MetadataImage) -> None:
        """Count a snapshot that was loaded on an empty disk, or with news of what its broker hosts already."""
        if node.replica_id in self._new_disks:
            self._new_disks.discard(node.replica_id)
            self._rare[Rare.METADATA_SNAPSHOT_ON_NEW_DISK] += 1
        if node.core is not None and node.core.broker is not None:
            after = node.core.metadata.image
            told = any(before.partition(log) != after.partition(log) for log in node.core.broker.partitions)
            self._rare[Rare.METADATA_SNAPSHOT_NEW_TO_HOST] += told


_COUNTED = frozenset[type]((fx.Append, fx.InstallSnapshot, fx.Reply))


class VoterCensus(Observer):
    """Counts ``Rare`` events of one world. It is told of a step after the judges that keep the books."""

    def __init__(self, record: Record, books: Mapping[TopicPartition, VoterBook]) -> None:
        self._rare = record.rare
        self._books = books
        self._ends: dict[tuple[ReplicaId, TopicPartition], Offset] = {}
        self._own_removals: set[tuple[TopicPartition, VoterEntry]] = set()
        self._restored: set[tuple[TopicPartition, ReplicaKey]] = set()
        self._newcomers: set[tuple[TopicPartition, ReplicaKey]] = set()
        """Who has led that was no voter at first."""

    def on_step(self, node: Node, step: Step) -> None:
        for effect in () if step.kinds.isdisjoint(_COUNTED) else step.effects:
            self._on_effect(node, effect)
        if node.core is None or not step.is_whole:
            return
        for log, book in self._books.items():
            if isinstance(node.core.logs[log].role, Leader) and not book.base.has(node.key):
                self._newcomers.add((log, node.key))

    def on_disk_changed(self, node: Node) -> None:
        had_vote = any(book.latest_committed.find(node.replica_id) is not None for book in self._books.values())
        self._rare[Rare.VOTER_DISK_WIPED if had_vote else Rare.OBSERVER_DISK_WIPED] += 1

    def _on_effect(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.Append(topic_partition=log, batches=batches) if log in self._books:
                for batch in batches:
                    self._on_voters(node, log, batch.base_offset, decode_voters(batch) if batch.is_control else None)
            case fx.InstallSnapshot(topic_partition=log):
                self._restored.add((log, node.key))
            case fx.Reply(call_id=call_id, response=m.ChangeVotersResponse() as response):
                self._on_answer(node.requests[call_id], response)
            case fx.Reply(response=m.VoteResponse(error=ErrorCode.INVALID_VOTER_KEY)):
                self._rare[Rare.OTHER_DISK_REFUSED_VOTE] += 1
            case fx.Reply(response=m.TransferLeadershipResponse(error=ErrorCode.NONE)):
                self._rare[Rare.LEADERSHIP_HANDED_OVER] += 1
            case _:
                pass

    def _on_voters(self, node: Node, log: TopicPartition, offset: Offset, voters: VoterSet | None) -> None:
        core = node.core
        leads = core is not None and isinstance(core.logs[log].role, Leader)
        if voters is not None and leads and not voters.has(node.key):
            self._own_removals.add((log, VoterEntry(offset=offset, voters=voters)))

    def _on_answer(self, request: m.Request, response: m.ChangeVotersResponse) -> None:
        match response:
            case m.ChangeVotersResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
                self._rare[Rare.CHANGE_TOO_SOON] += 1
            case m.ChangeVotersResponse(error=ErrorCode.REQUEST_TIMED_OUT, not_appended=True):
                self._rare[Rare.NEWCOMER_TOO_SLOW] += isinstance(request, m.AddVoterRequest)
            case m.ChangeVotersResponse(error=error, not_appended=False) if error is not ErrorCode.NONE:
                self._rare[Rare.CHANGE_UNKNOWN] += 1
            case _:
                pass

    def finish(self) -> None:
        """Count what was committed, and who has voted then."""
        for log, book in self._books.items():
            before, voted = book.base, {voter.key for voter in book.base.voters}
            for entry in book.committed:
                self._on_committed(before, entry.voters, voted)
                voted |= {voter.key for voter in entry.voters.voters}
                self._rare[Rare.LEADER_REMOVED_ITSELF] += (log, entry) in self._own_removals
                before = entry.voters
            new = {key for key in voted if not book.base.has(key)}
            self._rare[Rare.SNAPSHOT_INSTALLED_BY_NEW_VOTER] += len(
                {key for name, key in self._restored if name == log} & new
            )
            self._rare[Rare.VOTERS_TAKEN_BACK] += book.taken_back
        self._rare[Rare.LED_BY_NEWCOMER] += len(self._newcomers)

    def _on_committed(self, before: VoterSet, now: VoterSet, voted: set[ReplicaKey]) -> None:
        added = [voter for voter in now.voters if before.find(voter.replica_id) is None]
        ids = {key.replica_id for key in voted}
        on_other_disks = [voter for voter in added if voter.replica_id in ids and voter.key not in voted]
        self._rare[Rare.VOTER_REPLACED] += len(on_other_disks)
        self._rare[Rare.VOTER_ADDED] += len(added)
        self._rare[Rare.VOTER_REMOVED] += len(before.voters) + len(added) - len(now.voters)


_COUNTED_OF_GROUPS = frozenset[type]((fx.Reply, fx.Append))


class GroupCensus(Observer):
    """Counts ``Rare`` events of one world."""

    def __init__(self, world: World, record: Record) -> None:
        self._record = record
        self._logs = world.logs
        self._led: dict[TopicPartition, set[Epoch]] = {log: set() for log in world.logs}
        self._rare = record.rare
        self._snapshots = SnapshotCensus(record, world.logs, OF_MACHINES)
        self._numbered: set[tuple[SessionId, int]] = set()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        self._snapshots.on_boot(node, torn_bytes)

    def on_step(self, node: Node, step: Step) -> None:
        self._snapshots.on_step(node, step)
        if fx.Reply in step.kinds:
            self._rare[Rare.LEASE_READ] += is_answered_by_lease(step)
        is_asked = isinstance(step.event, ev.RequestReceived) and isinstance(step.event.request, m.ApplyRequest)
        for effect in () if step.kinds.isdisjoint(_COUNTED_OF_GROUPS) else step.effects:
            self._on_effect(node, effect)
            if is_asked and isinstance(effect, fx.Append):
                self._on_appended(node, effect.batches)
        if node.core is None or not step.is_whole:
            return
        for log in self._logs:
            role, epoch = node.core.logs[log].role, node.core.logs[log].leader_epoch
            if isinstance(role, Leader) and epoch not in self._led[log]:
                self._rare[Rare.GROUP_FAILOVER] += bool(self._led[log])
                self._led[log].add(epoch)
                if log != self._logs[0]:
                    self._record.replica(node.replica_id, BECAME_LEADER, topic_partition=log, epoch=epoch)

    def _on_effect(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.Reply(call_id=call_id, response=m.ApplyResponse() as response):
                request = node.requests[call_id]
                assert isinstance(request, m.ApplyRequest), request
                self._on_applied(request, response)
            case fx.Reply(call_id=call_id, response=m.QueryResponse(error=ErrorCode.NONE)):
                self._on_answered(node, node.requests[call_id])
            case fx.Reply(response=m.QueryResponse(error=ErrorCode.REQUEST_TIMED_OUT)):
                self._rare[Rare.LATE_READ] += 1
            case _:
                pass

    def _on_applied(self, request: m.ApplyRequest, response: m.ApplyResponse) -> None:
        if response.error is not ErrorCode.NONE:
            self._rare[Rare.UNKNOWN_COMMAND] += not response.not_appended
        for entry, outcome in zip(map(decode_entry, request.entries), response.outcomes, strict=False):
            if isinstance(entry, SessionCommand):
                told = decode_outcome(outcome)
                expired = isinstance(told, Refused) and told.refusal is Refusal.UNKNOWN_SESSION
                self._rare[Rare.SESSION_EXPIRED] += expired

    def _on_appended(self, node: Node, batches: tuple[RecordBatch, ...]) -> None:
        """A leader writes what it is asked to: a command may stand in its log already."""
        for entry in (decode_entry(record.value or b"") for batch in batches for record in decode_records(batch)):
            if isinstance(entry, SessionCommand):
                number = (entry.session_id, entry.sequence)
                self._rare[Rare.REPEATED_COMMAND] += number in self._numbered
                self._rare[Rare.REPEATED_AFTER_RESTORE] += (
                    number in self._numbered and node.replica_id in self._snapshots.restored
                )
                self._numbered.add(number)

    def _on_answered(self, node: Node, request: m.Request) -> None:
        assert isinstance(request, m.QueryRequest), request
        assert node.core is not None, node.replica_id
        leads = isinstance(node.core.logs[request.topic_partition].role, Leader)
        self._rare[Rare.FOLLOWER_READ] += not leads and request.consistency is not m.Consistency.STALE


def is_answered_by_lease(step: Step) -> bool:
    """Whether a question that trusts in clocks was answered in the step in which it came: nobody else was asked."""
    match step.event:
        case ev.RequestReceived(call_id=call_id, request=m.QueryRequest(consistency=m.Consistency.LEASE)):
            answers = [effect for effect in step.effects if isinstance(effect, fx.Reply) and effect.call_id == call_id]
            return any(answer.response.error is ErrorCode.NONE for answer in answers)
        case _:
            return False
