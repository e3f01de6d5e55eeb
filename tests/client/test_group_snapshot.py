"""Loading the state of a group: how far it reaches, piece after piece, and anew where the snapshot goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.failures import ReadFailedError
from replica.client.groups import snapshot as loading
from replica.client.groups.snapshot import GroupState, fetch_state
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId
from tests.client.virtual import ScriptedConnections

VIEW = ViewConfig(api_timeout_ms=500, request_timeout_ms=200, retry_backoff_ms=1, retry_backoff_max_ms=1)
OLD, NEW = SnapshotId(Offset(12), Epoch(3)), SnapshotId(Offset(40), Epoch(4))
PIECE_BYTES = 10


class Leaders:
    """Replica 1 leads epoch 3; where ``answer`` gives one for a piece that is asked for, that is the answer."""

    def __init__(self, answer: Callable[[m.FetchSnapshotRequest], m.FetchSnapshotResponse | None]) -> None:
        self._answer = answer
        self.content = {OLD: b"old" * 10, NEW: b"newer" * 9}
        self.held = {OLD}
        self.leader = m.CurrentLeader(leader_id=ReplicaId(1), leader_epoch=Epoch(3))
        self.asked: list[tuple[int, int]] = []

    def __call__(self, _endpoint: Endpoint, request: m.Request) -> m.Response:
        match request:
            case m.DescribeReplicaRequest():
                return m.DescribeReplicaResponse(
                    error=ErrorCode.NONE,
                    cluster_id="c",
                    replica_id=ReplicaId(1),
                    leader=self.leader,
                    addresses={ReplicaId(1): "a:1", ReplicaId(2): "b:2"},
                )
            case m.QueryRequest(consistency=consistency):
                assert consistency is m.Consistency.LINEARIZABLE
                return m.QueryResponse(error=ErrorCode.NONE, applied_offset=Offset(11), current_leader=self.leader)
            case m.FetchSnapshotRequest():
                assert (request.cluster_id, request.replica_id) == ("c", None)
                self.asked.append((request.snapshot_end_offset, request.position))
                return self._answer(request) or self._piece(request)
        raise AssertionError(request)

    def _piece(self, request: m.FetchSnapshotRequest) -> m.FetchSnapshotResponse:
        if request.current_leader_epoch != self.leader.leader_epoch:
            return m.FetchSnapshotResponse(error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=self.leader)
        found = request.snapshot_id if request.snapshot_id in self.held else None
        if found is None and request.position == 0:
            found = max((held for held in self.held if held.end_offset >= request.snapshot_end_offset), default=None)
        if found is None:
            return m.FetchSnapshotResponse(error=ErrorCode.SNAPSHOT_NOT_FOUND, current_leader=self.leader)
        whole = self.content[found]
        return m.FetchSnapshotResponse(
            error=ErrorCode.NONE,
            snapshot_id=found,
            size_bytes=len(whole),
            position=request.position,
            data=whole[request.position : request.position + PIECE_BYTES],
            current_leader=self.leader,
        )


async def fetched(leaders: Leaders) -> GroupState:
    """Load the state of ``kv``."""
    return await fetch_state("a:1", "kv", view_config=VIEW, connections=ScriptedConnections(leaders))


async def test_a_state_comes_in_pieces() -> None:
    """The first asks for what the linearizable answer reached, the others for the rest of what came."""
    leaders = Leaders(lambda _: None)
    state = await fetched(leaders)
    assert (state.cluster_id, state.snapshot.id, state.snapshot.data) == ("c", OLD, b"old" * 10)
    assert leaders.asked == [(11, 0), (12, 10), (12, 20)]
    assert loading.PIECE_BYTES < 4 << 20


async def test_a_snapshot_is_waited_for() -> None:
    """Until the leader has taken one that reaches far enough, it is asked again."""
    leaders = Leaders(lambda _: None if len(leaders.asked) > 5 else leaders_without())
    assert (await fetched(leaders)).snapshot.id == OLD
    assert leaders.asked[:6] == [(11, 0)] * 6


def leaders_without() -> m.FetchSnapshotResponse:
    """What a leader says that has none."""
    return m.FetchSnapshotResponse(error=ErrorCode.SNAPSHOT_NOT_FOUND)


async def test_a_snapshot_that_goes_meanwhile_is_loaded_anew() -> None:
    """Its pieces are thrown away: none of one snapshot stands beside one of another."""

    def replaced(request: m.FetchSnapshotRequest) -> None:
        if request.position == 20 and OLD in leaders.held:
            leaders.held = {NEW}

    leaders = Leaders(replaced)
    state = await fetched(leaders)
    assert (state.snapshot.id, state.snapshot.data) == (NEW, b"newer" * 9)
    assert leaders.asked[:5] == [(11, 0), (12, 10), (12, 20), (11, 0), (40, 10)]


async def test_a_new_leader_goes_on_or_begins_anew() -> None:
    """Its epoch is learned; with the same snapshot the pieces go on, whoever hands them out."""

    def deposed(request: m.FetchSnapshotRequest) -> None:
        if request.position == 10:
            leaders.leader = m.CurrentLeader(leader_id=ReplicaId(2), leader_epoch=Epoch(4))

    leaders = Leaders(deposed)
    assert (await fetched(leaders)).snapshot.data == b"old" * 10
    assert leaders.asked == [(11, 0), (12, 10), (12, 10), (12, 20)]


async def test_none_in_time_says_so() -> None:
    """A state that no snapshot can hold ends the call by its time, with what is lacking."""
    with pytest.raises(ReadFailedError, match="has no snapshot yet that ends at 11 or above"):
        await fetched(Leaders(lambda _: leaders_without()))
