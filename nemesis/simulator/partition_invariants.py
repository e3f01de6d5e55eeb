"""What must hold of the partitions of a simulated cluster, checked after every step.

Owns the promises of replication by in-sync replicas; each has a name, which convicts. What the controller has decided
is taken from the committed metadata log, not from any replica's belief. Committed is whatever a leader's high watermark
has passed: from then on it must be in the log of every replica that the controller may elect, for ever.

Source: hachikuji/kafka-specification (StrongIsr), Vanlightly/kafka-tlaplus (LeaderCandidateCompleteness,
ReplicationQuorumSuperset, LeaderCompleteness, MetadataLogMatching); KIP-966.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, get_args

from nemesis.simulator.chains import ROOT, Chain
from nemesis.simulator.node import Node, Step
from nemesis.simulator.partition_history import GivenUp, History
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.controller.reassignment import reassignment_of
from replica.core.metadata.encoding import records_of
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import LeaderRecoveryState, PartitionRecord, PartitionRegistration
from replica.core.metadata.replay import METADATA_LOG, MetadataReplay
from replica.core.partition import Partition
from replica.core.partition.roles import Leader, Role
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch, scan_batches

_Telling = fx.Reply | fx.ReplyWithRecords
_Storing = fx.Append | fx.Truncate | fx.StartLogAt | fx.RaiseLogStart | fx.CreateLog | fx.DeleteLog | fx.ReplaceLog
_TELLING, _STORING = frozenset[type](get_args(_Telling)), frozenset[type](get_args(_Storing))


class PartitionInvariants(Observer):
    """The promises of all partitions of a world. It is told of committed metadata before it is told of the step.

    ``is_durable`` says that what is acknowledged is on the platter first, ``may_forget`` that it is not and that the
    power goes, ``may_be_unclean`` that the topics allow unclean elections. Where they do not, an operator who holds one
    all the same has chosen who has everything.
    """

    def __init__(
        self, nodes: Mapping[ReplicaId, Node], *, is_durable: bool, may_forget: bool, may_be_unclean: bool
    ) -> None:
        self._nodes = nodes
        self._is_durable = is_durable
        self._may_forget = may_forget
        self._may_be_unclean = may_be_unclean
        self.image = MetadataImage()
        """What the controller has committed."""
        self._images: dict[Offset, MetadataImage] = {Offset(0): self.image}
        self._histories: dict[tuple[TopicId, int], History] = {}
        self._hosted: dict[ReplicaId, dict[TopicPartition, History]] = {replica_id: {} for replica_id in nodes}
        self._seen: dict[ReplicaId, dict[TopicPartition, tuple[Role, Offset]]] = {
            replica_id: {} for replica_id in nodes
        }
        self._agreed: dict[ReplicaId, tuple[Offset, MetadataImage]] = {}
        """The image of each replica that was found last to be the one that is committed up to there."""
        self._cuts: dict[ReplicaId, dict[int, tuple[fx.Effect, History, Offset]]] = {each: {} for each in nodes}
        """Those that are not performed yet, by identity, and how far their log was committed as they were decided."""
        self.on_given_up: Callable[[TopicPartition, GivenUp], None] | None = None
        """Who is told of an election that may give up what was committed, if anybody is."""

    # --- what the controller decides --------------------------------------------------------------------------------

    def on_metadata(self, batch: RecordBatch) -> None:
        """A batch of the metadata log is committed now: one decision, of which only the whole is judged."""
        changed: dict[TopicPartition, None] = {}
        for record in () if batch.is_control else records_of(batch):
            before, self.image = self.image, self.image.apply(record)
            if isinstance(record, PartitionRecord):
                name = TopicPartition(self.image.topic_names[record.topic_id], record.partition)
                self._on_registration(name, before.partition(name), record.registration)
                changed[name] = None
        self._images[batch.end_offset] = self.image
        for name in changed:
            registration = self.image.partition(name)
            for replica_id in () if registration is None else (*registration.isr, *registration.elr):
                self._check_candidate(self._history(name), replica_id)

    def _on_registration(
        self, name: TopicPartition, was: PartitionRegistration | None, now: PartitionRegistration
    ) -> None:
        key = (self.image.topics[name.topic].topic_id, name.partition)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = History(name=name, topic_id=key[0], registration=now)
        elif was is not None:
            _check_epochs(name, was, now)
        history.registration = now
        if was is not None and now.leader_id is not None and self._may_lose(was, now, now.leader_id):
            self._forgive(history, was, now, now.leader_id)

    def _history(self, name: TopicPartition) -> History:
        """The history of a partition that there is now."""
        return self._histories[self.image.topics[name.topic].topic_id, name.partition]

    def _may_lose(self, was: PartitionRegistration, now: PartitionRegistration, leader_id: ReplicaId) -> bool:
        """Whether a leader was a last resort, so that it need not have everything.

        Who led last (KIP-966) has, unless its disk could forget. One that comes with a reassignment may lead in the
        decision that takes it into the ISR, with nothing to recover from.
        """
        is_recovered = now.leader_recovery_state is LeaderRecoveryState.RECOVERED
        if is_recovered or leader_id in (*was.isr, *was.elr, was.leader_id):
            return False
        return self._may_forget or (self._may_be_unclean and leader_id != was.last_known_leader)

    def given_up(self) -> dict[TopicPartition, Sequence[GivenUp]]:
        """The partitions in which elections may have given up what was committed, with these elections."""
        return {history.name: history.given_up for history in self._histories.values() if history.given_up}

    def _is_there(self, history: History) -> bool:
        """Whether the topic has not been deleted since."""
        return self.image.topic_id(history.name.topic) == history.topic_id

    def _forgive(
        self, history: History, was: PartitionRegistration, now: PartitionRegistration, leader_id: ReplicaId
    ) -> None:
        """An unclean election gives up what the new leader lacks, or has not flushed: for that it was allowed."""
        flushed = self._nodes[leader_id].flushed_end.get(history.name, Offset(0))
        end_offset = min(flushed, history.committed.common_end(history.chain(leader_id)))
        election = GivenUp(
            epoch=now.leader_epoch,
            leader_id=leader_id,
            isr=tuple(was.isr),
            elr=tuple(was.elr),
            led_last=leader_id == was.last_known_leader,
            end_offset=end_offset,
            committed_end_offset=max(end_offset, history.committed.end),
        )
        history.given_up.append(election)
        if self.on_given_up is not None:
            self.on_given_up(history.name, election)
        history.committed.truncate_to(end_offset)
        kept = set(history.committed.links)
        history.written = {sequence: link for sequence, link in history.written.items() if link in kept}

    def _check_candidate(self, history: History, replica_id: ReplicaId) -> None:
        """LeaderCandidateCompleteness: whoever may be elected holds all that is committed, on the platter."""
        registration, end = history.registration, history.committed.end
        if not self._is_there(history) or replica_id not in (*registration.isr, *registration.elr):
            return
        if not self._is_durable and not self._is_registered(replica_id):
            return  # It may have lost what was not flushed, and leads nothing before it is let in anew.
        if self.image.brokers[replica_id].directory_id != self._nodes[replica_id].disk.directory_id:
            return  # What was on the disk that is meant is gone, and who has another one has to register first.
        chain = history.chain(replica_id)
        if chain.start > end or chain.link_at(end) != history.committed.last_link:
            _convict(
                "leader-candidate-completeness",
                f"replica {replica_id} may be elected for {history.name} and has not all that is committed up to "
                f"{end}: its log ends at {chain.end}",
            )
        flushed = self._nodes[replica_id].flushed_end.get(history.name, Offset(0))
        if self._is_durable and flushed < end:
            _convict(
                "committed-is-durable",
                f"replica {replica_id} may be elected for {history.name} and has flushed up to {flushed} of {end}",
            )

    def _is_registered(self, replica_id: ReplicaId) -> bool:
        """Whether the controller knows of the process that runs on this machine, or ran there last."""
        broker = self.image.brokers.get(replica_id)
        return broker is not None and broker.incarnation_id == f"{replica_id}.{self._nodes[replica_id].incarnation}"

    def survive_without(self, replica_id: ReplicaId) -> bool:
        """Whether all that is committed is on another disk than this one, of a replica that is to stay one."""
        return all(
            history.committed.end == 0
            or not self._holds_all(history, replica_id)
            or any(
                self._holds_all(history, other)
                for other in reassignment_of(history.registration).target
                if other != replica_id
            )
            for history in self._histories.values()
            if self._is_there(history)
        )

    def can_do_without(self, replica_id: ReplicaId, name: TopicPartition) -> bool:
        """Whether somebody else who is in sync has all that is committed, on a disk that is as it was."""
        history = self._hosted[replica_id].get(name)
        return history is not None and any(
            self._holds_all(history, other) for other in history.registration.isr if other != replica_id
        )

    def all_disks_are_known(self) -> bool:
        """Whether every broker is registered with the disk that its machine has."""
        disks = {replica_id: node.disk.directory_id for replica_id, node in self._nodes.items()}
        return all(disks[broker_id] == broker.directory_id for broker_id, broker in self.image.brokers.items())

    def _holds_all(self, history: History, replica_id: ReplicaId) -> bool:
        chain, end, node = history.chains.get(replica_id), history.committed.end, self._nodes[replica_id]
        is_spoiled = node.disk.is_damaged or history.name in node.disk.rotten
        if chain is None or is_spoiled or chain.link_at(end) != history.committed.last_link:
            return False
        return not self._is_durable or node.flushed_end.get(history.name, Offset(0)) >= end

    # --- what a replica stores --------------------------------------------------------------------------------------

    def on_disk_changed(self, node: Node) -> None:
        """What the last disk held is there no more; what an earlier one held that is back is there again."""
        for history in self._histories.values():
            history.change_disk(node.replica_id, list(node.lost)[-1], node.key)
        self._hosted[node.replica_id].clear()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """Compare what was recovered with what was flushed."""
        del torn_bytes
        self._cuts[node.replica_id].clear()
        hosted = self._hosted[node.replica_id]
        for name in [name for name in hosted if name not in node.recovered]:
            history = hosted.pop(name)
            history.put_away(node.replica_id)
            if node.flushed_end.get(name, 0) > 0 and self._is_there(history) and not node.disk.is_damaged:
                _convict("flushed-data-lost", f"replica {node.replica_id} has no log of {name} any more")
        for name, recovered in node.recovered.items():
            created = None if recovered.topic_id is None else self._histories.get((recovered.topic_id, name.partition))
            if created is not None:  # The power went just as it was created, or it was away.
                hosted[name] = created
        for name, history in hosted.items():
            if name not in node.stores:
                continue  # It is damaged, and says so.
            end_offset = node.stores[name].log_end_offset
            chain = history.recovered(node.replica_id, end_offset)
            if end_offset < node.flushed_end.get(name, 0) and not node.disk.is_damaged:
                _convict("flushed-data-lost", f"replica {node.replica_id} recovered {name} to {end_offset} only")
            if chain.link_at(end_offset) is None and history.begins_at.get(node.replica_id) == end_offset:
                # Its start is on the disk, and nothing from there on: it may lie inside a batch, or be just written.
                chain = Chain(start=end_offset, base=history.committed.link_at(end_offset) or ROOT)
                history.chains[node.replica_id] = chain
            if chain.link_at(end_offset) is None:
                _convict("phantom-log", f"replica {node.replica_id} recovered {name} to {end_offset}: nothing ended so")
            chain.truncate_to(end_offset)
            if self._is_durable:
                self._check_candidate(history, node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        """Take what was stored, then look at what has changed, then at what was told."""
        for cut in step.cuts:
            cut_history = self._hosted[node.replica_id].get(cut.topic_partition)
            if cut_history is not None and isinstance(cut, fx.Truncate):
                self._cuts[node.replica_id][id(cut)] = (cut, cut_history, cut_history.committed.end)
        for effect in () if step.kinds.isdisjoint(_STORING) else step.effects:
            if isinstance(effect, _Storing) and effect.topic_partition != METADATA_LOG:
                self._on_stored(node.replica_id, effect)
        held: dict[TopicPartition, Offset] = {}
        match step.interrupted:  # Perhaps it was done; what is there is seen at the next start.
            case fx.Append(topic_partition=name) as append if name != METADATA_LOG:
                held[name] = self._hosted[node.replica_id][name].chain(node.replica_id).end
                self._on_stored(node.replica_id, append)
            case fx.StartLogAt(topic_partition=name, start_offset=start):
                self._hosted[node.replica_id][name].begins_at[node.replica_id] = start
            case _:
                pass
        if node.core is None or node.core.broker is None:
            return
        seen = self._seen[node.replica_id]
        for name, partition in node.core.broker.partitions.items():
            role, high_watermark, before = partition.role, partition.high_watermark, seen.get(name)
            if before is None or role is not before[0] or high_watermark != before[1]:
                now = (role, high_watermark)
                if name not in step.pending or not step.is_whole:  # Else its disk will come so far.
                    seen[name] = now  # Also where another role has the same content: from now on it is the very same.
                if now != before:
                    end = min(now[1], held.get(name, now[1]))
                    self._look(node.replica_id, partition, end, is_whole=step.is_whole_of(name))
        if step.is_whole_of(METADATA_LOG):
            self._check_image(node.replica_id, node.core.metadata)
        for effect in () if step.kinds.isdisjoint(_TELLING) else step.effects:
            if isinstance(effect, _Telling):
                self._on_told(node, effect, step)

    def _check_image(self, replica_id: ReplicaId, metadata: MetadataReplay) -> None:
        """MetadataLogMatching. Images are values: the very one that agreed at this offset before, agrees still."""
        offset, image = metadata.applied_offset, metadata.image
        agreed = self._agreed.get(replica_id)
        if agreed is not None and agreed[0] == offset and agreed[1] is image:
            return
        if self._images.get(offset) != image:
            _convict("metadata-log-matching", f"replica {replica_id} has another image than was committed")
        self._agreed[replica_id] = (offset, image)

    def _on_stored(self, replica_id: ReplicaId, effect: _Storing) -> None:
        hosted = self._hosted[replica_id]
        match effect:
            case fx.CreateLog(topic_partition=name, topic_id=topic_id):
                if name in hosted:  # Its disk has failed, or it would have been deleted.
                    hosted[name].put_away(replica_id)
                hosted[name] = self._histories[topic_id, name.partition]
                hosted[name].chains[replica_id] = Chain()
                hosted[name].begins_at.pop(replica_id, None)
            case fx.DeleteLog(topic_partition=name):
                hosted.pop(name).chains.pop(replica_id, None)
            case fx.ReplaceLog(topic_partition=name, topic_id=topic_id):
                hosted[name].chains.pop(replica_id, None)  # It may be another topic's of that name.
                hosted[name] = self._histories[topic_id, name.partition]
                hosted[name].chains[replica_id] = Chain()
                hosted[name].begins_at.pop(replica_id, None)
                self._check_candidate(hosted[name], replica_id)
            case fx.StartLogAt(topic_partition=name, start_offset=start):
                history = hosted[name]
                history.begins_at[replica_id] = start
                history.chains[replica_id] = Chain(start=start, base=history.committed.link_at(start) or ROOT)
                self._check_candidate(history, replica_id)
            case fx.RaiseLogStart(topic_partition=name, log_start_offset=start):
                hosted[name].begins_at[replica_id] = start
                chain, base = hosted[name].chain(replica_id), hosted[name].committed.link_at(start)
                if base is not None and chain.link_at(start) is not None:
                    chain.begin_at(start, base)  # What was below counts no more, and may have been another history.
            case fx.Truncate(topic_partition=name):
                self._truncate(hosted[name], replica_id, effect)
            case fx.Append(topic_partition=name, batches=batches):
                for batch in batches:
                    self._append(hosted[name], replica_id, batch)

    def _append(self, history: History, replica_id: ReplicaId, batch: RecordBatch) -> None:
        """LogMatching: records of one offset and epoch are the same everywhere, and so is everything before them."""
        chain = history.chain(replica_id)
        link = history.links.setdefault((chain.last_link, batch.data), len(history.links) + 1)
        known = history.link_of.setdefault((batch.base_offset, batch.leader_epoch), link)
        if known != link:
            _convict(
                "log-matching",
                f"replica {replica_id} has other records at offset {batch.base_offset} of {history.name} in epoch "
                f"{batch.leader_epoch}, or others before them, than another replica had",
            )
        if batch.producer_id >= 0:
            history.sequences[link] = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        chain.add(batch, link)

    def _truncate(self, history: History, replica_id: ReplicaId, cut: fx.Truncate) -> None:
        """Nobody decides to drop what is committed, in sync or not: two logs part only above it.

        What is committed once that is decided, others have: to its own core, the log has ended there since.
        """
        chain, committed_end = history.chain(replica_id), history.committed.end
        match self._cuts[replica_id].pop(id(cut), None):
            case (_, decided_of, end) if decided_of is history:
                committed_end = end
        had = min(committed_end, chain.common_end(history.committed))
        if not history.was_unclean and cut.end_offset < had:
            _convict(
                "committed-truncated",
                f"replica {replica_id} truncates {history.name} to {cut.end_offset}, and had the committed records up "
                f"to {had}",
            )
        chain.truncate_to(cut.end_offset)

    # --- what a replica believes ------------------------------------------------------------------------------------

    def _look(self, replica_id: ReplicaId, partition: Partition, high_watermark: Offset, *, is_whole: bool) -> None:
        """Look at the role and the high watermark.

        After a step that was cut short, a leader's high watermark still counts, for it rests on earlier steps, except
        for what just this step was to append and nobody was told of: a leader that does not flush counts that at once.
        All else was never true outside the memory that is being lost.
        """
        history = self._hosted[replica_id].get(partition.topic_partition)
        if history is None or history.topic_id != partition.topic_id:
            return
        if isinstance(partition.role, Leader):
            if is_whole:
                self._check_leadership(history, replica_id, partition)
            if not history.was_unclean or _is_news(history, partition):
                self._on_high_watermark(history, replica_id, high_watermark)
        elif is_whole and not history.was_unclean:
            self._check_prefix(history, replica_id, min(partition.high_watermark, history.committed.end))

    def _check_leadership(self, history: History, replica_id: ReplicaId, partition: Partition) -> None:
        """SingleLeader, and ReplicationQuorumSuperset: a leader counts everybody whom the controller may elect."""
        epoch = partition.leader_epoch
        if history.leaders.setdefault(epoch, replica_id) != replica_id:
            _convict(
                "single-leader",
                f"epoch {epoch} of {history.name} is led by replicas {history.leaders[epoch]} and {replica_id}",
            )
        registration = history.registration
        if registration.leader_epoch == epoch and not partition.maximal_isr.issuperset(registration.isr):
            _convict(
                "replication-quorum-superset",
                f"replica {replica_id} leads {history.name} and counts {sorted(partition.maximal_isr)}, the controller "
                f"has {sorted(registration.isr)} in sync",
            )

    def _check_prefix(self, history: History, replica_id: ReplicaId, end_offset: Offset) -> None:
        """ConsistentCommittedData: what is committed is the same for all and for ever."""
        chain = history.chain(replica_id)
        link = chain.link_at(end_offset)
        if link is not None and link == history.committed.link_at(end_offset):
            return  # As nearly always: equal links mean equal logs up to there.
        if chain.start <= end_offset and chain.common_end(history.committed) < end_offset:
            _convict(
                "consistent-committed-data",
                f"replica {replica_id} has other records of {history.name} below its high watermark {end_offset} than "
                "were committed there",
            )

    def _on_high_watermark(self, history: History, replica_id: ReplicaId, high_watermark: Offset) -> None:
        chain, committed = history.chain(replica_id), history.committed
        self._check_prefix(history, replica_id, min(high_watermark, committed.end))
        if high_watermark <= committed.end:
            return
        start, end = bisect_right(chain.ends, committed.end), bisect_right(chain.ends, high_watermark)
        committed.ends += chain.ends[start:end]
        committed.epochs += chain.epochs[start:end]
        committed.links += chain.links[start:end]
        for link in chain.links[start:end]:
            self._check_sequence(history, link)
        for candidate in (*history.registration.isr, *history.registration.elr):
            self._check_candidate(history, candidate)

    def _check_sequence(self, history: History, link: int) -> None:
        """A batch of an idempotent producer is committed once, however often it was sent."""
        sequence = history.sequences.get(link)
        if sequence is not None and history.written.setdefault(sequence, link) != link:
            _convict(
                "duplicate-sequence",
                f"{history.name} holds sequence {sequence[2]} of producer {sequence[0]}, epoch {sequence[1]}, twice",
            )

    # --- what a replica tells ---------------------------------------------------------------------------------------

    def _on_told(self, node: Node, effect: _Telling, step: Step) -> None:
        request = node.requests[effect.call_id]
        match request, effect.response:
            case m.ProduceRequest(acks=-1), m.ProduceResponse(error=ErrorCode.NONE, base_offset=int(base_offset)):
                self._on_acknowledged(node, request, effect.response, Offset(base_offset))
            case m.FetchRequest(replica_id=None), _:
                for name, records in step.answers.get(effect.call_id, {}).items():
                    self._on_read(node, name, records)
            case _:
                pass

    def _on_acknowledged(
        self, node: Node, request: m.ProduceRequest, response: m.ProduceResponse, base_offset: Offset
    ) -> None:
        """What is acknowledged to all is committed, just as it was sent."""
        history = self._hosted[node.replica_id].get(request.topic_partition)
        if history is None:
            return
        (batch,) = scan_batches(request.records, verify=False)
        if response.leader_epoch is None:
            return  # A duplicate of what has been deleted since: where it stood, nobody can tell any more.
        if history.was_unclean and response.leader_epoch < history.registration.leader_epoch:
            return  # It may have been given up, even before a leader that is none any more acknowledges it.
        stamped = batch.stamped(base_offset=base_offset, leader_epoch=response.leader_epoch)
        if not history.is_committed(stamped):
            _convict(
                "acknowledged-is-committed",
                f"replica {node.replica_id} acknowledged offset {base_offset} of {history.name}",
            )

    def _on_read(self, node: Node, name: TopicPartition, records: bytes) -> None:
        """A consumer is shown committed records only, and as they were written."""
        history = self._hosted[node.replica_id].get(name)
        if history is None:
            return
        for batch in scan_batches(records, verify=False):
            if history.was_unclean and batch.leader_epoch < history.registration.leader_epoch:
                continue  # It may have been given up, and whoever has not heard of that shows it.
            if not history.is_committed(batch):
                _convict(
                    "uncommitted-read",
                    f"replica {node.replica_id} showed a consumer offset {batch.base_offset} of {name} in epoch "
                    f"{batch.leader_epoch}; committed is other, or less ({history.committed.end})",
                )


def _is_news(history: History, partition: Partition) -> bool:
    """Whether a leader has committed something by itself, once an unclean election has given records up.

    What it knew to be committed when it began may be what was given up. And a former leader that is alone in sync can
    go on until it hears of its successor: what it commits is given up beforehand.
    """
    epoch = partition.leader_epoch
    inherited = history.inherited.setdefault(epoch, partition.high_watermark)
    return epoch >= history.registration.leader_epoch and partition.high_watermark > inherited


def _check_epochs(name: TopicPartition, was: PartitionRegistration, now: PartitionRegistration) -> None:
    """Both epochs only grow, and another leader has another epoch."""
    if now.partition_epoch <= was.partition_epoch or now.leader_epoch < was.leader_epoch:
        _convict("partition-epochs", f"{name} went from {was} to {now}")
    if now.leader_id != was.leader_id and now.leader_epoch == was.leader_epoch:
        _convict("partition-epochs", f"{name} changed its leader within epoch {now.leader_epoch}")


def _convict(name: str, detail: str) -> NoReturn:
    raise BrokenInvariantError(name, detail)
