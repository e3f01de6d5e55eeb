"""Where the leaders of the quorum logs are reached, by what replicas tell each other (KIP-853).

Owns what is told, what is heard, and what of that is believed. A replica that joins may know one other by its options;
that one says who leads, and where. An answer that refuses says it, and the leader itself where it makes itself known;
who fetches from the leader need not be told. It is for whoever dials: the core gives no address and reads none. Knows
nothing of options, logs and connections.

Heard addresses count for less than all others. They are those of the address tables of others, without what these dial
instead for themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from replica.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    EndQuorumEpochResponse,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PeerRequest,
    ProduceResponses,
    QuorumPeerRequest,
    Request,
    Response,
    VoteResponse,
)
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, Epoch, ReplicaId, TopicPartition
from replica.rpc.addresses import InvalidAddressError, check_address

ADDRESS_CHARACTERS_MAX = 261
"""The longest name of a host, a colon, and a port with brackets to spare."""

_Asking = QuorumPeerRequest | FetchSnapshotRequest
_PeerResponse = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchSnapshotResponse


class HeardLeaders:
    """The leaders of this replica's quorum ``logs`` as others have told of them, the newest of each log."""

    def __init__(self, *, cluster_id: str, logs: Collection[TopicPartition]) -> None:
        self._cluster_id = cluster_id
        self._logs = logs
        self._heard: dict[TopicPartition, CurrentLeader] = {}
        """In the order in which they were heard of."""
        self._claimed: set[TopicPartition] = set()
        """The logs whose leader has made itself known, and was not named by whom this replica has asked."""

    def addresses(self) -> dict[ReplicaId, str]:
        """Find where they are reached; of one that is told of twice, what was heard last."""
        return {leader.leader_id: leader.address for leader in self._heard.values() if leader.leader_id is not None}

    def on_request(self, request: Request) -> None:
        """Hear a leader that makes itself known; who does not name this cluster may be of another."""
        if isinstance(request, BeginQuorumEpochRequest) and request.cluster_id == self._cluster_id:
            leader = CurrentLeader(
                leader_id=request.leader_id, leader_epoch=request.leader_epoch, address=request.leader_address
            )
            self._hear(request.topic_partition, leader, is_claim=True)

    def on_answer(self, request: PeerRequest, response: Response) -> None:
        """Hear who leads of whom this replica has asked; one of another cluster says that it is."""
        if isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
            for part in request.partitions:
                if part.topic_partition in self._logs:
                    self._hear_of(part.topic_partition, response.answer_for(part.topic_partition))
        elif isinstance(request, _Asking) and isinstance(response, _PeerResponse):
            self._hear_of(request.topic_partition, response)

    def _hear_of(self, log: TopicPartition, answer: FetchedPartition | _PeerResponse) -> None:
        if answer.current_leader is not None and answer.error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._hear(log, answer.current_leader, is_claim=False)

    def _hear(self, log: TopicPartition, leader: CurrentLeader, *, is_claim: bool) -> None:
        """Believe what can be dialled, and of an epoch that is not over: an answer may be late.

        What a request has claimed lasts until anything else is heard: anybody can name the last of all epochs.
        """
        known = self._heard.get(log)
        newest = Epoch(0) if known is None or log in self._claimed else known.leader_epoch
        is_of_use = log in self._logs and leader.leader_id is not None and _can_be_dialled(leader.address)
        if is_of_use and newest <= leader.leader_epoch <= EPOCH_MAX:
            self._heard.pop(log, None)
            self._heard[log] = leader
            (self._claimed.add if is_claim else self._claimed.discard)(log)


def _can_be_dialled(address: str) -> bool:
    if len(address) > ADDRESS_CHARACTERS_MAX:
        return False
    try:
        check_address(address)
    except InvalidAddressError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAddresses:
    """What a replica tells and hears. ``told`` has whoever others can dial where this replica says."""

    told: Mapping[ReplicaId, str]
    heard: HeardLeaders

    def answer(self, response: Response | ProduceResponses) -> Response | ProduceResponses:
        """Say in an answer where the leader is that it names, if the asker may not know."""
        match response:
            case FetchResponse(partitions=partitions):
                if all(part.error is ErrorCode.NONE for part in partitions):
                    return response
                return replace(response, partitions=tuple(map(self._fetched, partitions)))
            case VoteResponse() | BeginQuorumEpochResponse() | EndQuorumEpochResponse():
                return replace(response, current_leader=self._addressed(response.current_leader))
            case FetchSnapshotResponse() if response.error is not ErrorCode.NONE:
                return replace(response, current_leader=self._addressed(response.current_leader))
            case _:
                return response

    def _fetched(self, part: FetchedPartition) -> FetchedPartition:
        if part.error is ErrorCode.NONE:
            return part
        return replace(part, current_leader=self._addressed(part.current_leader))

    def _addressed(self, leader: CurrentLeader | None) -> CurrentLeader | None:
        if leader is None or leader.leader_id is None:
            return leader
        return replace(leader, address=self.told.get(leader.leader_id, ""))

    def request(self, request: PeerRequest) -> PeerRequest:
        """Say in a request of a leader where it is itself."""
        if isinstance(request, BeginQuorumEpochRequest):
            return replace(request, leader_address=self.told.get(request.leader_id, ""))
        return request
