"""Preferred leaders that take over with a shorter log than the others have."""

from __future__ import annotations

import json
from random import Random

import pytest

from nemesis.history import EventType
from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.needs import with_needs
from nemesis.simulator.node import Node, Step
from nemesis.simulator.record import Record
from nemesis.simulator.run import SimOptions, simulate
from nemesis.simulator.world import Observer, World
from nemesis.variants.mutant import Need
from nemesis.verdict import Verdict
from replica.ids import Epoch, ReplicaId, TopicPartition

SEED = 3
STRUCK = "appointee-lags"
SOON_US = 1_000_000


class ShorterLogs(Observer):
    """Who began to lead with a shorter log than another replica of its partition had, and when."""

    def __init__(self) -> None:
        self.begun: list[tuple[ReplicaId, int]] = []
        self._epochs: set[tuple[TopicPartition, Epoch]] = set()

    def on_begin(self, world: World, record: Record) -> None:
        """See ``Observer``."""
        del record
        self._world = world

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        if node.core is None or node.core.broker is None:
            return
        for name, partition in node.core.broker.partitions.items():
            epoch = (name, partition.leader_epoch)
            if partition.is_leader and epoch not in self._epochs:
                self._epochs.add(epoch)
                if any(end > partition.log.log_end_offset for end in self._ends(name)):
                    self.begun.append((node.replica_id, self._world.now_us))

    def _ends(self, name: TopicPartition) -> list[int]:
        brokers = [node.core.broker for node in self._world.up() if node.core is not None]
        hosting = [broker.partitions[name] for broker in brokers if broker is not None and name in broker.partitions]
        return [partition.log.log_end_offset for partition in hosting]


@pytest.mark.slow
def test_a_laggard_is_struck_as_it_takes_over_with_a_shorter_log() -> None:
    """The right protocol survives what late news of three leader epochs in a row can do to unequal logs."""
    climate = with_needs(draw_cluster_climate(Random(f"{SEED} climate")), (Need.TURMOIL, Need.STALE_METADATA))
    shorter = ShorterLogs()

    run = simulate(SimOptions(seed=SEED, climate=climate, time_limit_s=30), (shorter,))

    struck = [
        (json.loads(event.detail or "{}")["replicas"], event.time_ns // 1000)
        for event in run.record.history
        if (event.f, event.type) == (STRUCK, EventType.INVOKE)
    ]
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert any(
        laggards == [replica_id] and 0 <= begun_us - struck_us < SOON_US
        for laggards, struck_us in struck
        for replica_id, begun_us in shorter.begun
    )
