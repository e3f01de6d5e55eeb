"""How often snapshots are taken: not more than the records are worth, and not under the hands of who loads one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.bounds import INT32_MAX
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.core.snapshotting import WANTED_INTERVAL_MS
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId
from replica.machines import AppliedLog, EncodedState
from replica.machines.counter import Counter
from tests.core.group.bench import GroupBench, add, leading_bench
from tests.core.group.cluster import GroupCluster
from tests.core.harness import CLUSTER, CONFIG, LOG, disk_id
from tests.core.scenarios import fetch, fetched
from tests.core.virtual import Node

BY_SIZE = GroupConfig(snapshot_max_record_bytes_between=400, tick_interval_ms=INT32_MAX)
PADDING = 20_000


class Fat(Counter):
    """A counter whose state is large."""

    def view(self) -> EncodedState:
        """The sum, and many digits before it."""
        return EncodedState(super().view().encode().zfill(PADDING))

    def restore(self, snapshot: bytes) -> None:
        """Go on from there."""
        super().restore(snapshot.lstrip(b"0") or b"0")


def fat() -> AppliedLog:
    """A fresh one."""
    return AppliedLog(Fat(), name="fat")


# --- not more than the records are worth ----------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_a_large_state_is_written_down_less_often(restarts: bool) -> None:
    """The next snapshot waits for as many bytes of records as the last one has, after a restart as well."""
    bench = leading_bench(group=BY_SIZE, machine=fat, voters=(0,))
    written = [add_one(bench) for _ in range(20)]
    assert len(bench.disk.snapshots) == 1
    if restarts:
        bench.restart()
        bench.to_role("leader")
        bench.commit_all()
    while len(bench.disk.snapshots) < 2:
        written.append(add_one(bench))
    assert PADDING < sum(written) < PADDING + 1000


def add_one(bench: GroupBench) -> int:
    """Add 1, let it be applied and a snapshot be stored if one is taken; return the bytes of the record."""
    bench.call(add(1))
    bench.commit_all()
    bench.store_all()
    return bench.disk.batches[-1].size_bytes


# --- not under the hands of who loads one ---------------------------------------------------------------------------


@pytest.fixture
def bench() -> GroupBench:
    """Build a leader that has two, and will take another after a few records."""
    bench = leading_bench(group=BY_SIZE)
    while len(bench.disk.snapshots) < 2:
        add_one(bench)
    return bench


def load_piece(bench: GroupBench, snapshot_id: SnapshotId, *, replica: int = 2) -> None:
    """Let another replica ask for a piece of a snapshot, and so live."""
    request = m.FetchSnapshotRequest(
        topic_partition=LOG,
        snapshot_end_offset=snapshot_id.end_offset,
        snapshot_epoch=snapshot_id.epoch,
        position=0,
        max_bytes=10,
        current_leader_epoch=bench.log.leader_epoch,
        replica_id=ReplicaId(replica),
        replica_directory_id=disk_id(replica),
        cluster_id=CLUSTER,
    )
    response = bench.answer(request)
    assert isinstance(response, m.FetchSnapshotResponse), response
    assert response.data, response


def write_much(bench: GroupBench) -> None:
    """Write more than what two snapshots are taken after."""
    for _ in range(20):
        add_one(bench)


@pytest.mark.parametrize("replica", [2, 9], ids=["voter", "observer"])
def test_a_snapshot_is_kept_while_it_is_loaded(bench: GroupBench, replica: int) -> None:
    """The one after the next would take it away, and is not taken; the log begins at its end at the latest."""
    loaded = max(bench.disk.snapshots)
    load_piece(bench, loaded, replica=replica)
    write_much(bench)
    assert loaded in bench.disk.snapshots
    assert (bench.disk.start, len(bench.disk.snapshots)) == (loaded.end_offset, 2)
    load_piece(bench, loaded, replica=replica)


def test_the_records_after_it_are_kept_as_well(bench: GroupBench) -> None:
    """Who has loaded a snapshot finds what follows; once it stands above the newest, the next one is taken."""
    loaded = max(bench.disk.snapshots)
    load_piece(bench, loaded)
    write_much(bench)
    newest = max(bench.disk.snapshots)
    assert newest > loaded
    assert fetched(bench, fetch(loaded.end_offset, loaded.epoch, bench.epoch, replica=2)).snapshot_id is None
    write_much(bench)
    assert max(bench.disk.snapshots) == newest
    fetched(bench, fetch(newest.end_offset, newest.epoch, bench.epoch, replica=2))
    write_much(bench)
    assert max(bench.disk.snapshots) > newest


def test_who_is_silent_is_not_waited_for(bench: GroupBench) -> None:
    """After a fetch timeout without a word the snapshot that is due is taken, at that moment."""
    load_piece(bench, max(bench.disk.snapshots))
    write_much(bench)
    newest = max(bench.disk.snapshots)
    bench.elapse(CONFIG.fetch_timeout_ms - 1)
    assert not bench.disk.storing
    bench.elapse(1)
    bench.store_all()
    assert max(bench.disk.snapshots) > newest


def test_nobody_is_waited_for_for_ever() -> None:
    """Who is slower than the log grows keeps the snapshot for so long, and then begins with a newer one."""
    hold_ms = 3 * CONFIG.fetch_timeout_ms
    bench = leading_bench(group=BY_SIZE, config=replace(CONFIG, snapshot_hold_max_ms=hold_ms))
    while len(bench.disk.snapshots) < 2:
        add_one(bench)
    loaded = max(bench.disk.snapshots)
    began_ms = bench.now_ms
    while loaded in bench.disk.snapshots and bench.now_ms - began_ms < 2 * hold_ms:
        load_piece(bench, loaded)
        add_one(bench)
        bench.elapse(100)
    assert hold_ms <= bench.now_ms - began_ms <= hold_ms + 1000


class SlowLoads(GroupCluster):
    """A cluster in which a piece of a snapshot takes its time."""

    def _perform_on_snapshots(self, node: Node, effect: fx.Effect) -> None:
        if isinstance(effect, fx.ReplyWithSnapshot):
            self.at(60, lambda: super(SlowLoads, self)._perform_on_snapshots(node, effect))
        else:
            super()._perform_on_snapshots(node, effect)


def test_a_follower_catches_up_while_snapshots_are_taken() -> None:
    """Under a load that lets several snapshots be due while one is loaded, the first that is loaded is enough."""
    config = replace(CONFIG, fetch_max_bytes=40)
    cluster = SlowLoads(group=BY_SIZE, config=config)
    leader = cluster.wait_leader()
    slow = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.isolate(slow.replica_id)
    for _ in range(40):
        cluster.answer(leader, add(1))
    cluster.heal()
    for _ in range(200):
        cluster.answer(leader, add(1))
    assert cluster.installed == 1
    assert cluster.run(lambda: slow.group.applied_offset >= leader.group.applied_offset - 2, within_ms=5000)


# --- for who makes a back-up ----------------------------------------------------------------------------------------


def ask_as_client(bench: GroupBench, end_offset: int) -> m.FetchSnapshotResponse:
    """Ask for the first piece of a snapshot that ends there or above."""
    request = m.FetchSnapshotRequest(
        topic_partition=LOG,
        snapshot_end_offset=Offset(end_offset),
        snapshot_epoch=Epoch(0),
        position=0,
        max_bytes=1 << 20,
        current_leader_epoch=bench.log.leader_epoch,
        cluster_id=CLUSTER,
    )
    response = bench.answer(request)
    assert isinstance(response, m.FetchSnapshotResponse), response
    return response


def rarely() -> GroupBench:
    """Build a leader that takes no snapshot by itself, with a few records that are applied."""
    bench = leading_bench(voters=(0,))
    for _ in range(3):
        add_one(bench)
    return bench


def test_a_snapshot_that_a_client_asks_for_is_taken() -> None:
    """It holds all below the offset that was named; until it is stored, the client hears that there is none."""
    bench = rarely()
    applied = bench.group.applied_offset
    assert ask_as_client(bench, applied).error is ErrorCode.SNAPSHOT_NOT_FOUND
    bench.elapse(WANTED_INTERVAL_MS)
    bench.store_all()
    answer = ask_as_client(bench, applied)
    assert (answer.error, answer.snapshot_id) == (ErrorCode.NONE, SnapshotId(applied, Epoch(bench.epoch)))
    assert ask_as_client(bench, 1).snapshot_id == answer.snapshot_id


def test_clients_cannot_have_snapshots_taken_at_their_pace() -> None:
    """However often one asks, and whatever offset it names, there is one in five seconds and none for nothing."""
    bench = rarely()
    for _ in range(30):
        add_one(bench)
        ask_as_client(bench, bench.group.applied_offset)
        ask_as_client(bench, 1 << 60)
        bench.elapse(WANTED_INTERVAL_MS // 10)
        bench.store_all()
    assert len(bench.disk.snapshots) == 2
    bench.elapse(10 * WANTED_INTERVAL_MS)
    bench.store_all()
    newest = max(bench.disk.snapshots)
    bench.elapse(10 * WANTED_INTERVAL_MS)
    assert not bench.disk.storing, newest


def test_a_client_is_no_replica_that_loads(bench: GroupBench) -> None:
    """A piece for a client holds nothing up, and is nobody's sign of life."""
    newest = max(bench.disk.snapshots)
    assert ask_as_client(bench, newest.end_offset).snapshot_id == newest
    write_much(bench)
    assert newest not in bench.disk.snapshots
