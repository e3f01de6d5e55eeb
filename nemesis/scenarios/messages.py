"""The messages that arrive in a world, each as one line of words.

Owns the wording, and the observer that collects. A message that was lost is not here: nobody received it. Knows the
requests of the protocol and nothing of why they are sent.

What the followers want of a story's partition, also where a fetch does not say it.

The messages about a partition that arrive in a cluster, each as one line of words.
"""

from __future__ import annotations

from collections.abc import Callable

from nemesis.faults.links import CLIENTS
from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import LOG, Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import EpochEndOffset, ReplicaId, TopicPartition
from replica.records import parse_batches


class Deliveries(Observer):
    """What arrived since it was last taken, and what was truncated because of it."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @property
    def seen(self) -> tuple[str, ...]:
        """The lines, still to be taken."""
        return tuple(self._lines)

    def note(self, line: str) -> None:
        """Add a line."""
        self._lines.append(line)

    def take(self) -> tuple[str, ...]:
        """Hand over the lines and begin anew."""
        lines, self._lines = self._lines, []
        return tuple(lines)

    def on_step(self, node: Node, step: Step) -> None:
        match step.event:
            case ev.RequestReceived(request=request):
                source = _sender_of(request)
                words = _request_words(request)
            case ev.ResponseReceived(replica_id=source, response=response):
                words = _response_words(response)
            case _:
                return
        name = "client" if source == CLIENTS else str(source)
        self.note(f"{name} -> {node.replica_id}  {words}")
        for effect in step.effects:
            if isinstance(effect, fx.Truncate):
                self.note(f"{node.replica_id} truncates its log to offset {effect.end_offset}")


def _sender_of(request: m.Request) -> int:
    match request:
        case m.FetchRequest(replica_id=int(replica_id)):
            return replica_id
        case m.VoteRequest(candidate_id=candidate_id):
            return candidate_id
        case m.BeginQuorumEpochRequest(leader_id=leader_id) | m.EndQuorumEpochRequest(leader_id=leader_id):
            return leader_id
        case _:
            return CLIENTS


def _request_words(request: m.Request) -> str:
    match request:
        case m.FetchRequest(replica_id=None, partitions=(part,)):
            return f"Fetch from offset {part.fetch_offset}"
        case m.FetchRequest(partitions=(part,)):
            last, epoch = part.last_fetched_epoch, part.current_leader_epoch
            return f"Fetch in epoch {epoch} from offset {part.fetch_offset}, my last record is of epoch {last}"
        case m.VoteRequest(pre_vote=True, candidate_epoch=epoch, last_offset_epoch=last, last_offset=end):
            return f"Pre-vote in epoch {epoch}, my log ends at {end} in epoch {last}"
        case m.VoteRequest(candidate_epoch=epoch, last_offset_epoch=last, last_offset=end):
            return f"Vote for epoch {epoch}, my log ends at {end} in epoch {last}"
        case m.BeginQuorumEpochRequest(leader_epoch=epoch):
            return f"BeginQuorumEpoch {epoch}"
        case m.EndQuorumEpochRequest(leader_epoch=epoch):
            return f"EndQuorumEpoch {epoch}"
        case m.ProduceRequest(acks=acks):
            return f"Produce, acks={'all' if acks == -1 else acks}"
        case _:
            return type(request).__name__.removesuffix("Request")


def _response_words(response: m.Response) -> str:
    name = type(response).__name__.removesuffix("Response")
    answer = response.answer_for(LOG) if isinstance(response, m.FetchResponse) else response
    if answer.error is not ErrorCode.NONE:
        return f"{name} refused: {answer.error}"
    match answer:
        case m.VoteResponse(vote_granted=granted):
            return "Vote: yes" if granted else "Vote: no"
        case m.FetchedPartition(diverging_epoch=EpochEndOffset(epoch, end_offset)):
            return f"Fetch: our logs differ, my epoch {epoch} ends at {end_offset}"
        case m.FetchedPartition(records=records, high_watermark=high_watermark):
            return f"Fetch: {offsets_words(records)}, high watermark {known_words(high_watermark)}"
        case _:
            return f"{name}: ok"


def offsets_words(records: bytes) -> str:
    """Which offsets are in there."""
    batches = parse_batches(records)
    if not batches:
        return "no records"
    first, last = batches[0].base_offset, batches[-1].end_offset - 1
    return f"record {first}" if first == last else f"records {first} to {last}"


def known_words(high_watermark: int | None) -> str:
    """A high watermark."""
    return "unknown" if high_watermark is None else str(high_watermark)


class Standing(Observer):
    """What stands of one partition, by follower and leader."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._topic_partition = topic_partition
        self._wanted: dict[tuple[ReplicaId, ReplicaId], m.FetchPartition] = {}

    def wanted(self, follower_id: ReplicaId, leader_id: ReplicaId, request: m.FetchRequest) -> m.FetchPartition | None:
        """Tell what a follower's latest fetch means for the partition: what it names, or what stands in its session."""
        named = _named(request, self._topic_partition)
        if named is None and request.session_id is not None:
            return self._wanted.get((follower_id, leader_id))
        return named

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``: an answer takes away what it is about, and a session that begins has only what it names."""
        match step.event:
            case ev.ResponseReceived(replica_id=leader_id, response=m.FetchResponse() as response):
                if any(part.topic_partition == self._topic_partition for part in response.partitions):
                    self._wanted.pop((node.replica_id, leader_id), None)
            case _:
                pass
        for effect in step.effects:
            if isinstance(effect, fx.Send) and isinstance(effect.request, m.FetchRequest):
                self._note(node.replica_id, effect.replica_id, effect.request)

    def _note(self, follower_id: ReplicaId, leader_id: ReplicaId, request: m.FetchRequest) -> None:
        named = _named(request, self._topic_partition)
        if request.session_id is not None and request.session_epoch == 0:
            self._wanted.pop((follower_id, leader_id), None)
        if named is not None:
            self._wanted[follower_id, leader_id] = named


def _named(request: m.FetchRequest, topic_partition: TopicPartition) -> m.FetchPartition | None:
    return next((part for part in request.partitions if part.topic_partition == topic_partition), None)


class ClusterDeliveries(Deliveries):
    """What arrived since it was last taken, and what was truncated, by whatever cause.

    A line that says the same as one before is left out: followers without news ask the same every half second.
    """

    def __init__(self, name_of: Callable[[int], str], standing: Standing) -> None:
        super().__init__()
        self._name_of = name_of
        self._standing = standing

    def note(self, line: str) -> None:
        if line not in self.seen:
            super().note(line)

    def on_step(self, node: Node, step: Step) -> None:
        match step.event:
            case ev.RequestReceived(request=m.FetchRequest(replica_id=int(replica_id)) as request):
                self._note_message(node, replica_id, self._fetch_words(node, replica_id, request))
            case ev.RequestReceived(request=request):
                self._note_message(node, *_partition_request_words(request))
            case ev.ResponseReceived(replica_id=source, response=response):
                self._note_message(node, source, _partition_response_words(response))
            case _:
                pass
        for effect in step.effects:
            match effect:
                case fx.Truncate(topic_partition=log, end_offset=end_offset) if log != METADATA_LOG:
                    self.note(f"{node.replica_id} truncates its log to offset {end_offset}")
                case fx.StartLogAt(start_offset=start_offset):
                    self.note(f"{node.replica_id} begins its log anew at offset {start_offset}")
                case _:
                    pass

    def _fetch_words(self, leader: Node, follower_id: ReplicaId, request: m.FetchRequest) -> str | None:
        """What a follower's fetch means for the partition; nothing of a fetch of the metadata log."""
        part = self._standing.wanted(follower_id, leader.replica_id, request)
        if part is None:
            return None
        verb = "Fetch" if request.partitions else "Fetch as before,"
        return f"{verb} from offset {part.fetch_offset} in epoch {part.current_leader_epoch}{_told(part)}"

    def _note_message(self, node: Node, source: int, words: str | None) -> None:
        if words is not None:
            name = "client" if source == CLIENTS else self._name_of(source)
            self.note(f"{name} -> {self._name_of(node.replica_id)}  {words}")


def _partition_request_words(request: m.Request) -> tuple[int, str | None]:
    """Who sent it, and what it says; nothing of what is left out."""
    match request:
        case m.FetchRequest(replica_id=None, partitions=(part,)):
            return CLIENTS, f"Fetch from offset {part.fetch_offset}"
        case m.ListOffsetsRequest(replica_id=int(replica_id), latest=latest):
            return replica_id, f"ListOffsets: where does your log {'end' if latest else 'begin'}?"
        case m.AlterPartitionRequest(broker_id=broker_id, partitions=(proposal,)):
            isr = " ".join(str(member.broker_id) for member in proposal.new_isr)
            epochs = f"in epoch {proposal.leader_epoch}, partition epoch {proposal.partition_epoch}"
            return broker_id, f"AlterPartition {epochs}: the ISR is to be {isr}"
        case m.BrokerRegistrationRequest(broker_id=broker_id, previous_broker_epoch=epoch):
            return (
                broker_id,
                f"BrokerRegistration {'without a clean stop before' if epoch is None else 'after a clean stop'}",
            )
        case m.ProduceRequest(acks=acks):
            return CLIENTS, f"Produce, acks={'all' if acks == -1 else acks}"
        case _:
            return CLIENTS, None


def _told(part: m.FetchPartition) -> str:
    last = "no last epoch" if part.last_fetched_epoch is None else f"last epoch {part.last_fetched_epoch}"
    told = "" if part.high_watermark_may_wait else ", tell me of a higher one at once"
    return f": {last}, high watermark {part.high_watermark}{told}"


def _partition_response_words(response: m.PeerResponse) -> str | None:
    match response:
        case m.FetchResponse(partitions=(part,)):
            return None if part.topic_partition == METADATA_LOG else _fetched_words(part)
        case m.FetchResponse(error=ErrorCode.NONE):
            return "Fetch: nothing new"
        case m.AlterPartitionResponse(partitions=(result,)) if result.error is ErrorCode.NONE:
            isr = " ".join(map(str, result.isr))
            return f"AlterPartition: committed, partition epoch {result.partition_epoch}, ISR {isr}"
        case m.AlterPartitionResponse(partitions=(result,)):
            return f"AlterPartition refused: {result.error}"
        case m.ListOffsetsResponse(error=ErrorCode.NONE, offset=offset):
            return f"ListOffsets: {offset}"
        case m.BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=epoch):
            return f"BrokerRegistration: broker epoch {epoch}"
        case (
            m.FetchResponse(error=error)
            | m.ListOffsetsResponse(error=error)
            | m.AlterPartitionResponse(error=error)
            | m.BrokerRegistrationResponse(error=error)
        ):
            return f"{type(response).__name__.removesuffix('Response')} refused: {error}"
        case _:
            return None


def _fetched_words(part: m.FetchedPartition) -> str:
    if part.error is not ErrorCode.NONE:
        return f"Fetch refused: {part.error}"
    if part.diverging_epoch is not None:
        return (
            f"Fetch: our logs differ, my epoch {part.diverging_epoch.epoch} ends at {part.diverging_epoch.end_offset}"
        )
    return f"Fetch: {offsets_words(part.records)}, high watermark {known_words(part.high_watermark)}"
