"""Stories in which the replicas of a partition are in three leader epochs at once, for news reach them late.

Owns the stage: which broker hears of which decision, and when. Only the metadata log is held up there. Heartbeats and
fetches of partitions go on, so that the broker lives, unfenced, in a leader epoch that is over (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.node import Node
from nemesis.simulator.queue import Action
from replica.core import messages as m
from replica.core.config import BrokerConfig, ControllerConfig, MetadataConfig, ReplicaConfig
from replica.core.metadata.replay import METADATA_LOG
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.storage import LogTable
from tests.replication.bench import Cluster
from tests.replication.stage import StagedWorld

PATIENCE_MS = 15_000
"""How long a follower of the metadata log waits for an answer: longer than any story holds one up."""
SETTLE_MS = 500
"""Enough for what follows from a decision; a replica that lags may be in the ISR for much longer."""
EVERYTHING = Offset(-1)
"""Every metadata log ends beyond this."""


class LateNewsWorld(StagedWorld):
    """A broker may be kept from hearing that the next decision is committed; that there is one reaches its log."""

    def __init__(
        self,
        *,
        voters: int,
        puppets: Iterable[int],
        broker: BrokerConfig,
        controller: ControllerConfig,
        metadata: MetadataConfig,
        rules: Callable[[], Rules] = Rules,
    ) -> None:
        super().__init__(
            voters=voters, puppets=puppets, broker=broker, controller=controller, metadata=metadata, rules=rules
        )
        self.climate = replace(self.climate, cluster=ClusterClimate())  # Else nothing that comes is told from the rest.
        self._held_beyond: dict[ReplicaId, Offset] = {}
        """Whose answers are held up, once its metadata log ends beyond this."""
        self._held: dict[ReplicaId, list[Action]] = {}

    def config(self, node: Node, opened: LogTable) -> ReplicaConfig:
        """Nobody gives the controller up because it is silent."""
        config = super().config(node, opened)
        quorum = replace(config.quorum, fetch_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
        return replace(config, quorum=quorum)

    def hold_news(self, replica_id: ReplicaId, *, together: bool = False) -> None:
        """Let a broker not hear what is decided from now on; if it is to hear it ``together``, not even its records."""
        self._held_beyond[replica_id] = EVERYTHING if together else self._metadata_end(replica_id)

    def tell_next(self, replica_id: ReplicaId) -> None:
        """Let it hear the first decision that is held up, and none after that."""
        assert self._held.get(replica_id), f"{replica_id} has no news to hear"
        self._held_beyond[replica_id] = EVERYTHING
        self._pass_on(replica_id)

    def tell_all(self, replica_id: ReplicaId) -> None:
        """Let it hear what is decided, as everybody does."""
        del self._held_beyond[replica_id]
        self._pass_on(replica_id)

    def _hear(self, replica_id: ReplicaId, action: Action) -> None:
        """See ``World``. What tells that a decision is committed is the answer after the one with its records."""
        beyond = self._held_beyond.get(replica_id)
        if beyond is not None and self._metadata_end(replica_id) > beyond:
            self._held.setdefault(replica_id, []).append(action)
        else:
            action()

    def _pass_on(self, replica_id: ReplicaId) -> None:
        for action in self._held.pop(replica_id, []):
            action()

    def _metadata_end(self, replica_id: ReplicaId) -> Offset:
        core = self.nodes[replica_id].core
        assert core is not None, replica_id
        return core.logs[METADATA_LOG].log.log_end_offset


class LateNews(Cluster):
    """A topic whose ``former`` leader has a record that the ``follower`` has too, and the ``preferred`` leader lacks.

    It is epoch 1, all three are in sync, and the controller is none of them. Of the seven voters four always fetch the
    metadata log, so that decisions are committed whoever is kept from hearing of them.
    """

    world: LateNewsWorld

    def __init__(self, rules: Callable[[], Rules]) -> None:
        super().__init__(7, rules=rules, stage=LateNewsWorld)
        others = [broker_id for broker_id in self.world.nodes if broker_id != self.controller_id]
        self.preferred, self.former, self.follower = self.replicas = others[0], others[1], others[2]
        self.topic = self.create("topic", self.replicas)
        self.produce(self.topic, b"a")
        self.wait_for_same_logs(self.topic, *self.replicas)
        self.bounce(self.preferred)
        self.wait_for_isr(self.topic, *self.replicas)
        self.wait_for_same_logs(self.topic, *self.replicas)
        self.cut_link(self.preferred, self.former)
        self.pass_ms(SETTLE_MS)  # Its last fetch, which waits there, is answered with nothing.
        self.append(b"b", to=self.former)
        self.pass_ms(SETTLE_MS)
        assert self.ends == (1, 2, 2)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where the three logs end."""
        return tuple(self.replica(broker_id, self.topic).log.log_end_offset for broker_id in self.replicas)

    @property
    def epochs(self) -> tuple[int, ...]:
        """In which leader epochs the three are."""
        return tuple(self.replica(broker_id, self.topic).leader_epoch for broker_id in self.replicas)

    def append(self, value: bytes, *, to: int) -> None:
        """Append a record of which nobody is told that it is committed."""
        assert self.send(self.topic, value, acks=1, to=to).error is ErrorCode.NONE

    def cut_link(self, source: ReplicaId, target: ReplicaId) -> None:
        """Lose what one sends to the other: what it asks, and what it answers."""
        self.world.network.cut(_key(source, target), frozenset({(source, target)}))

    def elect_preferred(self) -> None:
        """Hand over to the preferred leader, although its log is shorter; it hears of it."""
        request = m.ElectLeaderRequest(topic_partition=self.topic, election_type=m.ElectionType.PREFERRED)
        assert self.ask(self.controller_id, request, m.ElectLeaderResponse).error is ErrorCode.NONE
        self.wait(lambda: self.replica(self.preferred, self.topic).is_leader, "the preferred leader leads")
        self.pass_ms(SETTLE_MS)

    def depose_preferred(self) -> None:
        """Cut the preferred leader off from the controller, which appoints the former one again; it leads on."""
        controller_id = ReplicaId(self.controller_id)
        self.cut_link(self.preferred, controller_id)
        self.cut_link(controller_id, self.preferred)
        self.wait(lambda: self.registration(self.topic).leader_id == self.former, "the former leader is elected")
        self.pass_ms(SETTLE_MS)
        assert self.replica(self.preferred, self.topic).is_leader

    def end(self) -> None:
        """Let everybody hear everything, and all three agree."""
        self.world.network.heal_all()
        self.wait_for_isr(self.topic, *self.replicas)
        self.wait_for_same_logs(self.topic, *self.replicas)


def _key(source: ReplicaId, target: ReplicaId) -> int:
    return 10 * source + target


def a_follower_two_epochs_behind(rules: Callable[[], Rules]) -> None:
    """Its fetches do not count: it has yet to follow, and to cut its log, in an epoch of which it has not heard.

    1. The follower has not heard of epoch 2, which the preferred leader leads with the shorter log. 2. The former
    leader leads again, in epoch 3, and the follower's fetch of epoch 1 comes to it: if that counts, all of the ISR has
    the record. 3. The follower hears of epoch 2 and cuts the record off by the word of that leader.
    """
    cluster = LateNews(rules)
    cluster.world.hold_news(cluster.follower)
    cluster.elect_preferred()
    cluster.depose_preferred()
    assert cluster.epochs == (2, 3, 1)

    cluster.world.tell_next(cluster.follower)
    cluster.pass_ms(SETTLE_MS)
    assert (cluster.epochs, cluster.ends) == ((2, 3, 2), (1, 2, 1))

    cluster.world.tell_all(cluster.follower)
    cluster.end()


def a_follower_that_missed_an_epoch(rules: Callable[[], Rules]) -> None:
    """Its leader is the one that it had, and yet it begins anew: in the epoch before it was turned away.

    1. The follower has not heard of epoch 2, which the preferred leader leads. 2. The former leader leads again, in
    epoch 3, and refuses the follower's fetch of epoch 1: what helps is new metadata only. 3. The follower hears of both
    epochs at once.
    """
    cluster = LateNews(rules)
    cluster.world.hold_news(cluster.follower, together=True)
    cluster.elect_preferred()
    cluster.depose_preferred()
    assert cluster.epochs == (2, 3, 1)

    cluster.world.tell_all(cluster.follower)
    cluster.end()
