"""The partitions of a fake system: where each is, and moves that are under way until they are let come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nemesis.errors import NotDoneError
from nemesis.faults.breakable import ClusterState, PartitionState
from tests.workload.fake_system import NAMES, FakeSystem


def done(what: str, log: str) -> None:
    """Every change is made."""


class FakeMoves:
    """Partitions on ``replication_factor`` of five nodes; ``outcome`` is called before each change and may raise.

    A move is under way until ``come``, or at once over with ``at_once``; meanwhile those that come are replicas and
    those that go as well.
    """

    def __init__(self, logs: tuple[str, ...] = NAMES, replication_factor: int = 3) -> None:
        self._logs = logs
        self.replication_factor = replication_factor
        self.at: dict[str, tuple[int, ...]] = dict.fromkeys(logs, tuple(range(1, replication_factor + 1)))
        self.moving: dict[str, tuple[int, ...]] = {}
        self._before: dict[str, tuple[int, ...]] = {}
        self.at_once = True
        self.is_silent = False
        self.outcome: Callable[[str, str], None] = done
        self.late: Callable[[str, str], None] = done
        self.calls: list[tuple[str, str, tuple[int, ...]]] = []

    @property
    def logs(self) -> tuple[str, ...]:
        return self._logs

    async def begin(self, log: str, replicas: Sequence[int]) -> None:
        self._check("begin", log, tuple(replicas))
        was = self._before.setdefault(log, self.at[log])
        self.moving[log] = tuple(replicas)
        self.at[log] = (*replicas, *(node for node in was if node not in replicas))
        if self.at_once:
            self.come(log)
        self.late("begin", log)

    async def cancel(self, log: str) -> None:
        self._check("cancel", log)
        if log not in self.moving:
            raise NotDoneError("nothing is under way")
        del self.moving[log]
        self.at[log] = self._before.pop(log)

    async def elect_preferred(self, log: str) -> None:
        self._check("elect", log)

    async def under_way(self) -> frozenset[str] | None:
        return None if self.is_silent else frozenset(self.moving)

    def come(self, log: str) -> None:
        """Let the move of a partition be complete."""
        self.at[log] = self.moving.pop(log)
        self._before.pop(log, None)

    def _check(self, what: str, log: str, replicas: tuple[int, ...] = ()) -> None:
        self.calls.append((what, log, replicas))
        self.outcome(what, log)


class MovingSystem(FakeSystem):
    """A fake system of ``size`` nodes whose partitions can be moved."""

    def __init__(self, moves: FakeMoves, size: int = 5) -> None:
        super().__init__()
        self.moves = moves
        self.running = set(range(1, size + 1))
        self._size = size

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(range(1, self._size + 1))

    async def cluster_state(self) -> ClusterState | None:
        return ClusterState(
            controller=1,
            active=frozenset(self.nodes),
            partitions={
                log: PartitionState(replicas=at, isr=at, leader=at[0], leader_epoch=1)
                for log, at in self.moves.at.items()
            },
        )
