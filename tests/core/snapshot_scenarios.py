"""What scenarios with snapshots say: requests for one and for its pieces, answers to them, and roles to begin with.

As in ``scenarios``, everything goes through events and through what a quorum log offers to whom it is replayed for.
"""

from __future__ import annotations

from typing import Any

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId
from tests.core.harness import CLUSTER, LOG, Bench, disk_id, kept_snapshot_of, leader
from tests.core.scenarios import answer_fetch, commit, fetch_answer, follower_bench, leader_bench

LEADER, FOLLOWERS_EPOCH = 1, 5
"""Whom a follower follows in these scenarios, and in which epoch."""


def snapshot_id(end_offset: int, epoch: int) -> SnapshotId:
    """Name a snapshot."""
    return SnapshotId(Offset(end_offset), Epoch(epoch))


# --- a leader and who asks it ---------------------------------------------------------------------------------------


def fetch_snapshot(
    end_offset: int, epoch: int, position: int = 0, *, replica: int = 1, **others: Any
) -> m.FetchSnapshotRequest:
    """Ask the leader of epoch 6 for a piece of a snapshot."""
    return m.FetchSnapshotRequest(
        **{
            "topic_partition": LOG,
            "cluster_id": CLUSTER,
            "snapshot_end_offset": Offset(end_offset),
            "snapshot_epoch": Epoch(epoch),
            "position": position,
            "max_bytes": 1 << 20,
            "current_leader_epoch": Epoch(6),
            "replica_id": ReplicaId(replica),
            "replica_directory_id": disk_id(replica),
            **others,
        }
    )


def piece_of(bench: Bench, request: m.FetchSnapshotRequest) -> m.FetchSnapshotResponse:
    """Put a FetchSnapshot."""
    response = bench.answer(request)
    assert isinstance(response, m.FetchSnapshotResponse), response
    return response


def leader_with_snapshots(**others: Any) -> Bench:
    """Build the leader of epoch 6 with records 10 to 29 of the epochs 3, 4 and 6, and snapshots at 10 and at 20.

    The first 20 are of epoch 2 up to 10, then 10 to 14 of epoch 3 and 15 to 28 of epoch 4; all of it is committed.
    """
    bench = leader_bench(
        **{"log": [(3, 5), (4, 14)], "start": 10, "snapshots": [(10, 2), (20, 4)], **others},
    )
    commit(bench, 1)
    return bench


# --- a follower and its leader's answers ----------------------------------------------------------------------------


def sent_to(end_offset: int, epoch: int) -> m.FetchResponse:
    """Answer a Fetch with a snapshot's id."""
    return fetch_answer(
        error=ErrorCode.NONE,
        high_watermark=Offset(end_offset + 5),
        snapshot_id=snapshot_id(end_offset, epoch),
        current_leader=leader(LEADER, FOLLOWERS_EPOCH),
    )


def asked_for(bench: Bench) -> m.FetchSnapshotRequest:
    """Return the FetchSnapshot that a follower has out, and fail if it has anything else out."""
    (send,) = bench.sends
    assert isinstance(send.request, m.FetchSnapshotRequest), send
    return send.request


def piece(end_offset: int, epoch: int, position: int, length: int, **others: Any) -> m.FetchSnapshotResponse:
    """Answer a FetchSnapshot with so many bytes of the snapshot."""
    data = kept_snapshot_of(end_offset, epoch).data
    return m.FetchSnapshotResponse(
        **{
            "error": ErrorCode.NONE,
            "snapshot_id": snapshot_id(end_offset, epoch),
            "size_bytes": len(data),
            "position": position,
            "data": data[position : position + length],
            "current_leader": leader(LEADER, FOLLOWERS_EPOCH),
            **others,
        }
    )


def whole(end_offset: int, epoch: int) -> m.FetchSnapshotResponse:
    """Answer a FetchSnapshot with all of the snapshot."""
    return piece(end_offset, epoch, 0, 1 << 20)


def answer_piece(bench: Bench, response: m.FetchSnapshotResponse) -> None:
    """Answer the one FetchSnapshot that a follower has out."""
    bench.respond(bench.send_to(LEADER, m.FetchSnapshotRequest), response)


def catching_up_bench(end_offset: int = 20, epoch: int = 4, **others: Any) -> Bench:
    """Build a follower that has been sent to a snapshot and asks for its first piece."""
    bench = follower_bench(**{"log": [(1, 2)], "leader_id": LEADER, "epoch": FOLLOWERS_EPOCH, **others})
    answer_fetch(bench, sent_to(end_offset, epoch))
    return bench


def installed_bench(end_offset: int = 20, epoch: int = 4, **others: Any) -> Bench:
    """Build a follower that has just installed a snapshot."""
    bench = catching_up_bench(end_offset, epoch, **others)
    answer_piece(bench, whole(end_offset, epoch))
    install(bench)
    return bench


def install(bench: Bench) -> None:
    """Install what has been received."""
    bench.act(bench.log.install_snapshot(bench.now_ms))
