"""The state of a group as one whole: a snapshot that holds all that was answered before it was asked for.

Owns the way: a linearizable question to the machine, whatever it answers, tells up to where everything counts; the
leader hands out a snapshot that ends there or later, takes one if it has none, and is asked for piece after piece. One
that goes meanwhile, with its leader or for newer ones, is asked for anew.

Source: KIP-630; etcd's ``Maintenance.Snapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from replica.client.asking import Failed, repeated
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Connections
from replica.client.groups.quorum import ask_leader, quorum_view
from replica.client.groups.view import GroupView
from replica.core.messages import (
    Consistency,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QueryRequest,
    QueryResponse,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, SnapshotId
from replica.machines import Snapshot

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A snapshot as the leader keeps it, voters in front, and the cluster that it is of."""

    cluster_id: str
    snapshot: Snapshot


async def fetch_state(
    bootstrap: str | Iterable[str],
    group: str,
    *,
    view_config: ViewConfig | None = None,
    connections: Connections | None = None,
) -> GroupState:
    """Load the state of a group: all that was acknowledged before this call, and nothing uncommitted.

    Each piece may take as long as a call may. Raises UnknownGroupError, ClusterUnreachableError, ReadFailedError.
    """
    async with quorum_view(bootstrap, group, view_config, connections, None) as view:
        question = QueryRequest(
            topic_partition=view.group,
            requests=(b"",),
            consistency=Consistency.LINEARIZABLE,
            timeout_ms=view.config.request_timeout_ms,
            cluster_id=view.config.cluster_id,
        )
        answer = await ask_leader(view, question, QueryResponse, view.deadline())
        assert answer.applied_offset is not None, answer
        assert view.cluster_id is not None, "a leader was found, and nobody has described itself"
        snapshot = await _Loading(view, view.cluster_id, answer.applied_offset).load()
        return GroupState(cluster_id=view.cluster_id, snapshot=snapshot)


class _Loading:
    """A snapshot on its way, of which so much has come."""

    def __init__(self, view: GroupView, cluster_id: str, end_offset: Offset) -> None:
        self._view = view
        self._cluster_id = cluster_id
        self._least = SnapshotId(end_offset, Epoch(0))
        self._id = self._least
        self._data = bytearray()

    async def load(self) -> Snapshot:
        """Ask for piece after piece."""
        size_bytes = 1
        while len(self._data) < size_bytes:
            deadline, backoff = self._view.deadline(), self._view.config.backoff()
            piece, _ = await repeated(self._next_piece, deadline, backoff, late=f"{self._view.group}: no snapshot")
            if isinstance(piece, Failed):
                raise self._view.failure(piece)
            assert piece.snapshot_id is not None, piece
            self._id, size_bytes = piece.snapshot_id, piece.size_bytes
            self._data += piece.data
        return Snapshot(id=self._id, data=bytes(self._data))

    async def _next_piece(self) -> FetchSnapshotResponse | Failed:
        endpoint = await self._view.find_leader(self._view.deadline())
        if isinstance(endpoint, Failed):
            return endpoint
        request = FetchSnapshotRequest(
            topic_partition=self._view.group,
            snapshot_end_offset=self._id.end_offset,
            snapshot_epoch=self._id.epoch,
            position=len(self._data),
            max_bytes=PIECE_BYTES,
            current_leader_epoch=self._view.leader_epoch,
            cluster_id=self._cluster_id,
        )
        answer = await self._view.ask(endpoint, request, FetchSnapshotResponse, self._view.config.request_timeout_ms)
        if isinstance(answer, Failed):
            return answer
        if answer.error is ErrorCode.SNAPSHOT_NOT_FOUND:
            self._id = self._least
            self._data.clear()
            return Failed(reason=f"{endpoint} has no snapshot yet that ends at {self._least.end_offset} or above")
        if answer.error is not ErrorCode.NONE:
            return self._view.on_refusal(endpoint, answer.error, answer.current_leader)
        if not answer.data or answer.position != request.position:
            return Failed(reason=f"{endpoint} answered with no piece from byte {request.position} on")
        return answer
