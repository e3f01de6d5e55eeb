"""One replica on a bench: events in, effects out, with a disk of plain lists under it.

Owns the performing of effects (what is appended, stored and flushed, who was answered), and the words that scenarios
are written in. Checks two things by itself, so that no scenario has to: no call is answered twice, and everything that
a reply reveals of votes and epochs was stored before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TypeVar

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig, ReplicaConfig
from replica.core.log.recovered import RecoveredLog, StoredSnapshot
from replica.core.quorum import QuorumLog
from replica.core.quorum.snapshot_header import encode_header
from replica.core.quorum.voter_history import VoterHistory, voters_in
from replica.core.reading import read_ranges
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import CallId, Epoch, EpochEntry, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import EncodedState, Snapshot, SnapshotView
from replica.records import RecordBatch, encode_batch, voters_batch
from replica.voters import Voter, VoterEntry, VoterSet, directory_id_of
from tests.core.disk import Disk
from tests.core.ruled import rules_now

LOG = TopicPartition("log", 0)
CLUSTER = "cluster"
CONFIG = QuorumConfig()

E = TypeVar("E")
R = TypeVar("R", bound=m.Response)


def epochs_of(batches: Iterable[RecordBatch]) -> tuple[EpochEntry, ...]:
    """Compute the epoch cache that belongs to these batches."""
    entries: list[EpochEntry] = []
    for batch in batches:
        if not entries or entries[-1].epoch != batch.leader_epoch:
            entries.append(EpochEntry(batch.leader_epoch, batch.base_offset))
    return tuple(entries)


def batches_of(*epochs_and_counts: tuple[int, int], start: int = 0) -> list[RecordBatch]:
    """Build batches of one record each: so many of the first epoch, then so many of the next, and so on."""
    epochs = [epoch for epoch, number in epochs_and_counts for _ in range(number)]
    return [
        encode_batch([f"e{epoch}@{offset}".encode()], base_offset=offset, leader_epoch=epoch)
        for offset, epoch in enumerate(epochs, start)
    ]


def records_of(batches: Iterable[RecordBatch]) -> bytes:
    """Lay batches out as a Fetch carries them."""
    return b"".join(batch.data for batch in batches)


def leader(leader_id: int | None, epoch: int) -> m.CurrentLeader:
    """Say who leads which epoch."""
    return m.CurrentLeader(leader_id=None if leader_id is None else ReplicaId(leader_id), leader_epoch=Epoch(epoch))


def stored(epoch: int, *, leader_id: int | None = None, voted_id: int | None = None) -> fx.QuorumState:
    """Build a quorum state; a vote is for the disk that harness replicas have."""
    return fx.QuorumState(
        leader_epoch=Epoch(epoch),
        leader_id=None if leader_id is None else ReplicaId(leader_id),
        voted_id=None if voted_id is None else ReplicaId(voted_id),
        voted_directory_id=None if voted_id is None else disk_id(voted_id),
    )


def disk_id(replica_id: int, disk: int = 0) -> str:
    """Name a disk of a replica, as directories are named: its first, or a later one."""
    return directory_id_of(bytes([1, disk, *replica_id.to_bytes(14)]))


def voter(replica_id: int, disk: int = 0) -> Voter:
    """Make a replica on a disk a voter."""
    address = f"replica-{replica_id}:9092"
    return Voter(replica_id=ReplicaId(replica_id), directory_id=disk_id(replica_id, disk), address=address)


def voters_of(*replica_ids: int) -> VoterSet:
    """Make a set of replicas on their first disks."""
    return VoterSet.of(voter(replica_id) for replica_id in replica_ids)


def snapshot_of(end_offset: int, epoch: int) -> Snapshot:
    """Build a snapshot as who replays the log has it: its data say what they hold."""
    data = f"all below {end_offset}, the last of epoch {epoch}".encode()
    return Snapshot(id=SnapshotId(Offset(end_offset), Epoch(epoch)), data=data)


def header_of(voters: VoterSet) -> bytes:
    """Encode what stands before a snapshot's data: the voters, named by the log's first record."""
    return encode_header(VoterHistory(base=voters, base_offset=Offset(0)))


def kept_snapshot_of(end_offset: int, epoch: int, *, voters: VoterSet | None = None) -> Snapshot:
    """Build that snapshot as it is kept and sent, with the voters before its data."""
    snapshot = snapshot_of(end_offset, epoch)
    return Snapshot(id=snapshot.id, data=header_of(voters or voters_of(0, 1, 2)) + snapshot.data)


def view_of(snapshot: Snapshot) -> SnapshotView:
    """Build the view of which this snapshot is to be encoded."""
    return SnapshotView(id=snapshot.id, state=EncodedState(snapshot.data))


def outcome_of_storing(effect: fx.StoreSnapshot) -> ev.SnapshotStored | ev.SnapshotTooLarge:
    """Build the report of a snapshot that is encoded now."""
    size_bytes = len(effect.state.encode())
    kind = ev.SnapshotStored if size_bytes <= effect.max_bytes else ev.SnapshotTooLarge
    return kind(topic_partition=effect.topic_partition, snapshot_id=effect.snapshot_id, size_bytes=size_bytes)


@dataclass
class QuorumDisk(Disk):
    """With what a quorum log keeps beside it: votes, voters and snapshots, and which of those are to be stored."""

    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    quorum_state: fx.QuorumState | None = None
    storing: list[fx.StoreSnapshot] = field(default_factory=list)
    voters: tuple[VoterEntry, ...] = ()

    def append(self, batches: Iterable[RecordBatch]) -> None:
        """No quorum log begins before itself."""
        assert self.batches or all(batch.base_offset >= self.start for batch in batches), (batches, self.start)
        super().append(batches)

    def begin_at(self, start: Offset) -> None:
        """It gives way to snapshots only."""
        assert start in {snapshot_id.end_offset for snapshot_id in self.snapshots}, ("begins at no snapshot", start)
        super().begin_at(start)

    def install(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Let a snapshot take the place of everything."""
        self.begin_anew(snapshot_id.end_offset)
        self.snapshots = {snapshot_id: data}

    def drop_snapshots(self, end_offset: Offset) -> None:
        """Drop those that end below."""
        self.snapshots = {known: data for known, data in self.snapshots.items() if known.end_offset >= end_offset}

    def finish_storing(self) -> ev.SnapshotStored | ev.SnapshotTooLarge:
        """Encode the oldest snapshot that was to be stored, keep it if it may be so large, and tell what to report."""
        effect = self.storing.pop(0)
        outcome = outcome_of_storing(effect)
        if isinstance(outcome, ev.SnapshotStored):
            self.snapshots[effect.snapshot_id] = effect.state.encode()
        return outcome

    def recover_voters(self) -> tuple[VoterEntry, ...]:
        """Drop, for good, the entries of records that the log does not have."""
        self.voters = tuple(entry for entry in self.voters if entry.offset < self.end)
        return self.voters

    def recover(self) -> RecoveredLog:
        """Open the log, and tell what was found."""
        return RecoveredLog(
            log_start_offset=self.start,
            log_end_offset=self.end,
            epochs=epochs_of(self.batches),
            quorum_state=self.quorum_state,
            snapshots=tuple(
                StoredSnapshot(id=snapshot_id, size_bytes=len(self.snapshots[snapshot_id]))
                for snapshot_id in sorted(self.snapshots)
            ),
            snapshot=self.snapshots[max(self.snapshots)] if self.snapshots else b"",
            voters=self.recover_voters(),
        )


class Bench:
    """One replica under test. ``now_ms`` is moved by ``elapse`` and ``to_deadline`` only.

    Its disk was formatted with ``initial_voters``: these are ``voters``, or nobody if it is none of them. A log that
    has records already names ``voters`` in the first one.
    """

    def __init__(
        self,
        *,
        replica_id: int = 0,
        voters: Sequence[int] = (0, 1, 2),
        initial_voters: Sequence[int] | None = None,
        disk: int = 0,
        log: Sequence[tuple[int, int]] = (),
        start: int = 0,
        snapshots: Sequence[tuple[int, int]] = (),
        quorum_state: fx.QuorumState | None = None,
        config: QuorumConfig = CONFIG,
        rules: Rules | None = None,
        seed: int = 0,
    ) -> None:
        batches = batches_of(*log, start=start)
        named = voters_of(*voters)
        if batches and not start:
            batches[0] = voters_batch(voters=named, base_offset=Offset(0), leader_epoch=batches[0].leader_epoch)
        if initial_voters is None:
            initial_voters = voters if replica_id in voters else ()
        self.disk = QuorumDisk(
            batches=batches,
            start=Offset(start),
            snapshots={kept.id: kept.data for kept in (kept_snapshot_of(*ends, voters=named) for ends in snapshots)},
            quorum_state=quorum_state,
            epochs=epochs_of(batches),
            voters=voters_in(batches),
        )
        self.disk.flushed_end = self.disk.end
        self.config = ReplicaConfig(
            cluster_id=CLUSTER,
            replica_id=ReplicaId(replica_id),
            directory_id=disk_id(replica_id, disk),
            voters=tuple(ReplicaId(voter) for voter in voters),
            initial_voters=voters_of(*initial_voters),
            quorum=config,
        )
        self.now_ms = 1_000_000
        self.replies: dict[CallId, m.Response] = {}
        self.calls: set[CallId] = set()
        self.effects: tuple[fx.Effect, ...] = ()
        self.sends: list[fx.Send] = []
        self.halted: str | None = None
        self._rules, self._random = rules or rules_now(), Random(seed)
        self._call_ids = count(1)
        self.replica = self._start()

    def _start(self) -> Replica:
        self.replica = self._replica_on(self.disk.recover())
        self.step(ev.Started())
        return self.replica

    def _replica_on(self, recovered: RecoveredLog) -> Replica:
        return Replica(config=self.config, logs={LOG: recovered}, random=self._random, rules=self._rules)

    def restart(self, *, power_loss: bool = False) -> None:
        """Stop without a word and start again; after a power loss, what was not flushed is gone."""
        if power_loss:
            self.disk.owed.clear()
            self.disk.cut(self.disk.flushed_end)
        self.disk.flushed_end = self.disk.end
        self.disk.owed.clear()
        self.disk.storing.clear()
        self.calls.clear()
        self.sends = []
        self.halted = None
        self._start()

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def log(self) -> QuorumLog:
        return self.replica.logs[LOG]

    @property
    def role(self) -> str:
        return self.log.role.name

    @property
    def epoch(self) -> int:
        return self.log.leader_epoch

    @property
    def high_watermark(self) -> int | None:
        return self.log.high_watermark

    def made(self, effect_type: type[E]) -> list[E]:
        """Return the effects of this type that the last step had."""
        return [effect for effect in self.effects if isinstance(effect, effect_type)]

    def requests(self, request_type: type[E]) -> dict[int, E]:
        """Return the requests of this type that were sent and not answered, by receiver; of several the last one."""
        return {send.replica_id: send.request for send in self.sends if isinstance(send.request, request_type)}

    def send_to(self, replica_id: int, request_type: type[m.PeerRequest]) -> fx.Send:
        """Return the youngest unanswered request of this type to this replica."""
        for send in reversed(self.sends):
            if send.replica_id == replica_id and isinstance(send.request, request_type):
                return send
        raise AssertionError(f"no {request_type.__name__} to {replica_id} among {self.sends}")

    @property
    def open_calls(self) -> set[CallId]:
        return self.calls - self.replies.keys()

    # --- events -----------------------------------------------------------------------------------------------------

    def step(self, event: ev.Event) -> tuple[fx.Effect, ...]:
        """Hand in one event now and perform all effects in order."""
        self.effects = self.replica.step(event, self.now_ms)
        for effect in self.effects:
            self._perform(effect)
        return self.effects

    def elapse(self, ms: int) -> None:
        """Let time pass, ticking at every deadline on the way as a driver does."""
        end_ms = self.now_ms + ms
        effects: tuple[fx.Effect, ...] = ()
        while (due_ms := self.replica.deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            effects += self.step(ev.Ticked())
        self.now_ms = end_ms
        self.effects = effects

    def to_deadline(self) -> None:
        """Let time pass until the replica wants to be called, and call it."""
        due_ms = self.replica.deadline_ms
        assert due_ms is not None, self.role
        self.now_ms = max(self.now_ms, due_ms)
        self.step(ev.Ticked())

    def to_role(self, role: str) -> None:
        """Let time pass, and nothing else happen, until the replica has this role."""
        for _ in range(1000):
            if self.role == role:
                return
            self.to_deadline()
        raise AssertionError(f"never became {role}; it is {self.role}")

    def call(self, request: m.Request) -> CallId:
        """Hand in a request and return its call; the answer is in ``replies`` now or later."""
        call_id = CallId(next(self._call_ids))
        self.calls.add(call_id)
        self.step(ev.RequestReceived(call_id=call_id, request=request))
        return call_id

    def answer(self, request: m.Request) -> m.Response | None:
        """Hand in a request and return its answer; None while it is parked."""
        return self.replies.get(self.call(request))

    def answered(self, request: m.Request, kind: type[R]) -> R:
        """Hand in a request and return its answer, which comes at once and is of this kind."""
        response = self.answer(request)
        assert isinstance(response, kind), response
        return response

    def respond(self, send: fx.Send, response: m.PeerResponse) -> tuple[fx.Effect, ...]:
        """Let the peer answer."""
        self.sends = [other for other in self.sends if other.correlation_id != send.correlation_id]
        return self.step(
            ev.ResponseReceived(correlation_id=send.correlation_id, replica_id=send.replica_id, response=response)
        )

    def fail(self, send: fx.Send) -> tuple[fx.Effect, ...]:
        """Let the request come to nothing."""
        self.sends = [other for other in self.sends if other.correlation_id != send.correlation_id]
        return self.step(ev.SendFailed(correlation_id=send.correlation_id, replica_id=send.replica_id))

    def flush(self) -> tuple[fx.Effect, ...]:
        """Finish the oldest flush that was asked for."""
        return self.step(ev.Flushed(topic_partition=LOG, end_offset=self.disk.flush()))

    def flush_all(self) -> None:
        """Finish every flush that was asked for."""
        effects: tuple[fx.Effect, ...] = ()
        while self.disk.owed:
            effects += self.flush()
        self.effects = effects

    # --- snapshots --------------------------------------------------------------------------------------------------

    def act(self, effects: tuple[fx.Effect, ...]) -> None:
        """Perform what a call of the log has asked for, and let its replica look at it: by a flush that is no news."""
        for effect in effects:
            self._perform(effect)
        no_news = ev.Flushed(topic_partition=LOG, end_offset=self.log.log.flushed_end_offset)
        self.effects = (*effects, *self.step(no_news))

    def store(self, end_offset: int, epoch: int) -> None:
        """Have a snapshot stored; it is not yet."""
        self.act(self.log.store_snapshot(view_of(snapshot_of(end_offset, epoch)), self.now_ms))

    def finish_storing(self) -> None:
        """Report what became of the oldest snapshot that was to be stored."""
        self.act(self.log.step(self.disk.finish_storing(), self.now_ms))

    # --- performing -------------------------------------------------------------------------------------------------

    def _perform(self, effect: fx.Effect) -> None:
        assert self.halted is None, ("an effect after Halt", effect)
        match effect:
            case fx.StoreQuorumState(state=state):
                self.disk.quorum_state = state
            case fx.StoreEpochs(entries=entries):
                self.disk.epochs = entries
            case fx.StoreVoters(entries=voters):
                self.disk.voters = voters
            case fx.Append(batches=batches):
                self.disk.append(batches)
            case fx.Truncate(end_offset=end_offset):
                self.disk.cut(end_offset)
            case fx.Flush(end_offset=end_offset):
                self.disk.owed.append(end_offset)
            case fx.Send(request=request):
                self._check_claims_are_durable(request)
                self.sends.append(effect)
            case fx.Reply(call_id=call_id, response=response):
                self._reply(call_id, response)
            case fx.ReplyWithRecords(call_id=call_id, response=response):
                found = read_ranges(effect, lambda _, *wanted: self.disk.read(*wanted))
                self._reply(call_id, response.with_records(found))
            case fx.Halt(reason=reason):
                self.halted = reason
            case _:
                self._perform_on_snapshots(effect)

    def _perform_on_snapshots(self, effect: fx.Effect) -> None:
        match effect:
            case fx.StoreSnapshot():
                self.disk.storing.append(effect)
            case fx.RaiseLogStart(log_start_offset=log_start_offset):
                self.disk.begin_at(log_start_offset)
            case fx.DropSnapshots(end_offset=end_offset):
                self.disk.drop_snapshots(end_offset)
            case fx.InstallSnapshot(snapshot_id=snapshot_id, data=data):
                self.disk.install(snapshot_id, data)
            case fx.ReplyWithSnapshot(call_id=call_id, response=response, snapshot_id=snapshot_id, position=position):
                data = self.disk.snapshots[snapshot_id]
                self._reply(call_id, response.with_data(data[position : position + effect.max_bytes]))

    def _reply(self, call_id: CallId, response: m.Response) -> None:
        assert call_id not in self.replies, ("answered twice", call_id, response)
        answer = response.answer_for(LOG) if isinstance(response, m.FetchResponse) else response
        known = getattr(answer, "current_leader", None)
        if known is not None:
            self._check_epoch_is_durable(known.leader_epoch)
        if isinstance(response, m.VoteResponse) and response.vote_granted:
            assert self.disk.quorum_state is not None or self.epoch == 0, response
        self.replies[call_id] = response

    def _check_epoch_is_durable(self, epoch: Epoch) -> None:
        durable = self._durable_epoch()
        assert durable >= epoch, ("an epoch was revealed before it was stored", epoch, self.disk.quorum_state)

    def _durable_epoch(self) -> int:
        if self.disk.quorum_state is not None:
            return self.disk.quorum_state.leader_epoch
        return self.disk.batches[-1].leader_epoch if self.disk.batches else 0

    def _check_claims_are_durable(self, request: m.PeerRequest) -> None:
        """A vote is asked for in a stored epoch with a vote for oneself; a voter fetches from flushed ends only."""
        match request:
            case m.VoteRequest(pre_vote=False):
                assert self.disk.quorum_state is not None, request
                assert self.disk.quorum_state.voted_id == request.candidate_id, (self.disk.quorum_state, request)
                assert self.disk.quorum_state.leader_epoch == request.candidate_epoch, request
                assert request.last_offset <= self.disk.flushed_end, ("a claimed log can be lost", request)
            case m.FetchRequest():
                (part,) = request.partitions
                assert part.fetch_offset <= self.disk.flushed_end, ("acknowledged before it was flushed", request)
            case _:
                pass
