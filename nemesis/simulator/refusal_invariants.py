"""What must hold of brokers that are fenced because nobody listens there, checked after every step of a cluster world.

Owns the promise that evidence is of one process only: the next one of the same broker is not fenced for it. The
reference is the simulator's own knowledge of which process each piece of evidence is of.
"""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.simulator.node import Node, Step
from nemesis.simulator.refusals import Refusals
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import Observer
from replica.core import events as ev
from replica.core.metadata.image import BrokerRegistration
from replica.ids import ReplicaId


class RefusalInvariants(Observer):
    """The promise about evidence; ``refusals`` gives it, and knows of which process."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._brokers: dict[ReplicaId, Mapping[ReplicaId, BrokerRegistration]] = {}
        """What each controller had decided of brokers after its last step."""
        self._sessions: dict[ReplicaId, Mapping[ReplicaId, int]] = {}

    def on_step(self, node: Node, step: Step) -> None:
        """Look at what a controller has decided upon evidence."""
        if node.core is None or node.core.controller is None or not node.core.controller.is_active:
            self._brokers.pop(node.replica_id, None)
            return
        controller = node.core.controller.controller
        before, now = self._brokers.get(node.replica_id), controller.image.brokers
        if isinstance(step.event, ev.PeerRefused) and before is not None and now is not before:
            self._check_fenced(node, step.event, before, now)
        self._brokers[node.replica_id] = now
        self._sessions[node.replica_id] = controller.session_deadlines_ms

    def _check_fenced(
        self,
        node: Node,
        event: ev.PeerRefused,
        before: Mapping[ReplicaId, BrokerRegistration],
        now: Mapping[ReplicaId, BrokerRegistration],
    ) -> None:
        """A broker is fenced for its own process, and not for an earlier one; for its silence it may be anyway."""
        was, fenced = before.get(event.replica_id), now.get(event.replica_id)
        if was is None or was.fenced or fenced is None or not fenced.fenced:
            return
        is_over = self._sessions[node.replica_id].get(event.replica_id, node.now_ms) <= node.now_ms
        meant = self._refusals.incarnations[node.replica_id, event.replica_id, event.refused_at_ms]
        registered = int(fenced.incarnation_id.rpartition(".")[2])
        if registered > meant and not is_over:
            detail = (
                f"controller {node.replica_id} fences broker {event.replica_id}, process {registered}, because "
                f"process {meant} had ended"
            )
            raise BrokenInvariantError("fenced-by-an-old-refusal", detail)
