"""A whole quorum in one thread: the replicas of ``virtual``, one client that appends, and what must hold of them.

After every step the cluster-wide promises are checked (``Promises``); what concerns one replica alone, the core checks
itself.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.records import encode_batch
from tests.core.harness import LOG
from tests.core.virtual import CONFIG, Climate, Node, PromiseBrokenError, VirtualReplicas


class Promises:
    """What must hold across replicas, checked as the cluster goes along."""

    def __init__(self) -> None:
        self.committed: dict[Offset, tuple[int, bytes]] = {}
        self.acknowledged: dict[Offset, bytes] = {}
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

    def check_acknowledged(self, node: Node, *, below: Offset) -> None:
        """Check that every write acknowledged below this offset stands there in the replica's log."""
        held = {batch.base_offset: batch for batch in node.disk.batches}
        for offset, records in self.acknowledged.items():
            data = held[offset].data if offset in held else b""
            if offset < node.disk.start:  # It is in a snapshot.
                _, data = self.committed[offset]
            if offset < below and data[61:] != records:
                self._fail("an acknowledged write is never lost", (offset, node.replica_id))


class SimulatedCluster(VirtualReplicas):
    """Some replicas, their network and one client that appends."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        climate: Climate | None = None,
        rules: Callable[[], Rules] = Rules,
        config: QuorumConfig = CONFIG,
        append_interval_ms: int = 5,
    ) -> None:
        self.promises = self._new_promises()
        super().__init__(seed, voters=voters, climate=climate, rules=rules, config=config)
        self.at(append_interval_ms, lambda: self._append(append_interval_ms))

    def _new_promises(self) -> Promises:
        return Promises()

    def leader(self) -> Node | None:
        leaders = [node for node in self.running() if node.log.role.name == "leader"]
        return max(leaders, key=lambda node: node.log.leader_epoch, default=None)

    def resign(self, replica_id: ReplicaId) -> None:
        self.step(self.nodes[replica_id], ev.ResignRequested())

    def _stepped(self, node: Node) -> None:
        self.promises.check(node, self.nodes)

    # --- the client -------------------------------------------------------------------------------------------------

    def _append(self, interval_ms: int) -> None:
        """Append one record through some replica that believes it leads, and note it if it is acknowledged."""
        self.at(interval_ms, lambda: self._append(interval_ms))
        leaders = [node for node in self.running() if node.log.role.name == "leader"]
        if not leaders:
            return
        batch = encode_batch([str(self._sequence).encode()], timestamp_ms=self.now_ms)

        def on_reply(response: m.Response) -> None:
            assert isinstance(response, m.ProduceResponse), response
            if response.error is ErrorCode.NONE:
                assert response.base_offset is not None, response
                self.promises.acknowledged[response.base_offset] = batch.data[61:]

        request = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=batch.data)
        self._call(self.random.choice(leaders), request, on_reply)
