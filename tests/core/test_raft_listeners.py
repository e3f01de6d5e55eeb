"""What a machine on a log is told, and when: who leads, what is committed, and which snapshot it begins with.

A machine is what Kafka calls a listener; names are those of its ``KafkaRaftClientTest`` and
``KafkaRaftClientSnapshotTest``. When a machine leads is in ``tests/core/group/test_leading.py``.
"""

from __future__ import annotations

import pytest

from replica.bounds import INT32_MAX
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, SnapshotId
from tests.core.group.bench import GroupBench, add, leading_bench
from tests.core.group.test_snapshotting import count_to, snapshot_of
from tests.core.harness import batches_of, header_of, leader, stored, voters_of
from tests.core.scenarios import answer_fetch, commit, fetch, fetched, lead, records
from tests.core.snapshot_scenarios import piece, sent_to

NONE = SnapshotId(Offset(0), Epoch(0))
BY_SIZE = GroupConfig(snapshot_max_record_bytes_between=400, tick_interval_ms=INT32_MAX)


# --- who leads ------------------------------------------------------------------------------------------------------


def told(bench: GroupBench) -> m.CurrentLeader | None:
    """Whom a machine that does not lead names as the leader, to who writes a command; it is certain not to be taken."""
    response = bench.answered(add(1), m.ApplyResponse)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert (bench.group.machine_leads, bench.made(fx.Append)) == (False, [])
    return response.current_leader


def test_handle_leader_change_fires_after_unattached_registration() -> None:
    """A machine that begins where no leader is known does not lead, and knows of none."""
    assert told(GroupBench(quorum_state=stored(7))) == leader(None, 7)


def test_handle_leader_change_fires_after_follower_registration() -> None:
    """A machine that begins on a follower knows at once who leads."""
    assert told(GroupBench(quorum_state=stored(7, leader_id=2))) == leader(2, 7)


def test_handle_leader_change_fires_after_resign_registration() -> None:
    """A machine that begins where the last leader restarts leads no more, not even when it has applied everything."""
    bench = GroupBench(quorum_state=stored(7, leader_id=0), log=[(7, 3)])
    assert (bench.role, told(bench)) == ("resigned", leader(None, 7))
    bench.apply_all()
    assert told(bench) == leader(None, 7)


# --- what is committed ----------------------------------------------------------------------------------------------


def test_handle_commit_callback_fires_after_follower_high_watermark_advances() -> None:
    """A follower's machine applies what the leader says is committed, and not what is merely fetched and flushed."""
    bench = GroupBench(quorum_state=stored(5, leader_id=1))
    answer_fetch(bench, records(batches_of((5, 4)), leader_id=1, epoch=5))
    bench.flush_all()
    bench.apply_all()
    assert (bench.disk.flushed_end, bench.group.applied_offset) == (4, 0)
    for high_watermark in (3, 4):
        answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=high_watermark))
        bench.apply_all()
        assert bench.group.applied_offset == high_watermark


def test_listener_commit_callback_after_leader_write() -> None:
    """A leader's machine applies what is committed, and not what is merely in its own log and on its own disk."""
    bench = leading_bench()
    applied = bench.group.applied_offset
    bench.call(add(5))
    bench.call(add(7))
    bench.flush_all()
    bench.apply_all()
    assert (bench.group.applied_offset, bench.total()) == (applied, 0)
    fetched(bench, fetch(applied + 1, 6, 6))
    bench.apply_all()
    assert (bench.group.applied_offset, bench.total()) == (applied + 1, 5)
    commit(bench, 2)
    bench.apply_all()
    assert (bench.group.applied_offset, bench.total()) == (applied + 2, 12)


# --- snapshots ------------------------------------------------------------------------------------------------------


def counted_bench() -> tuple[GroupBench, int, int]:
    """Build a leader whose log begins at a snapshot; return it, where the newest ends, and the total.

    More has been counted since the newest.
    """
    bench = leading_bench(group=BY_SIZE)
    for total in range(1, 100):
        count_to(bench, 1)
        bench.store_all()
        newest = max(bench.disk.snapshots, default=NONE).end_offset
        if 0 < bench.disk.start < newest < bench.disk.end:
            return bench, newest, total
    raise AssertionError("its log still begins at 0")


def test_leader_listener_notified() -> None:
    """A machine whose log's beginning is gone begins with the snapshot, and leads when it has applied the rest."""
    bench, newest, total = counted_bench()
    bench.restart()
    assert (bench.group.applied_offset, 0 < bench.total() < total) == (newest, True)
    lead(bench)
    commit(bench, 1)
    assert not bench.group.machine_leads
    bench.apply_all()
    assert (bench.group.machine_leads, bench.total()) == (True, total)


def test_follower_listener_notified() -> None:
    """On a follower it is the same: first the snapshot, then what its leader says is committed."""
    bench, newest, total = counted_bench()
    end, epoch = bench.disk.end, bench.epoch
    bench.disk.quorum_state = stored(epoch + 1, leader_id=1)
    bench.restart()
    bench.apply_all()
    assert (bench.role, bench.group.applied_offset) == ("follower", newest)
    answer_fetch(bench, records([], leader_id=1, epoch=epoch + 1, high_watermark=end))
    bench.apply_all()
    assert (bench.group.applied_offset, bench.total()) == (end, total)


@pytest.mark.parametrize("later", [11, 40])
def test_listener_renotified(later: int) -> None:
    """A machine that has begun with a snapshot, and is behind another, goes on from that, without what lies between."""
    bench = GroupBench(quorum_state=stored(5, leader_id=1))
    for end_offset, total in ((10, 7), (later, 9)):
        data = header_of(voters_of(0, 1, 2)) + snapshot_of(total, end_offset=end_offset).data
        answer_fetch(bench, sent_to(end_offset, 4))
        answer = piece(end_offset, 4, 0, 0, data=data, size_bytes=len(data))
        bench.respond(bench.send_to(1, m.FetchSnapshotRequest), answer)
        assert (bench.group.applied_offset, bench.total(), bench.disk.start) == (end_offset, total, end_offset)
    assert bench.reads == []
