"""Log directories of which the disk fails under a running broker, and comes back later: as it was, or empty.

Owns the choice of the moment and of the directory: one whose partitions others hold whole, since where the only copy is
on a disk that fails, a cluster is right to wait. That looks at all disks, which no disk does. A broker hears of it when
it next uses the disk, and goes on with its other directory; it is restarted once the disk is repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from nemesis.history import EventType
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.node import Node
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.world import World

MINUTE_MS = 60_000
LASTS_MS = (200, 8_000)
"""How long a disk fails."""
AWAY_MS = (0, 3_000)
"""How long a broker is down then."""
REPLACED = 0.5
"""How many disks are replaced, and not repaired."""
_KEY = -2
"""Under which brokers are held down."""


class DirectoryLoss:
    """Fails one log directory after the other, until it is stopped; ``partitions`` know who holds what is committed."""

    def __init__(
        self, world: World, cluster: ClusterClimate, record: Record, dice: Random, *, partitions: PartitionInvariants
    ) -> None:
        assert cluster.directory_losses > 0, cluster
        self._world = world
        self._pause_ms = int(MINUTE_MS / cluster.directory_losses)
        self._only_copies_fail = cluster.only_copies_fail
        self._record = record
        self._dice = dice
        self._partitions = partitions
        self._failed: tuple[Node, Path] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Fail a directory after a pause, and then the next."""
        self._after(self._dice.randint(1, 2 * self._pause_ms), self._fail)

    def stop(self) -> None:
        """Repair what fails, and restart whoever does without a disk that works again; nothing fails any more."""
        self._is_stopped = True
        if self._failed is not None:
            self._repair(*self._failed, 0)
        for node in self._world.up():
            if node.core is not None and node.core.broker is not None and node.core.broker.offline:
                self._take_out(node)
                self._bring_back(node, 0)

    def _fail(self) -> None:
        places = [
            (node, path)
            for node in self._world.up()
            for path in node.disk.log_dirs
            if self._only_copies_fail or self._can_do_without(node, path)
        ]
        if self._is_stopped or not places:
            self.start()
            return
        node, path = self._failed = self._dice.choice(places)
        self._tell("fail-directory", node, path)
        node.disk.fail_dir(path)
        self._after(self._dice.randint(*LASTS_MS), partial(self._repair, node, path, self._dice.randint(*AWAY_MS)))

    def _can_do_without(self, node: Node, path: Path) -> bool:
        return all(self._partitions.can_do_without(node.replica_id, log) for log in node.disk.logs_in(path))

    def _repair(self, node: Node, path: Path, away_ms: int) -> None:
        """End the process, and let it begin anew with a disk that works."""
        if self._failed is None:
            return
        self._failed = None
        self._take_out(node)
        is_replaced = self._dice.random() < REPLACED and self._can_do_without(node, path)
        node.disk.fail_dir(None)
        if is_replaced:
            node.disk.replace_dir(path)
        self._tell("replace-directory" if is_replaced else "repair-directory", node, path)
        self._bring_back(node, away_ms)
        self.start()

    def _take_out(self, node: Node) -> None:
        self._world.hold_down(node.replica_id, _KEY)
        node.kill("taken-out")

    def _bring_back(self, node: Node, away_ms: int) -> None:
        self._world.queue.after(away_ms * US_PER_MS, lambda: self._world.release(node.replica_id, _KEY))

    def _tell(self, what: str, node: Node, path: Path) -> None:
        self._record.nemesis(EventType.INFO, what, {"replicas": [node.replica_id], "directory": f"{path}"})

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._world.queue.after(delay_ms * US_PER_MS, action)
