"""The messages about a partition that arrive in a cluster, each as one line of words.

Owns the wording. Heartbeats and the replication of the metadata log, which go on all the time, are left out: what comes
of them, the controller's decisions, is shown with every table.
"""

from __future__ import annotations

from collections.abc import Callable

from nemesis.faults.links import CLIENTS
from nemesis.scenarios.messages import Deliveries, known_words, offsets_words
from nemesis.scenarios.standing import Standing
from nemesis.simulator.node import Node, Step
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import ReplicaId


class ClusterDeliveries(Deliveries):
    """What arrived since it was last taken, and what was truncated, by whatever cause.

    A line that says the same as one before is left out: followers without news ask the same every half second.
    """

    def __init__(self, name_of: Callable[[int], str], standing: Standing) -> None:
        super().__init__()
        self._name_of = name_of
        self._standing = standing

    def note(self, line: str) -> None:
        """See ``Deliveries``."""
        if line not in self.seen:
            super().note(line)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        match step.event:
            case ev.RequestReceived(request=m.FetchRequest(replica_id=int(replica_id)) as request):
                self._note_message(node, replica_id, self._fetch_words(node, replica_id, request))
            case ev.RequestReceived(request=request):
                self._note_message(node, *_request_words(request))
            case ev.ResponseReceived(replica_id=source, response=response):
                self._note_message(node, source, _response_words(response))
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


def _request_words(request: m.Request) -> tuple[int, str | None]:
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


def _response_words(response: m.PeerResponse) -> str | None:
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
