"""A whole group of replicas in one thread: the replicas of ``virtual``, each with a state machine on every log.

A replica hosts one group or several, each with a log of its own. After every step the promise of state machines is
checked: who has applied equally much has the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replica.core import messages as m
from replica.core.config import GroupConfig, QuorumConfig
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.machines import AppliedLog
from tests.core.group.bench import counting
from tests.core.harness import LOG
from tests.core.ruled import rules_now
from tests.core.virtual import CONFIG, Climate, Node, PromiseBrokenError, VirtualReplicas

GROUP = GroupConfig(snapshot_max_record_bytes_between=2000, tick_interval_ms=200, read_max_bytes=400)


@dataclass
class Call:
    """One request of a client; ``response`` is absent until it is answered."""

    replica_id: ReplicaId
    asked_ms: int
    response: m.Response | None = None
    is_lost: bool = False


class GroupCluster(VirtualReplicas):
    """Some replicas with one group or several, and their network."""

    def __init__(
        self,
        seed: int = 0,
        *,
        voters: int = 3,
        climate: Climate | None = None,
        group: GroupConfig = GROUP,
        machine: Callable[[], AppliedLog] = counting,
        config: QuorumConfig = CONFIG,
        names: Sequence[TopicPartition] = (LOG,),
    ) -> None:
        self.digests: dict[tuple[TopicPartition, Offset], str] = {}
        self.names = names
        self._machine = machine
        self._open: list[Call] = []
        super().__init__(seed, voters=voters, climate=climate, rules=rules_now, config=config, group=group, names=names)

    def _machines(self) -> dict[TopicPartition, AppliedLog]:
        return {name: self._machine() for name in self.names}

    def run(self, until: Callable[[], bool] = lambda: False, *, within_ms: int = 60_000) -> bool:
        """Let time pass until the condition holds, or all of that time."""
        deadline_ms = self.now_ms + within_ms
        is_met = super().run(until, within_ms=within_ms)
        self.now_ms = self.now_ms if is_met else deadline_ms
        return is_met

    def leader(self) -> Node | None:
        """The replica whose machine leads the latest epoch."""
        leaders = [node for node in self.running() if node.group.machine_leads]
        return max(leaders, key=lambda node: node.log.leader_epoch, default=None)

    def wait_leader(self, *, other_than: Node | None = None) -> Node:
        def found() -> bool:
            return (leader := self.leader()) is not None and leader is not other_than

        assert self.run(found), "nobody leads"
        leader = self.leader()
        assert leader is not None
        return leader

    def crash(self, node: Node) -> None:
        super().crash(node)
        for call in self._open:
            call.is_lost |= call.replica_id == node.replica_id

    def _stepped(self, node: Node) -> None:
        assert node.core is not None, node.replica_id
        for name, group in node.core.groups.items():
            offset, digest = group.applied_offset, group.digest()
            if self.digests.setdefault((name, offset), digest) != digest:
                raise PromiseBrokenError(f"{name}: at offset {offset} replica {node.replica_id} has another state")

    # --- clients ----------------------------------------------------------------------------------------------------

    def ask(self, node: Node, request: m.Request) -> Call:
        """Put a client's request to a replica, now."""
        call = Call(node.replica_id, self.now_ms, is_lost=node.core is None)
        self._open = [other for other in self._open if other.response is None and not other.is_lost]
        self._open.append(call)

        def answered(response: m.Response) -> None:
            call.response = response

        self._call(node, request, answered)
        return call

    def answer(self, node: Node, request: m.Request, *, within_ms: int = 20_000) -> m.Response:
        """Put a request, and wait for its answer."""
        call = self.ask(node, request)
        assert self.run(lambda: call.response is not None, within_ms=within_ms), request
        assert call.response is not None
        return call.response
