"""The messages that arrive in a world, each as one line of words.

Owns the wording, and the observer that collects. A message that was lost is not here: nobody received it. Knows the
requests of the protocol and nothing of why they are sent.
"""

from __future__ import annotations

from nemesis.faults.links import CLIENTS
from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import LOG, Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import EpochEndOffset
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
        """See ``Observer``."""
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
