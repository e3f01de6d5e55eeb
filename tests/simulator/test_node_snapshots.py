"""Snapshots on a simulated machine: stored after a while, lost with the process, installed at once."""

from __future__ import annotations

from random import Random
from typing import cast

import pytest
from msgspec.structs import replace

from nemesis.simulator.climate import CALM
from nemesis.simulator.disk import NodeDisk
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.queue import EventQueue, NodeClock
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.lanes import Lane
from replica.core.log.recovered import StoredSnapshot
from replica.core.messages import FetchSnapshotRequest, FetchSnapshotResponse, Response
from replica.core.replica import Replica
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import EncodedState
from replica.records import encode_batch
from replica.storage import LogTable, StorageError
from replica.voters import VoterSet

LOG = TopicPartition("kv", 0)
TAKEN = SnapshotId(Offset(2), Epoch(1))
LOADED = SnapshotId(Offset(30), Epoch(4))
FLUSH_US = 5_000
STORE = fx.StoreSnapshot(topic_partition=LOG, snapshot_id=TAKEN, state=EncodedState(b"state"), max_bytes=5)
INSTALL = fx.InstallSnapshot(topic_partition=LOG, snapshot_id=LOADED, data=b"their state")
STORED = ev.SnapshotStored(topic_partition=LOG, snapshot_id=TAKEN, size_bytes=5)


class Core:
    """Asks for what is next on its list, and remembers what it hears."""

    halted = None
    deadline_ms = None
    broker = None

    def __init__(self, world: World) -> None:
        self._world = world

    def step(self, event: ev.Event, now_ms: int) -> tuple[fx.Effect, ...]:
        """Take one event."""
        self._world.heard.append(event)
        effects, self._world.next_effects = self._world.next_effects, ()
        return effects


class World:
    """A world of one machine, whose core does as the test says."""

    def __init__(self) -> None:
        self.queue = EventQueue()
        self.climate = CALM
        self.heard: list[ev.Event] = []
        self.next_effects: tuple[fx.Effect, ...] = ()
        self.crashes: list[str] = []
        self.crash_after: int | None = None
        self.disk = NodeDisk(ReplicaId(1), (LOG,), Random(1), initial_voters=VoterSet(()))
        self.node = Node(ReplicaId(1), self, self.disk, NodeClock(offset_ms=0, drift_ppm=0), Random(2))
        state = fx.QuorumState(leader_epoch=Epoch(1))
        batches = tuple(encode_batch([b"v"], base_offset=at, leader_epoch=1) for at in range(4))
        self.next_effects = (
            fx.StoreQuorumState(topic_partition=LOG, state=state),
            fx.Append(topic_partition=LOG, batches=batches),
            fx.Flush(topic_partition=LOG, end_offset=Offset(4)),
        )
        assert self.node.start()
        self.run()

    def step(self, *effects: fx.Effect) -> None:
        """Let the core ask for this."""
        self.next_effects = effects
        self.node.submit(ev.Ticked())

    def run(self, us: int = 10 * FLUSH_US) -> None:
        """Let time pass."""
        self.queue.run_until(self.queue.now_us + us)

    def recovered(self) -> tuple[tuple[StoredSnapshot, ...], int, int]:
        """The snapshots that the process found when it began, and where the log began and ended."""
        log = self.node.recovered[LOG]
        return log.snapshots, log.log_start_offset, log.log_end_offset

    def new_core(self, node: Node, opened: LogTable) -> Replica:
        """A core that does as the test says."""
        return cast(Replica, Core(self))

    def send(self, node: Node, effect: fx.Send) -> None:
        """Nobody is there."""

    def crash_point(self, node: Node, event: ev.Event, effects: int) -> int | None:
        """Where the test wants it."""
        return self.crash_after

    def flush_us(self, node: Node) -> int:
        """Always the same."""
        return FLUSH_US

    def lane_us(self, node: Node, lanes: frozenset[Lane]) -> int:
        """How long what waits for the disk takes."""
        return 0

    def report_us(self, node: Node) -> int:
        """At once."""
        return 0

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """Nobody minds."""

    def on_step(self, node: Node, step: Step) -> None:
        """Nobody minds."""

    def on_down(self, node: Node, crash: Crash) -> None:
        """Remember why."""
        self.crashes.append(crash.cause)

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """It must not be."""
        raise error


@pytest.fixture
def world() -> World:
    """A machine that is up, with four flushed records."""
    return World()


def stored(*snapshot_ids: SnapshotId) -> tuple[StoredSnapshot, ...]:
    """These snapshots, as storage speaks of them."""
    sizes = {TAKEN: STORED.size_bytes, LOADED: len(INSTALL.data)}
    return tuple(StoredSnapshot(id=found, size_bytes=sizes[found]) for found in snapshot_ids)


def test_a_snapshot_is_durable_when_it_is_reported(world: World) -> None:
    """The report comes after as long as a flush takes, and then a power loss takes nothing of it."""
    world.step(STORE)
    world.run(FLUSH_US - 1)
    assert STORED not in world.heard
    world.run(1)
    assert world.heard[-1] == STORED
    world.node.lose_power()
    assert world.node.start()
    assert world.recovered() == (stored(TAKEN), 0, 4)


def test_a_snapshot_is_encoded_when_it_is_stored(world: World) -> None:
    """What a view that is not frozen says by then is what is on the disk: so the judges find it."""
    live = Live()
    world.step(replace(STORE, state=live))
    live.data = b"other"
    world.run()
    assert world.node.stores[LOG].read_snapshot(TAKEN, 0, 9) == b"other"


class Live:
    """A state that goes on."""

    data = b"state"

    def encode(self) -> bytes:
        """What there is by now."""
        return self.data


def test_a_snapshot_that_is_too_large_is_not_stored(world: World) -> None:
    """The process hears how large it is, and the next one finds nothing of it."""
    world.step(replace(STORE, max_bytes=4))
    world.run()
    assert world.heard[-1] == ev.SnapshotTooLarge(topic_partition=LOG, snapshot_id=TAKEN, size_bytes=5)
    world.node.lose_power()
    assert world.node.start()
    assert world.recovered() == ((), 0, 4)


@pytest.mark.parametrize("how", ["kill", "power"])
def test_a_process_that_ends_takes_the_snapshot_on_its_way_with_it(world: World, how: str) -> None:
    """It is not there for the next process, which never hears of it."""
    world.step(STORE)
    world.node.lose_power() if how == "power" else world.node.kill()
    assert world.node.start()
    world.run()
    assert STORED not in world.heard
    assert world.recovered() == ((), 0, 4)
    world.step(STORE)
    world.run()
    assert world.heard[-1] == STORED


def test_an_installation_is_done_at_once_and_silences_the_snapshot_on_its_way(world: World) -> None:
    """The log is begun anew, durably, within the step; of the snapshot that it has overtaken nothing is heard."""
    world.step(STORE, INSTALL)
    assert world.node.flushed_end[LOG] == 30
    world.run()
    assert STORED not in world.heard
    world.node.lose_power()
    assert world.node.start()
    assert world.recovered() == (stored(LOADED), 30, 30)


def test_the_power_may_go_within_an_installation(world: World) -> None:
    """The next process finds the old log or the new snapshot; until then nobody believes that anything is flushed."""
    seen = set()
    for operations in range(30):
        fresh = World()
        fresh.disk.files.power_fails_before = fresh.disk.files.operations + operations
        fresh.step(INSTALL)
        if fresh.crashes:
            assert (fresh.crashes, fresh.node.flushed_end[LOG]) == (["power-in-step"], 0)
            assert fresh.node.start()
        seen.add(fresh.recovered() if fresh.crashes else "whole")
    assert seen == {((), 0, 4), (stored(LOADED), 30, 30), "whole"}


def test_a_snapshot_that_the_disk_refuses_fails_the_storage(world: World) -> None:
    """The core hears of it as of any failure of its storage."""
    world.step(STORE)
    world.disk.files.is_full = True
    world.run()
    assert isinstance(world.heard[-1], ev.StorageFailed)
    assert world.node.storage_failed


def test_the_power_may_go_while_a_snapshot_is_stored(world: World) -> None:
    """The process ends, and the machine comes back without it."""
    world.step(STORE)
    world.disk.files.power_fails_before = world.disk.files.operations + 2
    world.run()
    assert world.crashes == ["power"]
    assert world.node.start()
    assert world.recovered() == ((), 0, 4)


def test_a_piece_of_a_snapshot_is_the_answer(world: World) -> None:
    """ReplyWithSnapshot answers its call with what the disk holds."""
    world.step(STORE)
    world.run()
    answers: list[Response] = []
    response = FetchSnapshotResponse(error=ErrorCode.NONE, snapshot_id=TAKEN, size_bytes=5, position=1)
    request = FetchSnapshotRequest(
        topic_partition=LOG,
        snapshot_end_offset=TAKEN.end_offset,
        snapshot_epoch=TAKEN.epoch,
        position=1,
        max_bytes=3,
        current_leader_epoch=Epoch(1),
        replica_id=ReplicaId(2),
    )

    world.node.call(request, answers.append)
    (call_id,) = world.node.requests
    world.step(
        fx.ReplyWithSnapshot(
            call_id=call_id, response=response, topic_partition=LOG, snapshot_id=TAKEN, position=1, max_bytes=3
        )
    )
    assert answers == [response.with_data(b"tat")]
    assert world.node.requests == {}
