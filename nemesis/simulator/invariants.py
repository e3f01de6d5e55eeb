"""What must hold across replicas, checked after every step of a simulated world.

Owns the promises that no replica can check alone; each has a name, which convicts. What concerns one replica, the core
asserts itself. Logs are compared by *chains*: two batches are the same link exactly when they are the same bytes on the
same link before them, so that equal links mean equal logs up to there. Whose vote and copy counts, is what the log
itself says of its voters (``voter_book``), and not what a replica takes them to be.

Source: Kafka's ``RaftEventSimulationTest`` (SingleLeader, MonotonicHighWatermark, ConsistentCommittedData,
MajorityReachedHighWatermark); Raft figure 3; etcd's TLA+ specification (CommittedIsDurable).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, get_args

from nemesis.simulator.chains import ROOT, Chain
from nemesis.simulator.check_quorum import CheckQuorum
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_book import VoterBook, check_voters
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Candidate, Leader, Resigned, Role
from replica.core.quorum.voter_history import VoterHistory
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch, scan_batches
from replica.voters import ReplicaKey, VoterEntry, VoterSet

_Telling = fx.Reply | fx.ReplyWithRecords
_Judged = fx.Append | fx.Truncate | fx.StoreQuorumState | fx.RaiseLogStart | fx.InstallSnapshot | _Telling
_JUDGED = frozenset[type](get_args(_Judged))
_OfNoLog = m.ControllerRequest | m.DescribeClusterRequest
_Sight = tuple[Role, fx.QuorumState, VoterHistory, Offset | None, m.CurrentLeader | None, bool]


class LogInvariants:
    """The promises of one log, over all its replicas.

    Before the log says who votes, ``initial_voters`` do.
    With ``own_memory_only``, what is judged is what a replica can keep by itself, whatever its disk did to it.
    """

    def __init__(
        self,
        log: TopicPartition,
        nodes: Mapping[ReplicaId, Node],
        *,
        initial_voters: VoterSet,
        own_memory_only: bool = False,
        on_commit: Callable[[RecordBatch], None] | None = None,
    ) -> None:
        self._log = log
        self._on_commit = on_commit
        """Told of every batch, in order, once it is committed."""
        self._batches: dict[int, RecordBatch] = {}
        self._own_memory_only = own_memory_only
        self._nodes = nodes
        self.voters = VoterBook(initial_voters, nodes)
        self._check_quorum = CheckQuorum()
        self.chains = {replica_id: Chain() for replica_id in nodes}
        self._lost: dict[ReplicaKey, tuple[Chain, Offset, list[VoterEntry]]] = {}
        """The flushed logs of disks that are gone."""
        self.committed = Chain()
        """The longest log that anybody has ever called committed."""
        self._committed_in: list[Epoch] = []
        """In which epoch each of its batches was committed, which may be later than the one it was written in."""
        self._links: dict[tuple[int, bytes], int] = {}
        self._link_of: dict[tuple[Offset, Epoch], int] = {}
        self._leaders: dict[Epoch, ReplicaId] = {}
        self._votes: dict[tuple[ReplicaKey, Epoch], ReplicaId] = {}
        self._stored: dict[ReplicaId, tuple[fx.QuorumState, ...]] = {}
        """What the quorum state on each disk is; two where a write of it was broken off."""
        self._seen_high_watermark: dict[ReplicaId, Offset] = {}
        self._seen: dict[ReplicaId, _Sight] = {}
        """What of each replica was looked at last, since its process began."""
        self._led: dict[ReplicaId, Epoch] = {}
        self._elected_by: dict[tuple[ReplicaId, Epoch], VoterSet] = {}
        """Who voted where a replica began to lead; by its first records it may change that."""

    # --- what happens -----------------------------------------------------------------------------------------------

    def on_boot(self, node: Node) -> None:
        """Compare what was recovered with what was flushed."""
        replica_id = node.replica_id
        self._seen_high_watermark[replica_id] = Offset(0)
        if self._own_memory_only:
            return
        assert node.core is not None, replica_id
        log, end_offset = node.core.logs[self._log], node.stores[self._log].log_end_offset
        self._begin_where_it_does(replica_id, node.stores[self._log].log_start_offset)
        chain = self.chains[replica_id]
        if end_offset < node.flushed_end.get(self._log, 0) and not node.disk.is_damaged:
            _convict("flushed-data-lost", f"replica {replica_id} recovered to {end_offset}, flushed was more")
        if chain.link_at(end_offset) is None:
            _convict("phantom-log", f"replica {replica_id} recovered to {end_offset}, where nothing ended")
        chain.truncate_to(end_offset)
        self.voters.truncate(replica_id, end_offset)
        self._led.pop(replica_id, None)
        self._seen.pop(replica_id, None)
        self._check_quorum.forget(replica_id)
        if log.quorum_state not in self._stored.get(replica_id, (log.quorum_state,)):
            _convict(
                "quorum-state-is-stored", f"replica {replica_id} has {log.quorum_state}, which it never stored last"
            )
        self._stored[replica_id] = (log.quorum_state,)
        self._check_epochs(replica_id, log)

    def on_disk_changed(self, node: Node) -> None:
        """What the last disk has held and voted is remembered here, also if it never comes back.

        1. A voter acknowledges a record. 2. Its disk is lost. 3. The acknowledgement comes, and a majority has had it.
        """
        key, flushed_end = list(node.lost.items())[-1]
        chain, _, own = self._lost.pop(node.key, (Chain(), Offset(0), []))
        own = self.voters.exchange(node.replica_id, own)
        self._lost[key] = (self.chains[node.replica_id], flushed_end.get(self._log, Offset(0)), own)
        self.chains[node.replica_id] = chain
        self._stored.pop(node.replica_id, None)
        self._led.pop(node.replica_id, None)
        self._seen.pop(node.replica_id, None)
        self._check_quorum.forget(node.replica_id)
        self._seen_high_watermark[node.replica_id] = Offset(0)

    def _check_epochs(self, replica_id: ReplicaId, log: QuorumLog) -> None:
        """The epoch cache says of the log what its batches say."""
        chain = self.chains[replica_id]
        cached = tuple((entry.epoch, entry.start_offset) for entry in log.log.epochs.entries)
        if chain.start > 0:  # An epoch of which nothing is left may still be named, as beginning where the log ends.
            cached = tuple(entry for entry in cached if entry[1] < chain.end)
        if cached != chain.epoch_starts():
            _convict("epoch-cache", f"replica {replica_id} takes its epochs to be {cached}")

    def on_step(self, node: Node, step: Step, effects: Sequence[_Judged]) -> None:
        """Take what was stored, then look at the replica, then at what it told others. ``effects`` are of this log."""
        if self._own_memory_only:
            self._remember(node, step, effects)
            return
        if not effects and step.interrupted is None and node.core is not None:
            self._look_again(node, node.core.logs[self._log], step)
            return
        before = self.voters.in_force(node.replica_id)
        for effect in effects:
            self._on_stored(node, effect)
        if isinstance(step.interrupted, fx.Append) and step.interrupted.topic_partition == self._log:
            self._append(node.replica_id, step.interrupted)  # Perhaps; what is there is seen at the next start.
        elif isinstance(step.interrupted, fx.StoreQuorumState) and step.interrupted.topic_partition == self._log:
            self._stored[node.replica_id] += (step.interrupted.state,)
        if node.core is not None:
            self._look(node, node.core.logs[self._log], before, step)
        for effect in effects:
            self._on_told(node, effect, step.answers)

    def _remember(self, node: Node, step: Step, effects: Sequence[_Judged]) -> None:
        """Hold a replica to what it knew itself: it does not drop what it called committed."""
        for effect in effects:
            if isinstance(effect, fx.Truncate):
                self._keep_committed(node.replica_id, effect.end_offset)
        if node.core is not None and step.is_whole_of(self._log):
            high_watermark = node.core.logs[self._log].log.high_watermark
            self._seen_high_watermark[node.replica_id] = high_watermark or Offset(0)

    def _on_stored(self, node: Node, effect: _Judged) -> None:
        match effect:
            case fx.Append():
                self._append(node.replica_id, effect)
            case fx.Truncate(end_offset=end_offset):
                self._truncate(node.replica_id, end_offset)
            case fx.StoreQuorumState(state=state):
                self._stored[node.replica_id] = (state,)
            case fx.RaiseLogStart(log_start_offset=start):
                self._raise_start(node.replica_id, start)
            case fx.InstallSnapshot(snapshot_id=snapshot_id):
                self._keep_committed(node.replica_id, snapshot_id.end_offset)
                self._begin_after(node.replica_id, snapshot_id.end_offset)
            case _:
                pass

    def _on_told(self, node: Node, effect: _Judged, answers: Mapping[CallId, Mapping[TopicPartition, bytes]]) -> None:
        match effect:
            case fx.Reply(call_id=call_id, response=response):
                self._on_reply(node, node.requests[call_id], response)
            case fx.ReplyWithRecords(call_id=call_id):
                self._on_read(node.replica_id, node.requests[call_id], answers[call_id].get(self._log, b""))
            case _:
                pass

    # --- logs -------------------------------------------------------------------------------------------------------

    def _append(self, replica_id: ReplicaId, effect: fx.Append) -> None:
        """LogMatching: records of one offset and epoch are the same everywhere, and so is everything before them."""
        chain = self.chains[replica_id]
        for batch in effect.batches:
            link = self._links.setdefault((chain.last_link, batch.data), len(self._links) + 1)
            known = self._link_of.setdefault((batch.base_offset, batch.leader_epoch), link)
            if known != link:
                _convict(
                    "log-matching",
                    f"replica {replica_id} has other records at offset {batch.base_offset} of epoch "
                    f"{batch.leader_epoch}, or others before them, than another replica had",
                )
            chain.add(batch, link)
            self.voters.append(replica_id, batch)
            self._batches[link] = batch

    def _truncate(self, replica_id: ReplicaId, end_offset: Offset) -> None:
        self._keep_committed(replica_id, end_offset)
        self.chains[replica_id].truncate_to(end_offset)
        self.voters.truncate(replica_id, end_offset)

    def _raise_start(self, replica_id: ReplicaId, start: Offset) -> None:
        """Only what is committed is ever let go of."""
        chain = self.chains[replica_id]
        base = chain.link_at(start)
        if base is None or base != self.committed.link_at(start):
            _convict("log-start-is-committed", f"replica {replica_id} lets its log begin at {start}")
        chain.begin_at(start, base)

    def _begin_after(self, replica_id: ReplicaId, end_offset: Offset) -> None:
        """A log that begins anew stands for all that is committed below."""
        base = self.committed.link_at(end_offset)
        if base is None:
            _convict(
                "log-start-is-committed", f"replica {replica_id} begins at {end_offset}, where nothing committed ends"
            )
        self.chains[replica_id] = Chain(start=end_offset, base=base)
        self.voters.begin_after(replica_id, end_offset)

    def _begin_where_it_does(self, replica_id: ReplicaId, start: Offset) -> None:
        """Let the chain begin where the log on the disk does, which a process that ended has perhaps just changed.

        Either it let go of what is committed below, or it put a snapshot in the place of a log that had gone astray,
        perhaps with a batch that ended there too: then nothing of that log is left.
        """
        chain = self.chains[replica_id]
        if start < chain.start:
            _convict("log-start-fell", f"the log of replica {replica_id} begins at {start}, and began at {chain.start}")
        if start > chain.start:
            link = chain.link_at(start)
            begins_anew = link is None or link != self.committed.link_at(start)
            (self._begin_after if begins_anew else self._raise_start)(replica_id, start)

    def _keep_committed(self, replica_id: ReplicaId, end_offset: Offset) -> None:
        """Nobody drops what itself called committed."""
        if end_offset < self._seen_high_watermark.get(replica_id, 0):
            _convict(
                "committed-truncated",
                f"replica {replica_id} truncates to {end_offset}, its high watermark was "
                f"{self._seen_high_watermark[replica_id]}",
            )

    # --- the replica after the step ---------------------------------------------------------------------------------

    def _look_again(self, node: Node, log: QuorumLog, step: Step) -> None:
        """Look at a replica that has stored and told nothing, unless it is just as it was when it was looked at last.

        What is looked at are values, and they are compared as such. What the judge itself knows of the replica changes
        with what this stores, with its process and with its disk, and then nothing counts as seen. Only time goes on.
        """
        is_whole = step.is_whole_of(self._log)
        now = _sight(log, is_whole=is_whole)
        if self._seen.get(node.replica_id) != now:
            self._look(node, log, self.voters.in_force(node.replica_id), step)
        elif is_whole and step.event is not None and isinstance(log.role, Leader):
            self._check_quorum.check(node, log, log.role, self.voters.in_force(node.replica_id))

    def _look(self, node: Node, log: QuorumLog, voters_before: VoterSet, step: Step) -> None:
        """Look at the role, the voters and the high watermark.

        After a step that was cut short, a leader's high watermark still counts, for it rests on what had been flushed,
        and so does that of a leader which commits and resigns in one step; all else was never true outside the memory
        that is being lost. It may rest on voters of which the log says nothing yet: 1. Of A and B, A leads, and C has
        its last record. 2. It adds C, and with that commits the record. 3. It dies before it has written down who
        votes. Nobody leads without a vote of A or C, or, of A and B, both.
        """
        role, is_whole = log.role, step.is_whole_of(self._log)
        self._seen[node.replica_id] = _sight(log, is_whole=is_whole)
        if isinstance(role, Leader):  # Also while a disk has not yet written down that it leads.
            self._elected_by.setdefault((node.replica_id, log.leader_epoch), voters_before)
        if is_whole and self._stored[node.replica_id] != (log.quorum_state,):
            _convict("quorum-state-is-stored", f"replica {node.replica_id} goes on as {log.quorum_state}")
        if not is_whole:
            pass
        elif isinstance(role, Leader):
            if self._led.get(node.replica_id) != log.leader_epoch:
                self._led[node.replica_id] = log.leader_epoch
                self._new_leader(node, log.leader_epoch)
            if step.event is not None:  # Else it was not told what time it is.
                self._check_quorum.check(node, log, role, self.voters.in_force(node.replica_id))
        elif isinstance(role, Candidate):
            self._vote(node, log.leader_epoch, node.replica_id)
        if is_whole and log.refused_leader is not None:
            # A server refuses such a claim and goes on, because anybody could have made it. Here nobody makes any up.
            _convict("single-leader", f"replica {node.replica_id} in {log.quorum_state} heard of {log.refused_leader}")
        if is_whole:
            check_voters(node, log, self.voters)
        if not is_whole and not isinstance(role, Leader | Resigned):
            return
        high_watermark = log.log.high_watermark
        if high_watermark is not None and high_watermark > self._seen_high_watermark[node.replica_id]:
            self._seen_high_watermark[node.replica_id] = high_watermark
            in_force = {voters_before, self.voters.in_force(node.replica_id)}
            if not is_whole:
                in_force.add(log.voter_history.latest)
            self._high_watermark(node.replica_id, high_watermark, log.leader_epoch, in_force)

    def _new_leader(self, node: Node, epoch: Epoch) -> None:
        """SingleLeader, and LeaderCompleteness: it holds whatever was committed in the epochs before its own.

        A leader may learn late that it won, when a later one has committed already: that it need not have.
        """
        replica_id, voters = node.replica_id, self._elected_by[node.replica_id, epoch]
        if self._leaders.setdefault(epoch, replica_id) != replica_id:
            _convict("single-leader", f"epoch {epoch} is led by replicas {self._leaders[epoch]} and {replica_id}")
        granting = {node.key, *(key for (key, of), to in self._votes.items() if of == epoch and to == replica_id)}
        if sum(map(voters.has, granting)) < voters.majority:
            _convict("elected-by-majority", f"replica {replica_id} leads epoch {epoch} by the votes of {granting}")
        before = bisect_left(self._committed_in, epoch)
        if not before:
            return
        end_offset = self.committed.ends[before - 1]
        chain = self.chains[replica_id]
        end_offset = max(end_offset, chain.start)  # All below its start is committed, or it would not begin there.
        if chain.link_at(end_offset) != self.committed.link_at(end_offset):
            _convict(
                "leader-completeness",
                f"replica {replica_id} leads epoch {epoch} without the log that was committed up to {end_offset}",
            )

    def _high_watermark(
        self, replica_id: ReplicaId, high_watermark: Offset, epoch: Epoch, in_force: set[VoterSet]
    ) -> None:
        """ConsistentCommittedData: what is committed is the same for all and for ever."""
        chain, committed = self.chains[replica_id], self.committed
        common = min(high_watermark, committed.end)
        link = chain.link_at(common)
        if link is None or link != committed.link_at(common):
            _convict(
                "consistent-committed-data",
                f"replica {replica_id} has other records below its high watermark {high_watermark} than were "
                "committed there",
            )
        if high_watermark > committed.end:
            self._commit(chain, high_watermark, epoch, in_force)

    def _commit(self, chain: Chain, high_watermark: Offset, epoch: Epoch, in_force: set[VoterSet]) -> None:
        """CommittedIsDurable: a majority holds it, on the platter.

        A step may commit by the voters that it began with, and then append others: it is held to either.
        """
        start, end = bisect_right(chain.ends, self.committed.end), bisect_right(chain.ends, high_watermark)
        link = chain.links[end - 1]
        holding = [
            node.key
            for replica_id, node in self._nodes.items()
            if node.flushed_end.get(self._log, 0) >= high_watermark
            and self.chains[replica_id].link_at(high_watermark) == link
        ]
        for key, (lost, flushed_end, _) in self._lost.items():
            holding += [key] if flushed_end >= high_watermark and lost.link_at(high_watermark) == link else []
        if not any(sum(map(voters.has, holding)) >= voters.majority for voters in in_force):
            _convict(
                "committed-is-durable",
                f"the high watermark reached {high_watermark}, which only replicas {holding} have on the platter",
            )
        self.committed.ends += chain.ends[start:end]
        self.committed.epochs += chain.epochs[start:end]
        self.committed.links += chain.links[start:end]
        self._committed_in += [epoch] * (end - start)
        for link in chain.links[start:end]:
            self.voters.commit(self._batches[link])
            if self._on_commit is not None:
                self._on_commit(self._batches[link])

    # --- answers ----------------------------------------------------------------------------------------------------

    def _on_reply(self, node: Node, request: m.Request, response: m.Response) -> None:
        match request, response:
            case m.VoteRequest(pre_vote=False), m.VoteResponse(vote_granted=True):
                self._vote(node, request.candidate_epoch, request.candidate_id)
            case m.ProduceRequest(acks=-1), m.ProduceResponse(error=ErrorCode.NONE, base_offset=int(base_offset)):
                (batch,) = scan_batches(request.records, verify=False)
                stamped = batch.stamped(base_offset=Offset(base_offset), leader_epoch=response.leader_epoch or Epoch(0))
                if not self._is_committed(stamped):
                    detail = f"replica {node.replica_id} acknowledged offset {base_offset}"
                    _convict("acknowledged-is-committed", detail)

    def _is_committed(self, batch: RecordBatch) -> bool:
        """Whether just these bytes stand in the committed log."""
        committed = self.committed
        index = bisect_left(committed.ends, batch.end_offset)
        before = committed.links[index - 1] if index else ROOT
        known = self._links.get((before, batch.data))
        return index < len(committed.links) and known == committed.links[index]

    def _vote(self, node: Node, epoch: Epoch, candidate: ReplicaId) -> None:
        """One vote a voter and epoch, whatever happened to it in between; on another disk it is somebody else."""
        first = self._votes.setdefault((node.key, epoch), candidate)
        if first != candidate:
            _convict("one-vote", f"replica {node.replica_id} voted for {first} and for {candidate} in epoch {epoch}")

    def _on_read(self, replica_id: ReplicaId, request: m.Request, records: bytes) -> None:
        """A consumer is shown committed records only, and as they were written."""
        if not isinstance(request, m.FetchRequest) or request.replica_id is not None:
            return
        for batch in scan_batches(records, verify=False):
            if not self._is_committed(batch):
                _convict(
                    "uncommitted-read",
                    f"replica {replica_id} showed a consumer offset {batch.base_offset} of epoch {batch.leader_epoch}; "
                    f"committed is other, or less ({self.committed.end})",
                )


class Invariants(Observer):
    """The promises of all logs of a world, as one observer."""

    def __init__(
        self,
        logs: tuple[TopicPartition, ...],
        nodes: Mapping[ReplicaId, Node],
        *,
        lying_disks: bool,
        initial_voters: VoterSet,
        on_commit: Mapping[TopicPartition, Callable[[RecordBatch], None]] | None = None,
    ) -> None:
        self._lying_disks = lying_disks
        told = on_commit or {}
        self.logs = {
            log: LogInvariants(
                log,
                nodes,
                initial_voters=initial_voters,
                own_memory_only=lying_disks,
                on_commit=told.get(log),
            )
            for log in logs
        }

    @property
    def books(self) -> dict[TopicPartition, VoterBook]:
        """Who votes in each log."""
        return {log: invariants.voters for log, invariants in self.logs.items()}

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        del torn_bytes
        for invariants in self.logs.values():
            invariants.on_boot(node)

    def on_disk_changed(self, node: Node) -> None:
        for invariants in self.logs.values():
            invariants.on_disk_changed(node)

    def on_step(self, node: Node, step: Step) -> None:
        effects = {} if step.kinds.isdisjoint(_JUDGED) else self._effects_by_log(node, step)
        for log, invariants in self.logs.items():
            invariants.on_step(node, step, effects.get(log, ()))

    def _effects_by_log(self, node: Node, step: Step) -> dict[TopicPartition, list[_Judged]]:
        by_log: dict[TopicPartition, list[_Judged]] = {}
        for effect in step.effects:
            if isinstance(effect, _Judged):
                for log in self.logs.keys() & _logs_of(node, effect):
                    by_log.setdefault(log, []).append(effect)
        return by_log

    def on_down(self, node: Node, crash: Crash) -> None:
        """A replica that halts by itself has seen what cannot be, unless its storage failed."""
        if crash.cause.startswith("halt: ") and not node.storage_failed and not self._lying_disks:
            _convict("halted", f"replica {node.replica_id}: {crash.cause}")


def _sight(log: QuorumLog, *, is_whole: bool) -> _Sight:
    """All that a look at a replica's log rests on, besides what the judge knows."""
    return (log.role, log.quorum_state, log.voter_history, log.log.high_watermark, log.refused_leader, is_whole)


def _logs_of(node: Node, effect: _Judged) -> tuple[TopicPartition, ...]:
    """The logs that an effect is about; a reply is about those of its request, which may be none."""
    if not isinstance(effect, _Telling):
        return (effect.topic_partition,)
    request = node.requests[effect.call_id]
    if isinstance(request, m.FetchRequest):
        return tuple(part.topic_partition for part in request.partitions)
    if isinstance(request, _OfNoLog):
        return ()
    return (request.topic_partition,)


def _convict(name: str, detail: str) -> NoReturn:
    raise BrokenInvariantError(name, detail)
