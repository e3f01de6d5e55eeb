"""Evidence of the end of processes, as the machines of a world have it of each other: right, late and wrong.

Owns who hears when that nobody listens where a peer did. Whoever watches a machine whose process has ended sees its
connection end, dials, and is refused, unless the way there is cut or held up: then there is silence, and no evidence.
It dials again, ever more seldom, until a process runs there. A core may hear of it late. And now and then something
refuses in the name of a process that lives on, and all who watch it may believe that.

``RefusalInvariants`` holds the cluster to what it may conclude from evidence: that is of one process only, and the next
one of the same broker is not fenced for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

from nemesis.history import EventType
from nemesis.simulator.climate import Climate
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.queue import US_PER_MS, US_PER_S
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.replay import METADATA_LOG
from replica.core.quorum.roles import Follower
from replica.ids import ReplicaId

PAUSE_FIRST_MS, PAUSE_MAX_MS = 100, 1000
"""How long a watch waits until it dials again, at first and at the longest."""
BELIEVED_SHARE = 0.7
"""How many of those who watch a process meet what refuses in its name."""

Evidence = tuple[ReplicaId, ReplicaId, int]
"""Who has it, of whom, and when by its clock the dial was refused."""


class Refusals(Observer):
    """Lets cores hear of ends of processes, as the world's climate says, and counts what came of it."""

    def __init__(self, world: World, record: Record, dice: Random) -> None:
        self.incarnations: dict[Evidence, int] = {}
        """Which process of a machine each piece of evidence is of: the last that had begun by then."""
        self._world = world
        self._record = record
        self._rare = record.rare
        self._dice = dice
        self._watched: dict[ReplicaId, tuple[int, frozenset[ReplicaId]]] = {}
        self._dialling: set[tuple[ReplicaId, int, ReplicaId]] = set()

    @property
    def _climate(self) -> Climate:
        return self._world.climate

    def start(self) -> None:
        """Begin to refuse falsely, if the climate has that."""
        if self._climate.refusals and self._climate.false_refusals:
            wait_s = self._dice.expovariate(self._climate.false_refusals / 60)
            self._world.queue.after(int(wait_s * US_PER_S), self._refuse_falsely)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``: whom a core watches anew, it dials, if there is no process."""
        self._count(node, step)
        if node.core is None:
            return
        now = (node.incarnation, node.core.watched_peers)
        incarnation, before = self._watched.get(node.replica_id, (0, frozenset()))
        if now[1] is not before or node.incarnation != incarnation:
            self._watched[node.replica_id] = now
            known = before if node.incarnation == incarnation else frozenset()
            for peer_id in sorted(now[1] - known):
                self._begin_to_dial(node, peer_id)

    def on_down(self, node: Node, crash: Crash) -> None:
        """See ``Observer``: whoever watches this process sees its connection end."""
        del crash
        for watcher in self._world.up():
            if watcher.core is not None and node.replica_id in watcher.core.watched_peers:
                self._begin_to_dial(watcher, node.replica_id)

    # --- dialling ---------------------------------------------------------------------------------------------------

    def _begin_to_dial(self, watcher: Node, peer_id: ReplicaId) -> None:
        dialling = (watcher.replica_id, watcher.incarnation, peer_id)
        if not self._world.nodes[peer_id].is_up and dialling not in self._dialling:
            self._dialling.add(dialling)
            self._dial_after(1.0 + 30.0 * self._dice.random(), watcher, peer_id, PAUSE_FIRST_MS)

    def _dial_after(self, delay_ms: float, watcher: Node, peer_id: ReplicaId, pause_ms: int) -> None:
        dial = partial(self._dial, watcher, watcher.incarnation, peer_id, pause_ms)
        self._world.queue.after(int(delay_ms * US_PER_MS), dial)

    def _dial(self, watcher: Node, incarnation: int, peer_id: ReplicaId, pause_ms: int) -> None:
        """Dial once: a process that lives accepts, and one that does not is known by the refusal that comes back."""
        is_over = watcher.core is None or watcher.incarnation != incarnation
        if is_over or watcher.core is None or peer_id not in watcher.core.watched_peers:
            self._dialling.discard((watcher.replica_id, incarnation, peer_id))
            return
        if self._world.nodes[peer_id].is_up:
            self._dialling.discard((watcher.replica_id, incarnation, peer_id))
            return
        if not watcher.is_paused and self._world.network.is_open_between(watcher.replica_id, peer_id):
            self._tell(watcher, peer_id)
        self._dial_after(pause_ms, watcher, peer_id, min(2 * pause_ms, PAUSE_MAX_MS))

    def _tell(self, watcher: Node, peer_id: ReplicaId) -> None:
        """Let a core hear, sooner or later, that a peer was refused just now."""
        low_ms, high_ms = self._climate.refusal_ms
        refused_at_ms = watcher.now_ms
        self.incarnations[watcher.replica_id, peer_id, refused_at_ms] = self._world.nodes[peer_id].incarnation
        evidence = ev.PeerRefused(replica_id=peer_id, refused_at_ms=refused_at_ms)
        watcher.after_ms(low_ms + (high_ms - low_ms) * self._dice.random(), lambda: watcher.submit(evidence))

    def _refuse_falsely(self) -> None:
        """Let those who watch a process that lives be refused in its name; not in a world that is healed by now."""
        if not self._climate.false_refusals:
            return
        running = self._world.up()
        if running:
            named = self._dice.choice(running).replica_id
            watchers = [
                node
                for node in running
                if node.core is not None
                and named in node.core.watched_peers
                and not node.is_paused
                and self._dice.random() < BELIEVED_SHARE
            ]
            for watcher in watchers:
                self._tell(watcher, named)
            if watchers:
                self._rare[Rare.REFUSED_FALSELY] += 1
                detail = {"replicas": [named], "believed_by": [watcher.replica_id for watcher in watchers]}
                self._record.nemesis(EventType.INFO, "refuse-falsely", detail)
        self.start()

    # --- counting ---------------------------------------------------------------------------------------------------

    def _count(self, node: Node, step: Step) -> None:
        if not isinstance(step.event, ev.PeerRefused) or node.core is None:
            return
        peer_id = step.event.replica_id
        roles = [log.role for log in node.core.logs.values()]
        self._rare[Rare.LEADER_REFUSED] += any(
            isinstance(role, Follower) and role.leader_id == peer_id and role.is_refused for role in roles
        )
        self._rare[Rare.BROKER_REFUSED] += any(
            isinstance(effect, fx.Append) and effect.topic_partition == METADATA_LOG for effect in step.effects
        )


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
