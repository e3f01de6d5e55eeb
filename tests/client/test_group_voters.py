"""Changing who votes, by a client: tried until the outcome is known, and told as unknown where it is."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from msgspec.structs import replace

from replica.client.connections import Endpoint
from replica.client.groups.failures import UnknownGroupError, VotersNotChangedError, VotersUnknownError
from replica.client.groups.voters import add_voter, remove_voter
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId
from replica.rpc.transport import NotAppliedError, TransportError
from replica.voters import ReplicaKey, Voter, VoterSet
from tests.client.group_fakes import ADDRESSES, VIEW
from tests.client.virtual import VirtualClock

ONE, TWO, NEW = ReplicaId(1), ReplicaId(2), ReplicaId(4)
VOTER = Voter(replica_id=NEW, directory_id="disk-4", address="r4:1")
LATE = m.ChangeVotersResponse(error=ErrorCode.REQUEST_TIMED_OUT, not_appended=True)
BUSY = m.ChangeVotersResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED, not_appended=True)
HALFWAY = m.ChangeVotersResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Appended, and then leadership was lost."""


class FakeQuorum:
    """Replicas 1 to 3, of which one leads a quorum log, and replica 4, which fetches it; no network.

    ``fates`` are those of the next requests that change voters: an answer, or a failure on the way. Where the failure
    says ``late`` the change is made all the same.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.leader = m.CurrentLeader(leader_id=ONE, leader_epoch=Epoch(3))
        self.peer_address = ""
        self.voters = VoterSet.of(
            Voter(replica_id=replica_id, directory_id=f"disk-{replica_id}", address=address)
            for replica_id, address in ADDRESSES.items()
        )
        self.fates: deque[m.ChangeVotersResponse | TransportError] = deque()
        self.new_error = ErrorCode.NONE
        self.new_id = NEW
        self.down: set[str] = set()
        self.asked: list[m.Request] = []

    @property
    def changes(self) -> list[m.AddVoterRequest | m.RemoveVoterRequest]:
        """The requests that change voters, in order."""
        return [asked for asked in self.asked if isinstance(asked, m.AddVoterRequest | m.RemoveVoterRequest)]

    async def call(self, endpoint: Endpoint, request: m.Request, timeout_ms: int) -> m.Response:
        """Serve a request, or lose it."""
        assert timeout_ms > 0, timeout_ms
        await asyncio.sleep(0)
        if endpoint.address in self.down:
            raise NotAppliedError(f"{endpoint} refuses connections")
        self.asked.append(request)
        match request:
            case m.DescribeReplicaRequest():
                return self._described(endpoint)
            case m.DescribeQuorumRequest():
                return self._quorum()
            case m.AddVoterRequest() | m.RemoveVoterRequest():
                return self._change(request)
            case _:
                raise AssertionError(request)

    async def close(self) -> None:
        """Nothing to close."""

    def _described(self, endpoint: Endpoint) -> m.DescribeReplicaResponse:
        is_new = endpoint.address == VOTER.address
        return m.DescribeReplicaResponse(
            error=self.new_error if is_new else ErrorCode.NONE,
            replica_id=self.new_id if is_new else ReplicaId(int(endpoint.address[1])),
            directory_id=f"disk-{endpoint.address[1]}",
            leader=self.leader,
            addresses={**ADDRESSES, NEW: VOTER.address},
            peer_address=self.peer_address if is_new else "",
        )

    def _quorum(self) -> m.DescribeQuorumResponse:
        states = [
            m.QuorumReplicaState(
                replica_id=voter.replica_id,
                log_end_offset=Offset(7),
                directory_id=voter.directory_id,
                address=voter.address,
            )
            for voter in self.voters.voters
        ]
        return m.DescribeQuorumResponse(
            error=ErrorCode.NONE, current_leader=self.leader, high_watermark=Offset(7), current_voters=tuple(states)
        )

    def _change(self, request: m.AddVoterRequest | m.RemoveVoterRequest) -> m.ChangeVotersResponse:
        fate = self.fates.popleft() if self.fates else None
        if isinstance(fate, m.ChangeVotersResponse):
            return fate
        if fate is None:
            return self._made(request)
        if "late" in str(fate):
            self._made(request)
        raise fate

    def _made(self, request: m.AddVoterRequest | m.RemoveVoterRequest) -> m.ChangeVotersResponse:
        if isinstance(request, m.AddVoterRequest):
            if self.voters.find(request.voter.replica_id) is not None:
                return m.ChangeVotersResponse(error=ErrorCode.DUPLICATE_VOTER, not_appended=True)
            self.voters = self.voters.with_voter(request.voter)
        else:
            if self.voters.find(request.voter.replica_id) is None:
                return m.ChangeVotersResponse(error=ErrorCode.VOTER_NOT_FOUND, not_appended=True)
            self.voters = self.voters.without(request.voter.replica_id)
        return m.ChangeVotersResponse(error=ErrorCode.NONE, current_leader=self.leader)


async def add(quorum: FakeQuorum, address: str | None = None, directory_id: str | None = None) -> Voter:
    return await add_voter(
        "r1:1",
        "g",
        NEW,
        address=address,
        directory_id=directory_id,
        view_config=VIEW,
        connections=quorum,
        clock=quorum.clock,
    )


async def remove(quorum: FakeQuorum, directory_id: str | None = None) -> None:
    key = ReplicaKey(TWO, directory_id)
    await remove_voter("r1:1", "g", key, view_config=VIEW, connections=quorum, clock=quorum.clock)


async def test_a_new_voter_is_asked_for_its_disk() -> None:
    """Where it is dialled the cluster knows, and which disk it has it says itself."""
    quorum = FakeQuorum()
    assert await add(quorum) == VOTER
    assert quorum.voters.find(NEW) == VOTER
    (request,) = quorum.changes
    assert 0 < request.timeout_ms < VIEW.request_timeout_ms


async def test_a_new_voter_is_named_by_where_replicas_reach_it() -> None:
    """Where replicas have a listener of their own, the address that clients dial is no voter's."""
    quorum = FakeQuorum()
    quorum.peer_address = "r4-peers:2"
    assert await add(quorum) == replace(VOTER, address="r4-peers:2")
    assert (await add(FakeQuorum(), address=VOTER.address)).address == VOTER.address


async def test_what_is_given_is_not_asked() -> None:
    """With its address and its disk given, the new voter need not be reached from here."""
    quorum = FakeQuorum()
    quorum.down = {"elsewhere:1"}
    voter = await add(quorum, "elsewhere:1", "disk-9")
    assert quorum.voters.find(NEW) == voter == Voter(replica_id=NEW, directory_id="disk-9", address="elsewhere:1")


async def test_a_voter_is_removed() -> None:
    """On whatever disk it is, or on the one that is named."""
    for directory_id in (None, "disk-2"):
        quorum = FakeQuorum()
        await remove(quorum, directory_id)
        assert quorum.voters.ids == (1, 3)
        assert [request.voter for request in quorum.changes] == [ReplicaKey(TWO, directory_id)]


@pytest.mark.parametrize(
    "fate",
    [BUSY, LATE, HALFWAY, NotAppliedError("refused"), TransportError("lost"), TransportError("late")],
    ids=["busy", "slow", "halfway", "never sent", "lost", "made, and the answer lost"],
)
async def test_a_change_is_tried_again(fate: m.ChangeVotersResponse | TransportError) -> None:
    """Until it is made; what an attempt without an answer has done the next attempt's refusal tells."""
    quorum = FakeQuorum()
    quorum.fates.extend([fate, fate])
    assert await add(quorum) == VOTER
    assert quorum.voters.find(NEW) == VOTER
    quorum.fates.extend([fate, fate])
    await remove(quorum)
    assert quorum.voters.find(TWO) is None


async def test_a_refusal_is_not_taken_for_an_earlier_success() -> None:
    """After a lost attempt the id votes, but on another disk: this change was not made."""
    quorum = FakeQuorum()
    quorum.voters = quorum.voters.with_voter(Voter(replica_id=NEW, directory_id="other"))
    quorum.fates.append(TransportError("lost"))
    with pytest.raises(VotersUnknownError, match="unknown whether the voters are changed: a replica of this id votes"):
        await add(quorum)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (ErrorCode.DUPLICATE_VOTER, "a replica of this id votes already"),
        (ErrorCode.INVALID_REQUEST, "the leader cannot add such a voter"),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "answered INCONSISTENT_CLUSTER_ID"),
    ],
)
async def test_a_refusal_is_told_at_once(error: ErrorCode, complaint: str) -> None:
    """What will not be otherwise later is not tried again."""
    quorum = FakeQuorum()
    quorum.fates.append(m.ChangeVotersResponse(error=error, not_appended=True))
    with pytest.raises(VotersNotChangedError, match=f"g-0: the voters are not changed: .*{complaint}"):
        await add(quorum)
    assert len(quorum.changes) == 1


@pytest.mark.parametrize(
    ("fates", "failure"),
    [
        ([BUSY], VotersNotChangedError),
        ([LATE], VotersNotChangedError),
        ([NotAppliedError("refused")], VotersNotChangedError),
        ([HALFWAY, BUSY], VotersUnknownError),
        ([TransportError("lost"), BUSY], VotersUnknownError),
        ([TransportError("lost")], VotersUnknownError),
    ],
)
async def test_when_the_time_is_up_it_is_told_what_is_known(
    fates: list[m.ChangeVotersResponse | TransportError], failure: type[Exception]
) -> None:
    """One attempt that may have made the change is enough for *unknown*, whatever came after it."""
    quorum = FakeQuorum()
    quorum.fates.extend([*fates, *fates[-1:] * 1000])
    with pytest.raises(failure, match="not done within 2000 ms; last: "):
        await add(quorum)


@pytest.mark.parametrize(
    ("error", "replica_id", "is_down", "complaint"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NEW, False, "does not host this log"),
        (ErrorCode.NONE, ReplicaId(7), False, "at r4:1 is replica 7"),
        (ErrorCode.NONE, NEW, True, "refuses connections, so that its disk is not known"),
    ],
)
async def test_a_new_voter_that_cannot_say_its_disk_is_not_added(
    error: ErrorCode, replica_id: ReplicaId, is_down: bool, complaint: str
) -> None:
    """It does not host the log, is somebody else, or is not there: the leader is not asked at all."""
    quorum = FakeQuorum()
    quorum.new_error, quorum.new_id = error, replica_id
    quorum.down = {"r4:1"} if is_down else set()
    with pytest.raises(VotersNotChangedError, match=complaint):
        await add(quorum)
    assert not quorum.changes


async def test_a_log_that_nobody_has_is_told() -> None:
    """Everybody has answered, and nobody knows it."""

    class Ignorant(FakeQuorum):
        def _described(self, endpoint: Endpoint) -> m.DescribeReplicaResponse:
            return m.DescribeReplicaResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    quorum = Ignorant()
    with pytest.raises(UnknownGroupError):
        await remove(quorum)
