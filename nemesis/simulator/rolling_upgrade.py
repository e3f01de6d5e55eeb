"""Whoever brings a cluster of two releases to the newer one, and has its feature level raised: under faults.

Owns which machines begin with the older release, the order of their restarts, and the asking. Somebody asks for the
higher level all the while, and must be refused as long as anybody does not know it. One thing he waits for: that every
broker has registered. One that came later, of the older release, would stop at the first record of the new level, as it
should. Nobody goes back to the older release.

Source: KIP-584, KIP-778; Kafka's ``kafka-features.sh``.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nemesis.history import EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.core.metadata.levels import FIRST_LEVEL, NEWEST_LEVEL
from replica.errors import ErrorCode
from replica.ids import ReplicaId

MINUTE_MS = 60_000
OLDER_SHARE = 0.7
"""How many machines begin with the older release."""
AWAY_MS = (0, 3_000)
"""How long a machine is down when it is upgraded."""
ASK_MS = (100, 3_000)
LOWERED = 0.1
"""The share of questions for the first level, which is in force or to be refused."""
_KEY = -3
"""Under which machines are held down."""


class RollingUpgrade:
    """Upgrades one machine after the other, and all that are left once it is told to finish."""

    def __init__(self, world: World, cluster: ClusterClimate, record: Record, dice: Random) -> None:
        assert cluster.upgrades > 0, cluster
        self._world = world
        self._pause_ms = int(MINUTE_MS / cluster.upgrades)
        self._record = record
        self._dice = dice
        self._caller = Caller(world, dice)
        self._older = [replica_id for replica_id in world.nodes if dice.random() < OLDER_SHARE]
        world.newest_levels.update(dict.fromkeys(self._older, FIRST_LEVEL))
        self._are_registered = False
        self._is_finishing = False
        self.is_done = False
        """Whether all run the newer release, and the level was raised after that."""

    def start(self) -> None:
        """Begin to upgrade, and to ask."""
        self._upgrade_later()
        self._ask_later()

    def finish(self) -> None:
        """Upgrade all at once; what is asked from now on is for the newest level."""
        self._is_finishing = True
        for replica_id in [*self._older]:
            self._upgrade(replica_id, away_ms=0)

    # --- machines ---------------------------------------------------------------------------------------------------

    def _upgrade_later(self) -> None:
        self._world.queue.after(self._dice.randint(1, 2 * self._pause_ms) * US_PER_MS, self._upgrade_next)

    def _upgrade_next(self) -> None:
        if not self._is_finishing and self._older:
            self._upgrade(self._dice.choice(self._older), away_ms=self._dice.randint(*AWAY_MS))
            self._upgrade_later()

    def _upgrade(self, replica_id: ReplicaId, away_ms: int) -> None:
        """End the process of a machine; the next one is of the newer release."""
        self._older.remove(replica_id)
        self._record.nemesis(EventType.INFO, "upgrade", {"replicas": [replica_id]})
        self._world.hold_down(replica_id, _KEY)
        self._world.nodes[replica_id].kill("upgraded")
        self._world.newest_levels[replica_id] = NEWEST_LEVEL
        self._world.queue.after(away_ms * US_PER_MS, lambda: self._world.release(replica_id, _KEY))

    # --- the level --------------------------------------------------------------------------------------------------

    def _ask_later(self) -> None:
        if not self.is_done:
            self._world.queue.after(self._dice.randint(*ASK_MS) * US_PER_MS, self._ask)

    def _ask(self) -> None:
        """Ask who is known, until all are, and then for the level."""
        if not self._are_registered:
            self._ask_once(m.DescribeFeaturesRequest(), self._on_described)
            return
        level = NEWEST_LEVEL
        if not self._is_finishing and self._dice.random() < LOWERED:
            level = FIRST_LEVEL
        is_last = self._is_finishing

        def on_end(response: m.Response | None) -> None:
            assert isinstance(response, m.UpdateFeaturesResponse | None), response
            is_refused = response is not None and response.error is ErrorCode.INVALID_UPDATE_VERSION
            self._record.rare[Rare.LEVEL_REFUSED] += is_refused
            self.is_done = is_last and response is not None and response.error is ErrorCode.NONE

        self._ask_once(m.UpdateFeaturesRequest(feature_level=level), on_end)

    def _on_described(self, response: m.Response | None) -> None:
        assert isinstance(response, m.DescribeFeaturesResponse | None), response
        known = () if response is None else response.replicas
        self._are_registered = {each.replica_id for each in known} >= set(self._world.nodes)

    def _ask_once(
        self,
        request: m.DescribeFeaturesRequest | m.UpdateFeaturesRequest,
        then: Callable[[m.Response | None], None],
    ) -> None:
        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.DescribeFeaturesResponse | m.UpdateFeaturesResponse | None), response
            if response is None or response.error is ErrorCode.NOT_CONTROLLER:
                self._caller.follow(None if response is None else response.current_leader)
            then(response)
            self._ask_later()

        def on_silence() -> None:
            self._caller.turn()
            then(None)
            self._ask_later()

        self._caller.ask(request, on_reply, on_silence)
