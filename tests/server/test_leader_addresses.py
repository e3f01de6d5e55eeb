"""Leaders' addresses as replicas tell them: what is said in which answer, what is heard, and what is believed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.effects import Effect, Send
from replica.core.events import Event, SendFailed, Started
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, CorrelationId, Epoch, Offset, ReplicaId, TopicPartition
from replica.rpc.addresses import AddressTable
from replica.rpc.transport import NotAppliedError
from replica.server.leader_addresses import ADDRESS_CHARACTERS_MAX, HeardLeaders, LeaderAddresses
from tests.server.driver_fakes import Script, wait_until
from tests.server.driver_rig import on, running

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
KV, TOPIC = TopicPartition("kv", 0), TopicPartition("topic", 0)
METADATA = TopicPartition("__cluster_metadata", 0)
NONE, REFUSED = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
FOREIGN = ErrorCode.INCONSISTENT_CLUSTER_ID
ELSEWHERE = "two.example:9092"


def hearing() -> HeardLeaders:
    """A replica of the cluster, with two quorum logs."""
    return HeardLeaders(cluster_id="mine", logs=(METADATA, KV))


def leader(epoch: int = 5, address: str = ELSEWHERE, leader_id: ReplicaId | None = TWO) -> m.CurrentLeader:
    """Who leads, and where."""
    return m.CurrentLeader(leader_id=leader_id, leader_epoch=Epoch(epoch), address=address)


def fetched(current: m.CurrentLeader | None, error: ErrorCode = REFUSED, log: TopicPartition = KV) -> m.FetchResponse:
    """The answer to a fetch of one log."""
    return m.FetchResponse(partitions=(m.FetchedPartition(topic_partition=log, error=error, current_leader=current),))


def fetch(log: TopicPartition = KV) -> m.FetchRequest:
    """Ask for records of one log."""
    part = m.FetchPartition(topic_partition=log, fetch_offset=Offset(0))
    return m.FetchRequest(partitions=(part,), replica_id=THREE, cluster_id="mine")


def hear(heard: HeardLeaders, current: m.CurrentLeader, error: ErrorCode = REFUSED, log: TopicPartition = KV) -> None:
    """Hear of a leader by an answer to a fetch."""
    heard.on_answer(fetch(log), fetched(current, error, log))


VOTE = m.VoteRequest(
    topic_partition=KV, candidate_id=THREE, candidate_epoch=Epoch(4), last_offset_epoch=0, last_offset=0, pre_vote=True
)
END = m.EndQuorumEpochRequest(topic_partition=KV, leader_id=THREE, leader_epoch=Epoch(4), preferred_candidates=())
BEGIN = m.BeginQuorumEpochRequest(topic_partition=KV, leader_id=TWO, leader_epoch=Epoch(5), cluster_id="mine")
SNAPSHOT = m.FetchSnapshotRequest(
    topic_partition=KV, snapshot_end_offset=Offset(4), snapshot_epoch=Epoch(4), position=0, max_bytes=1,
    current_leader_epoch=Epoch(4), replica_id=THREE,
)  # fmt: skip

ANSWERED: list[tuple[Any, Any]] = [
    (fetch(), fetched(leader())),
    (VOTE, m.VoteResponse(error=NONE, current_leader=leader())),
    (END, m.EndQuorumEpochResponse(error=REFUSED, current_leader=leader())),
    (BEGIN, m.BeginQuorumEpochResponse(error=REFUSED, current_leader=leader())),
    (SNAPSHOT, m.FetchSnapshotResponse(error=REFUSED, current_leader=leader())),
]


# --- heard ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "response"), ANSWERED, ids=lambda value: type(value).__name__)
def test_every_answer_to_a_replica_says_where_its_leader_is(request_: Any, response: Any) -> None:
    """Whatever was asked of somebody who does not lead."""
    heard = hearing()
    heard.on_answer(request_, response)
    assert heard.addresses() == {TWO: ELSEWHERE}


def test_a_leader_that_makes_itself_known_says_where_it_is() -> None:
    """It may be one that its voters have never been told of."""
    heard = hearing()
    heard.on_request(replace(BEGIN, leader_address=ELSEWHERE))
    assert heard.addresses() == {TWO: ELSEWHERE}


@pytest.mark.parametrize("cluster_id", [None, "another"])
def test_who_may_be_of_another_cluster_is_not_heard(cluster_id: str | None) -> None:
    """Neither one that says so, nor one that does not say it is of this."""
    heard = hearing()
    heard.on_request(replace(BEGIN, leader_address=ELSEWHERE, cluster_id=cluster_id))
    hear(heard, leader(), FOREIGN)
    heard.on_answer(VOTE, m.VoteResponse(error=FOREIGN, current_leader=leader()))
    assert heard.addresses() == {}


@pytest.mark.parametrize(
    "address",
    ["", "two.example", "two.example:0", "two.example:70000", "two example:1", "a" * ADDRESS_CHARACTERS_MAX + ":1"],
)
def test_what_cannot_be_dialled_is_not_heard(address: str) -> None:
    """And takes nothing away that can."""
    heard = hearing()
    hear(heard, leader(address=address))
    assert heard.addresses() == {}
    hear(heard, leader())
    hear(heard, leader(epoch=6, address=address))
    assert heard.addresses() == {TWO: ELSEWHERE}


def test_an_answer_that_is_late_takes_nothing_back() -> None:
    """An earlier epoch's leader is forgotten with the next, and does not come again."""
    heard = hearing()
    hear(heard, leader(epoch=5))
    hear(heard, leader(epoch=6, address="moved.example:1"))
    hear(heard, leader(epoch=5))
    assert heard.addresses() == {TWO: "moved.example:1"}
    hear(heard, leader(epoch=7, address="three.example:1", leader_id=THREE))
    assert heard.addresses() == {THREE: "three.example:1"}


def test_an_epoch_that_nobody_can_have_reached_is_not_heard() -> None:
    """It would be the last that is heard of this log."""
    heard = hearing()
    hear(heard, leader(epoch=EPOCH_MAX + 1))
    hear(heard, leader(epoch=5, leader_id=None))
    assert heard.addresses() == {}


def test_of_two_logs_the_one_that_was_heard_last_counts() -> None:
    """Their epochs cannot be compared."""
    heard = hearing()
    hear(heard, leader(epoch=9))
    hear(heard, leader(epoch=3, address="moved.example:1"), log=METADATA)
    assert heard.addresses() == {TWO: "moved.example:1"}
    hear(heard, leader(epoch=9))
    assert heard.addresses() == {TWO: ELSEWHERE}


def test_only_of_quorum_logs_leaders_are_heard() -> None:
    """Leaders of partitions are brokers, whose registrations say where they are; and what is kept is bounded."""
    heard = hearing()
    hear(heard, leader(), log=TOPIC)
    heard.on_answer(fetch(), m.FetchResponse(error=ErrorCode.UNKNOWN_SERVER_ERROR))
    heard.on_answer(VOTE, m.VoteResponse(error=NONE))
    assert heard.addresses() == {}


def test_what_is_known_otherwise_counts_for_more() -> None:
    """Hearsay is asked last."""
    heard = hearing()
    hear(heard, leader())
    known = AddressTable(advertised={}, overrides={}, learned=(lambda: {TWO: "log.example:1"}, heard.addresses))
    assert known.address_of(TWO) == "log.example:1"
    assert AddressTable(advertised={}, overrides={}, learned=(heard.addresses,)).address_of(TWO) == ELSEWHERE


# --- told -----------------------------------------------------------------------------------------------------------


def telling() -> LeaderAddresses:
    """A replica that knows where one other is."""
    return LeaderAddresses(told={TWO: ELSEWHERE}, heard=hearing())


@pytest.mark.parametrize("response", [response for _, response in ANSWERED], ids=lambda value: type(value).__name__)
def test_what_is_known_is_told(response: Any) -> None:
    """In the place that it is heard in; of somebody else nothing is told."""
    unsaid, unknown = leader(address=""), leader(address="", leader_id=THREE)
    for current, expected in ((unsaid, leader()), (unknown, unknown), (None, None)):
        if isinstance(response, m.FetchResponse):
            asked, told = fetched(current), fetched(expected)
        else:
            asked, told = (replace(response, current_leader=each) for each in (current, expected))
        assert telling().answer(asked) == told


@pytest.mark.parametrize(
    "response",
    [
        fetched(leader(address=""), NONE),
        m.FetchSnapshotResponse(error=NONE, current_leader=leader(address="")),
        m.OffsetForLeaderEpochResponse(error=REFUSED, current_leader=leader(address="")),
        m.ReadIndexResponse(error=REFUSED, current_leader=leader(address="")),
        m.ApplyResponse(error=REFUSED, current_leader=leader(address="")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_who_has_reached_the_leader_is_told_nothing(response: Any) -> None:
    """The answer is the same object: records pass here. Nor are clients told, who ask for all addresses."""
    assert telling().answer(response) is response


def test_a_leader_tells_its_own_address() -> None:
    """As far as it knows it."""
    assert telling().request(BEGIN) == replace(BEGIN, leader_address=ELSEWHERE)
    assert telling().request(replace(BEGIN, leader_id=ONE)) == replace(BEGIN, leader_id=ONE)
    assert telling().request(VOTE) is VOTE


def asks(request: m.PeerRequest) -> Script:
    """A core that sends one request at its start."""
    return on(
        Started, lambda _: (Send(replica_id=ONE, correlation_id=CorrelationId(9), request=request, timeout_ms=5000),)
    )


async def test_an_answer_is_heard_before_the_core_has_it() -> None:
    """The core sends to the leader in the step that takes the answer."""
    leaders, heard = telling(), list[dict[ReplicaId, str]]()

    def script(event: Event) -> tuple[Effect, ...]:
        heard.append(leaders.heard.addresses())
        return asks(BEGIN)(event)

    async with running(script, leaders=leaders) as rig:
        await wait_until(lambda: bool(rig.transport.answers), "the call")
        assert rig.transport.calls == [(ONE, replace(BEGIN, leader_address=ELSEWHERE))]
        answer = m.BeginQuorumEpochResponse(error=REFUSED, current_leader=leader(leader_id=THREE))
        rig.transport.answers[0].set_result(answer)
        await wait_until(lambda: len(heard) == 2, "the answer")
    assert heard == [{}, {THREE: ELSEWHERE}]


async def test_what_fails_says_nothing() -> None:
    """The failure is the core's."""
    leaders = telling()
    async with running(asks(VOTE), leaders=leaders) as rig:
        await wait_until(lambda: bool(rig.transport.answers), "the call")
        rig.transport.answers[0].set_exception(NotAppliedError("nobody there"))
        await wait_until(lambda: bool(rig.core.seen(SendFailed)), "the failure")
    assert leaders.heard.addresses() == {}


@pytest.mark.parametrize("by_answer", [True, False])
def test_a_claim_lasts_until_anything_else_is_heard(by_answer: bool) -> None:
    """Whoever calls itself the leader of the last of all epochs does not have the last word."""
    heard = hearing()
    heard.on_request(replace(BEGIN, leader_epoch=EPOCH_MAX, leader_address="forged.example:1"))
    assert heard.addresses() == {TWO: "forged.example:1"}
    if by_answer:
        hear(heard, leader())
    else:
        heard.on_request(replace(BEGIN, leader_address=ELSEWHERE))
    assert heard.addresses() == {TWO: ELSEWHERE}
