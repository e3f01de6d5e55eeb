"""A whole quorum in one thread: the replicas of ``virtual``, one client that appends, and what must hold of them.

After every step the cluster-wide promises are checked (``Promises``); what concerns one replica alone, the core checks
itself.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.core import messages as m
from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId
from replica.records import encode_batch
from tests.core.harness import LOG
from tests.core.virtual import CONFIG, Climate, Node, PromiseBrokenError, VirtualReplicas

APPEND_INTERVAL_MS = 5


class Promises:
    """What must hold across replicas, checked as the cluster goes along."""

    def __init__(self) -> None:
        self.committed: dict[Offset, tuple[int, bytes]] = {}
        self._leaders: dict[int, ReplicaId] = {}
        self._checked: dict[tuple[ReplicaId, int], Offset] = {}

    @property
    def high_watermark(self) -> int:
        return len(self.committed)

    def check(self, node: Node, nodes: dict[ReplicaId, Node]) -> None:
        self._single_leader(node)
        self._consistent_committed_data(node)
        self._majority_holds_the_high_watermark(nodes)
        self._leader_has_everything_committed(node)

    def _fail(self, promise: str, detail: object) -> None:
        raise PromiseBrokenError(f"{promise}: {detail}")

    def _single_leader(self, node: Node) -> None:
        log = node.log
        if log.role.name == "leader" and self._leaders.setdefault(log.leader_epoch, node.replica_id) != node.replica_id:
            self._fail("one leader an epoch", (log.leader_epoch, self._leaders[log.leader_epoch], node.replica_id))

    def _consistent_committed_data(self, node: Node) -> None:
        high_watermark = node.log.log.high_watermark or Offset(0)
        key = (node.replica_id, node.incarnation)
        start = self._checked.get(key, Offset(0))
        for batch in node.disk.between(start, high_watermark):
            here = (batch.leader_epoch, batch.data)
            for offset in range(batch.base_offset, batch.end_offset):
                if self.committed.setdefault(Offset(offset), here) != here:
                    self._fail("committed data is the same everywhere", (offset, node.replica_id))
        self._checked[key] = max(start, high_watermark)

    def _majority_holds_the_high_watermark(self, nodes: dict[ReplicaId, Node]) -> None:
        holding = sum(node.disk.end >= self.high_watermark for node in nodes.values())
        if holding <= len(nodes) // 2:
            self._fail("a majority holds the high watermark", (self.high_watermark, holding))

    def _leader_has_everything_committed(self, node: Node) -> None:
        leads = node.log.role.name == "leader" and node.log.leader_epoch == max(self._leaders)
        if leads and node.disk.end < self.high_watermark:
            self._fail("a leader has everything committed", (node.disk.end, self.high_watermark))


class SimulatedCluster(VirtualReplicas):
    """Some replicas, their network and one client that appends."""

    def __init__(self, seed: int, *, voters: int = 3, climate: Climate | None = None) -> None:
        self.promises = Promises()
        super().__init__(seed, voters=voters, climate=climate, rules=Rules, config=CONFIG)
        self.at(APPEND_INTERVAL_MS, self._append)

    def leader(self) -> Node | None:
        leaders = [node for node in self.running() if node.log.role.name == "leader"]
        return max(leaders, key=lambda node: node.log.leader_epoch, default=None)

    def _stepped(self, node: Node) -> None:
        self.promises.check(node, self.nodes)

    # --- the client -------------------------------------------------------------------------------------------------

    def _append(self) -> None:
        """Append one record through some replica that believes it leads."""
        self.at(APPEND_INTERVAL_MS, self._append)
        leaders = [node for node in self.running() if node.log.role.name == "leader"]
        if not leaders:
            return
        records = encode_batch([str(self._sequence).encode()], timestamp_ms=self.now_ms).data
        request = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=records)
        self._call(self.random.choice(leaders), request, lambda _: None)


def everyone_reached(cluster: SimulatedCluster, high_watermark: int) -> Callable[[], bool]:
    """Build the condition that every running replica knows this high watermark."""
    return lambda: all((node.log.log.high_watermark or 0) >= high_watermark for node in cluster.running())
