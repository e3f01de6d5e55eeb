"""All that one quorum log knows, and the outbox into which a step puts its effects.

Owns the data; decides nothing. The modules beside it read and change it during a step; between steps it is at rest and
its outbox is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from replica.core.config import QuorumConfig, ReplicaConfig
from replica.core.effects import Effect, Halt, QuorumState, Send, StoreVoters
from replica.core.log.recovered import RecoveredLog
from replica.core.log.replicated_log import ReplicatedLog
from replica.core.messages import CurrentLeader, FetchPartition, FetchRequest, PeerRequest
from replica.core.purgatory import Purgatory
from replica.core.quorum.roles import Follower, Leader, Role, Unattached
from replica.core.quorum.snapshot_header import encode_header, split_snapshot
from replica.core.quorum.voter_history import VoterHistory, formatted_history, voters_in
from replica.core.rules import Rules
from replica.ids import CallId, CorrelationId, Epoch, EpochEndOffset, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import CorruptSnapshotError
from replica.records import RecordBatch
from replica.voters import ReplicaKey, VoterSet


class ParkedFetch(Struct, frozen=True, kw_only=True):
    """A fetch that waits for records, or for a high watermark above the one that its sender knows."""

    call_id: CallId
    deadline_ms: int
    request: FetchRequest
    part: FetchPartition
    """What is fetched of this log, the only one in ``request``."""


class QuorumLogState(ReplicatedLog):
    """One log of a quorum as its replica sees it."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        config: ReplicaConfig,
        recovered: RecoveredLog,
        rules: Rules,
        random: Random,
        next_correlation_id: Callable[[], CorrelationId],
        is_of_group: bool = False,
    ) -> None:
        self._outbox: list[Effect] = []
        super().__init__(
            topic_partition=topic_partition,
            cluster_id=config.cluster_id,
            replica_id=config.replica_id,
            directory_id=config.directory_id,
            limits=config.quorum,
            recovered=recovered,
            rules=rules,
            emit=self._outbox.append,
        )
        self.is_of_group = is_of_group
        """Whether a state machine stands on it, and not the metadata, of which everybody waits to hear."""
        self.has_leases = is_of_group and config.group.lease_reads
        """Whether a leader may answer by lease, for which voters withhold their votes."""
        self.answers_wait: Callable[[], bool] = lambda: False
        """Whether calls wait for what is in the log of which it knows nothing; who hosts something on it says so."""
        self.heard_leader_ms: int | None = None
        """When a leader has last answered a fetch of this voter; absent once it has said that it leads no more."""
        self.epochs_spent_until_ms = 0
        """When all of the allowance is back by which requests may raise the epoch (``fencing``)."""
        self.refused_leader: CurrentLeader | None = None
        """The last claim of a leader that contradicted what is known; whoever watches this log says so."""
        self.config = config
        self.quorum: QuorumConfig = config.quorum
        """Timing and limits."""
        self.key = ReplicaKey(config.replica_id, config.directory_id)
        self.is_unreadable: str | None = None
        """Why the snapshot on disk cannot be loaded; absent where it can."""
        self.voter_history = self._recovered_voters(recovered)
        self.voters = VoterSet(())
        """Those in force."""
        self.is_voter = False
        """Whether this replica has a vote; one that has none is an observer."""
        self.other_voters: tuple[ReplicaId, ...] = ()
        self.follow_voters()
        self.quorum_state = recovered.quorum_state or QuorumState(leader_epoch=self.log.last_epoch or Epoch(0))
        self.role: Role = Unattached(election_deadline_ms=0)
        self.storing: SnapshotId | None = None
        """The snapshot that is on its way to stable storage."""
        self.snapshot_bytes = recovered.snapshots[-1].size_bytes if recovered.snapshots else 0
        """How large the last snapshot was that was encoded here, or installed; 0 before the first."""
        self.snapshot_wanted = Offset(0)  # A client has asked for one that ends there or above.
        self.fetches: Purgatory[ParkedFetch] = Purgatory(self.quorum.parked_fetches_max)
        self.halted: str | None = None
        self.steps = 0
        """How often something was done with it: who reads it has nothing new to see while this stays the same."""
        self._random = random
        self._next_correlation_id = next_correlation_id

    # --- who votes --------------------------------------------------------------------------------------------------

    def _recovered_voters(self, recovered: RecoveredLog) -> VoterHistory:
        """Rebuild the history: what the newest snapshot says, or the format, and then what was stored of later records.

        1. The file of a follower holds an entry at 50. 2. It installs a snapshot at 40, and crashes before the file is
        replaced. Or: 3. It stores a snapshot at 60, and crashes before that. What the snapshot stands for it says.
        """
        history = formatted_history(self.config)
        if recovered.snapshots:
            try:
                history, _ = split_snapshot(recovered.snapshot)
            except CorruptSnapshotError as error:
                self.is_unreadable = f"{self.topic_partition}: the newest snapshot is corrupt: {error}"
        begin = recovered.snapshots[-1].id.end_offset if recovered.snapshots else Offset(0)
        assert all(entry.offset < recovered.log_end_offset for entry in recovered.voters), recovered
        return history.extended(entry for entry in recovered.voters if entry.offset >= begin)

    def follow_voters(self) -> None:
        """Let the set that is in force count."""
        voters = self.rules.voters_in_force(
            base=self.voter_history.base,
            entries=self.voter_history.entries,
            high_watermark=self.log.high_watermark,
        )
        if voters is not self.voters:
            self.voters = voters
            self.is_voter = self.rules.has_vote(voters=voters, key=self.key)
            self.other_voters = tuple(voter for voter in voters.ids if voter != self.replica_id)

    @property
    def majority(self) -> int:
        """How many voters are more than half of them."""
        return self.voters.majority

    def directory_of(self, replica_id: ReplicaId) -> str | None:
        """Name the disk on which a replica votes; absent where that may be any."""
        voter = self.voters.find(replica_id)
        return None if voter is None else voter.directory_id

    @property
    def counts_itself(self) -> bool:
        """Whether a leader is one of the voters that it counts."""
        return self.rules.leader_counts_itself(is_voter=self.is_voter)

    @property
    def campaigns(self) -> bool:
        """Whether this replica asks for votes when nobody leads."""
        history, high_watermark = self.voter_history, self.log.high_watermark
        changed_at = history.latest_offset
        return self.rules.campaigns(
            is_voter=self.is_voter,
            was_voter=self.rules.has_vote(voters=history.previous, key=self.key),
            is_committed=changed_at is None or (high_watermark is not None and changed_at < high_watermark),
        )

    def change_voters(self, history: VoterHistory) -> None:
        """Go by another history, and have its entries stored if they are others."""
        before, self.voter_history = self.voter_history, history
        self.follow_voters()
        if history.entries != before.entries:
            self.emit(StoreVoters(topic_partition=self.topic_partition, entries=history.entries))

    def header_of(self, snapshot_id: SnapshotId) -> bytes:
        """Encode what stands before a snapshot's content: the voters as of its end."""
        as_of_end = self.voter_history.as_of(snapshot_id.end_offset)
        return encode_header(as_of_end if self.rules.voters_are_in_snapshot() else formatted_history(self.config))

    # --- who and where ----------------------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> Epoch:
        """The leader epoch that this replica has reached."""
        return self.quorum_state.leader_epoch

    @property
    def leader_id(self) -> ReplicaId | None:
        match self.role:
            case Leader():
                return self.replica_id
            case Follower(leader_id=leader_id):
                return leader_id
            case _:
                return None

    @property
    def is_handing_over(self) -> bool:
        """Whether it leads, and takes no more records because another is to lead."""
        return isinstance(self.role, Leader) and self.role.transfer is not None

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def role_name(self) -> str:
        return self.role.name

    @property
    def peer_address(self) -> str:
        """Where other replicas reach it, if that is a listener of its own."""
        return "" if self.config.identity is None else self.config.identity.peer_address

    @property
    def consumers_end(self) -> Offset | None:
        """Where the log ends for a client: nobody knows before the leader has committed something in its epoch."""
        return self.high_watermark

    def end_of_epoch(self, epoch: Epoch) -> EpochEndOffset | None:
        """Where an epoch ends in this log; absent of one that is older than all that is left.

        1. Epoch 5 begins at offset 40. 2. The leader deletes what its snapshot contains, and its log and its epochs
        begin at 41. 3. A follower holds [40, 42) of epoch 4: told that this ends at 41, it would cut a batch in two.
        Whoever fetches with such an epoch is sent to a snapshot instead.
        """
        return self.log.end_offset_of_held(epoch)

    @property
    def high_watermark(self) -> Offset | None:
        """What this replica tells others about the high watermark; a leader that does not know its own says nothing."""
        if isinstance(self.role, Leader):
            return self.role.high_watermark
        return self.log.high_watermark

    def election_timeout_ms(self) -> int:
        """Draw an election timeout, uniform in [T, 2T), so that two replicas rarely campaign at once."""
        return self._random.randrange(self.quorum.election_timeout_ms, 2 * self.quorum.election_timeout_ms)

    def election_back_off_ms(self, retries: int) -> int:
        """Draw the pause after a lost election: binary exponential, capped."""
        ceiling = self.quorum.election_backoff_max_ms
        return self._random.randrange(1, 1 + min(ceiling, 50 << min(retries, 10)))

    # --- effects ----------------------------------------------------------------------------------------------------

    def take_outbox(self) -> tuple[Effect, ...]:
        """Hand over the effects of this step; after a Halt nothing follows."""
        effects = tuple(self._outbox)
        self._outbox.clear()
        if self.halted is None:
            return effects
        halts = [index for index, effect in enumerate(effects) if isinstance(effect, Halt)]
        return effects[: halts[0] + 1] if halts else effects

    def send(self, replica_id: ReplicaId, request: PeerRequest, *, timeout_ms: int | None = None) -> CorrelationId:
        """Send ``request`` to a peer and return the id under which its answer will come."""
        correlation_id = self._next_correlation_id()
        self.emit(
            Send(
                replica_id=replica_id,
                correlation_id=correlation_id,
                request=request,
                timeout_ms=timeout_ms or self.quorum.request_timeout_ms,
            )
        )
        return correlation_id

    def halt(self, reason: str) -> None:
        """Stop for good: what was just seen cannot happen in a sound cluster, and going on could lose records."""
        self.halted = reason
        self.emit(Halt(reason=reason))

    def note_appended(self, batches: Sequence[RecordBatch]) -> None:
        """Go by the voters that these records name, stored first."""
        named = voters_in(batches)
        if named:
            self.change_voters(self.voter_history.extended(named))

    def note_truncated(self, end_offset: Offset) -> None:
        """Go by the voters again that were named below."""
        if self.rules.truncation_takes_voters_back():
            self.change_voters(self.voter_history.truncated(end_offset))
