"""Strike a broker just when the controller has made it leader of a partition, before it need have heard of it.

Owns the choice of the blow and its moment. Each blow leaves the broker alive and, to somebody, still a leader, while
the controller soon appoints the next: so several leader epochs follow each other at once, and whoever hears late of the
metadata goes through epochs that are over. Random faults seldom hit that.

Where the climate has laggards, a hand-over is prepared besides. The preferred leader is kept from fetching once it is
in the ISR, and so takes over with a shorter log than the others have: in its epoch they would cut theirs, in those
before and after it they would not (KIP-320).
"""

from __future__ import annotations

from random import Random

from nemesis.faults.links import Link
from nemesis.history import EventType
from nemesis.simulator.node import Node, Step
from nemesis.simulator.queue import US_PER_MS, Action
from nemesis.simulator.record import Record
from nemesis.simulator.world import Observer, World
from replica.core.metadata.image import MetadataImage
from replica.ids import Offset, ReplicaId, TopicPartition

FIRST_KEY = 2_000_000
"""Above the keys of blows at leaders that have begun to lead."""
PAUSE_SESSIONS = (1.1, 2.0)
LATE_SESSIONS = (3.0, 5.0)
DELAY_SESSIONS = (1.5, 3.5)
"""How many broker sessions things last: the controller fences whoever is silent for one."""
BYSTANDERS_SHARE = 0.6
"""How often only they hear late; otherwise everybody does but the controller, which hears of nothing."""
DELAY_SHARE_MAX = 0.85
"""How much at most of the time that a follower of the metadata log has to spare."""
LAG_SESSIONS = 4.0
"""How long a laggard's fetches are lost: until it was made leader for being the preferred one, and deposed again."""
LAGGARD_DELAY_SESSIONS = (1.8, 3.0)
"""How late the next leader epoch is heard of: when the laggard is deposed already, and still there."""
LAGGARD_REIGN_SESSIONS = 5.0
DEPOSED_SESSIONS = 1.3
"""After how long a leader that is cut off from the controller has been deposed."""
FORMER_SHARE = 0.5
"""How often it is the former leader that hears late."""
LOOK_MS = 50


class AppointeeAmbush(Observer):
    """Pauses, stops or cuts off from the controller whom it has made a leader, as often as the climate says."""

    def __init__(self, world: World, record: Record, dice: Random) -> None:
        self._world = world
        self._record = record
        self._dice = dice
        self._image = MetadataImage()
        self._applied = Offset(0)
        self._next_key = FIRST_KEY
        self._until_ms = 0
        """The next blow waits for the end of the last one: whoever is appointed in between shall lead."""
        self._lags: dict[TopicPartition, int] = {}
        """The keys under which the fetches of preferred leaders are lost that shall soon take over."""

    def on_step(self, node: Node, step: Step) -> None:
        """Look at what the first replica that applies it says is committed."""
        core = node.core
        if core is None or not step.is_whole or core.metadata.applied_offset <= self._applied:
            return
        before, self._image, self._applied = self._image, core.metadata.image, core.metadata.applied_offset
        if before.topics is not self._image.topics:
            self._prepare(before)
            for leader_id, bystanders in self._appointed(before).items():
                self._maybe_strike(leader_id, bystanders)

    def _appointed(self, before: MetadataImage) -> dict[ReplicaId, list[ReplicaId]]:
        """Who leads a partition in the place of another who could lead on, and its replicas beside these two."""
        leaders: dict[ReplicaId, list[ReplicaId]] = {}
        for log, now in self._image.partitions():
            was = before.partition(log)
            if was is None or was is now or now.leader_id is None or was.leader_id is None:
                continue
            if now.leader_id != was.leader_id and was.leader_id in now.isr:
                two = (now.leader_id, was.leader_id)
                leaders[now.leader_id] = [replica_id for replica_id in now.replicas if replica_id not in two]
        return leaders

    def _maybe_strike(self, leader_id: ReplicaId, bystanders: list[ReplicaId]) -> None:
        cluster = self._world.climate.cluster
        is_over = self._world.now_ms >= self._until_ms
        if cluster is not None and is_over and self._dice.random() < cluster.appointee_ambush:
            self._until_ms = self._world.now_ms + int(LATE_SESSIONS[0] * cluster.broker_session_timeout_ms)
            self._strike(self._world.nodes[leader_id], bystanders)

    def _strike(self, node: Node, bystanders: list[ReplicaId]) -> None:
        """Do it, and undo it after a while; not in a world that is healed by now."""
        cluster = self._world.climate.cluster
        if cluster is None or not cluster.appointee_ambush or not node.is_up:
            return
        blow = self._dice.choice(("pause", "stop", "cut", "cut"))
        key = self._take_key()
        late = bystanders if self._dice.random() < BYSTANDERS_SHARE else list(self._world.nodes)
        detail = {"replicas": [node.replica_id], "late": late}
        self._record.nemesis(EventType.INVOKE, f"appointee-{blow}", detail)
        self._world.hear_late(key, late, self._delay_ms())
        self._after_sessions(LATE_SESSIONS, lambda: self._world.hear_in_time(key))
        match blow:
            case "pause":
                self._world.queue.after(0, lambda: node.pause(key))
                self._after_sessions(PAUSE_SESSIONS, lambda: node.resume(key))
            case "stop":
                self._world.hold_down(node.replica_id, key)
                self._world.queue.after(0, lambda: node.stop() if node.is_up else None)
                self._after_sessions(LATE_SESSIONS, lambda: self._world.release(node.replica_id, key))
            case _:
                self._cut_from_controller(node.replica_id, key)
                self._after_sessions(LATE_SESSIONS, lambda: self._world.network.heal(key))
        self._record.nemesis(EventType.INFO, f"appointee-{blow}", detail)

    # --- laggards ---------------------------------------------------------------------------------------------------

    def _prepare(self, before: MetadataImage) -> None:
        """Keep a preferred leader that has come back from fetching, and strike when it takes over with what it has."""
        cluster = self._world.climate.cluster
        if cluster is None or not cluster.laggards or not cluster.appointee_ambush:
            return
        for log, now in self._image.partitions():
            was, preferred = before.partition(log), now.replicas[0]
            if was is None or was is now or now.leader_id is None or was.leader_id in {None, preferred}:
                continue
            if now.leader_id == preferred and log in self._lags and set(now.isr) == set(now.replicas):
                self._strike_laggard(log, now.replicas, was.leader_id)
            elif now.leader_id == was.leader_id and preferred in set(now.isr) - set(was.isr):
                self._maybe_slow(log, preferred, now.leader_id)

    def _maybe_slow(self, log: TopicPartition, preferred: ReplicaId, leader_id: ReplicaId) -> None:
        """Lose its fetches, one preferred leader's at a time."""
        if self._lags or self._world.now_ms < self._until_ms:
            return
        self._lags[log] = self._cut_for(LAG_SESSIONS, (preferred, leader_id))
        self._later(LAG_SESSIONS, self._lags.clear)

    def _strike_laggard(self, log: TopicPartition, replicas: tuple[ReplicaId, ...], former: ReplicaId) -> None:
        """Have it deposed, and one of the two others hear late of its epoch: the former leader, or who followed that.

        1. If the follower is late, it fetches in the epoch before while the former leader leads again in the one after,
        and cuts its log in between. 2. If the former leader is late, the other asks it in the epoch after, while it is
        in the one before, and has yet to cut its log.
        """
        laggard = replicas[0]
        followers = [replica_id for replica_id in replicas if replica_id not in (laggard, former)]
        is_former_late = self._dice.random() < FORMER_SHARE
        late = [former] if is_former_late else followers
        delay_sessions = self._dice.uniform(*LAGGARD_DELAY_SESSIONS)
        self._until_ms = self._world.now_ms + self._sessions_ms(LAGGARD_REIGN_SESSIONS)
        detail = {"replicas": [laggard], "late": late}
        self._record.nemesis(EventType.INVOKE, "appointee-lags", detail)
        key, reign_key = self._take_key(), self._take_key()
        self._world.hear_late(key, late, self._sessions_ms(delay_sessions))
        self._later(2 * delay_sessions, lambda: self._world.hear_in_time(key))
        self._cut_off_leading(laggard, reign_key, self._applied)
        self._later(LAGGARD_REIGN_SESSIONS, lambda: self._world.network.heal(reign_key))
        if is_former_late:
            lag_key = self._lags[log]
            self._later(DEPOSED_SESSIONS, lambda: self._world.network.heal(lag_key))
            self._cut_for(delay_sessions, *((follower, laggard) for follower in followers))
        self._record.nemesis(EventType.INFO, "appointee-lags", detail)

    def _cut_off_leading(self, replica_id: ReplicaId, key: int, offset: Offset) -> None:
        """Cut a new leader off from the controller once it has heard that it is one; not in a world that is healed."""
        cluster, core = self._world.climate.cluster, self._world.nodes[replica_id].core
        if cluster is None or not cluster.appointee_ambush or core is None or self._world.now_ms > self._until_ms:
            return
        if core.metadata.applied_offset >= offset:
            self._cut_from_controller(replica_id, key)
        else:
            self._world.queue.after(LOOK_MS * US_PER_MS, lambda: self._cut_off_leading(replica_id, key, offset))

    def _cut_for(self, sessions: float, *links: Link) -> int:
        key = self._take_key()
        self._world.network.cut(key, frozenset(links))
        self._later(sessions, lambda: self._world.network.heal(key))
        return key

    def _later(self, sessions: float, action: Action) -> None:
        self._world.queue.after(self._sessions_ms(sessions) * US_PER_MS, action)

    def _take_key(self) -> int:
        key, self._next_key = self._next_key, self._next_key + 1
        return key

    def _sessions_ms(self, sessions: float) -> int:
        assert self._world.climate.cluster is not None, self._world.climate
        return int(sessions * self._world.climate.cluster.broker_session_timeout_ms)

    # --- both -----------------------------------------------------------------------------------------------------

    def _delay_ms(self) -> int:
        """Longer than it takes to appoint the next, if that is possible without giving the controller up."""
        climate = self._world.climate
        assert climate.cluster is not None, climate
        wanted_ms = climate.cluster.broker_session_timeout_ms * self._dice.uniform(*DELAY_SESSIONS)
        return int(min(wanted_ms, DELAY_SHARE_MAX * (climate.fetch_timeout_ms - climate.fetch_max_wait_ms)))

    def _after_sessions(self, sessions: tuple[float, float], action: Action) -> None:
        assert self._world.climate.cluster is not None, self._world.climate
        session_ms = self._world.climate.cluster.broker_session_timeout_ms
        self._world.queue.after(int(session_ms * self._dice.uniform(*sessions) * US_PER_MS), action)

    def _cut_from_controller(self, replica_id: ReplicaId, key: int) -> None:
        """Let it and the controller not hear each other; all else goes on."""
        controllers = [node.replica_id for node in self._world.up() if _is_controller(node)]
        links = {link for other in controllers for link in ((replica_id, other), (other, replica_id))}
        self._world.network.cut(key, frozenset(links))


def _is_controller(node: Node) -> bool:
    return node.core is not None and node.core.controller is not None and node.core.controller.is_active
