"""A simulated world on a stage: brokers may be set in every detail, and some may be puppets without a process.

Owns the cores' configuration and the way of messages to puppets. A puppet is a registered broker whose every word is
said by the scenario: it fetches what no follower would fetch, and answers as no leader would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.disk import CLUSTER_ID
from nemesis.simulator.node import Node, Step
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.world import Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import (
    BrokerConfig,
    BrokerIdentity,
    ControllerConfig,
    MetadataConfig,
    QuorumConfig,
    ReplicaConfig,
)
from replica.core.metadata.replay import METADATA_LOG
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import ReplicaId, TopicPartition
from replica.machines import AppliedLog
from replica.machines.counter import Counter
from replica.storage import LogTable

QUORUM = QuorumConfig(
    election_timeout_ms=300,
    election_backoff_max_ms=300,
    fetch_timeout_ms=600,
    request_timeout_ms=600,
    fetch_max_wait_ms=200,
)
FAST_BROKER = BrokerConfig(
    replica_lag_time_max_ms=3000,
    replica_fetch_wait_max_ms=100,
    replica_fetch_backoff_ms=100,
    replica_socket_timeout_ms=1000,
    broker_heartbeat_interval_ms=300,
)
RARE_SNAPSHOTS = MetadataConfig()
FAST_CONTROLLER = ControllerConfig(broker_session_timeout_ms=1500, auto_leader_rebalance_enable=False)


def calm(voters: int) -> Climate:
    """A climate of so many voters in which processes begin again at once."""
    return replace(CALM, voters=voters, restart_ms=(1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request that has come to a puppet, and how it is answered."""

    request: m.PeerRequest
    answer: Callable[[m.PeerResponse], None]


class StagedWorld(World):
    """``voters`` combined brokers and controllers with ids from 1; what they send to ``puppets`` waits in ``heard``.

    Each of the ``groups`` counts.
    """

    def __init__(
        self,
        *,
        voters: int,
        puppets: Iterable[int] = (),
        broker: BrokerConfig,
        controller: ControllerConfig,
        metadata: MetadataConfig = RARE_SNAPSHOTS,
        rules: Callable[[], Rules] = Rules,
        groups: Iterable[TopicPartition] = (),
    ) -> None:
        self._groups = tuple(groups)
        super().__init__(seed="bench", climate=calm(voters), logs=(METADATA_LOG, *self._groups), rules=rules)
        self.broker_config = broker
        self.controller_config = controller
        self.metadata_config = metadata
        self.heard: dict[ReplicaId, deque[Heard]] = {ReplicaId(puppet): deque() for puppet in puppets}

    def new_core(self, node: Node, opened: LogTable) -> Replica:
        """A core on what was recovered."""
        return Replica(
            config=self.config(node, opened),
            logs=opened.recovered,
            random=Random(f"core {node.replica_id}.{node.incarnation}"),
            rules=self._rules(),
            groups={name: AppliedLog(Counter(), name="counter") for name in self._groups},
        )

    def config(self, node: Node, opened: LogTable) -> ReplicaConfig:
        """What a process is told when it begins."""
        return ReplicaConfig(
            cluster_id=CLUSTER_ID,
            replica_id=node.replica_id,
            directory_id=opened.directory.directory_id,
            voters=tuple(self.nodes),
            initial_voters=opened.directory.initial_voters,
            quorum=QUORUM,
            metadata=self.metadata_config,
            identity=BrokerIdentity(
                incarnation_id=f"{node.replica_id}.{node.incarnation}",
                address=f"replica-{node.replica_id}:9092",
                rack=f"r{node.replica_id}",
                previous_broker_epoch=opened.directory.clean_broker_epoch,
            ),
            broker=self.broker_config,
            controller=self.controller_config,
            newest_level=self.newest_levels[node.replica_id],
        )

    def send(self, node: Node, effect: fx.Send) -> None:
        """Carry a request to a peer, or leave it with a puppet until that answers or the time is up."""
        heard = self.heard.get(effect.replica_id)
        if heard is None:
            super().send(node, effect)
            return
        correlation_id, replica_id, incarnation = effect.correlation_id, effect.replica_id, node.incarnation
        is_out = [True]

        def back(event: ev.ResponseReceived | ev.SendFailed) -> None:
            if is_out and node.incarnation == incarnation:
                is_out.clear()
                node.submit(event)

        def answer(response: m.PeerResponse) -> None:
            back(ev.ResponseReceived(correlation_id=correlation_id, replica_id=replica_id, response=response))

        heard.append(Heard(request=effect.request, answer=answer))
        failed = ev.SendFailed(correlation_id=correlation_id, replica_id=replica_id)
        self.queue.after(effect.timeout_ms * US_PER_MS, lambda: back(failed))


class Overhearing(Observer):
    """What the partitions of each broker were told by their leaders, in order."""

    def __init__(self) -> None:
        self.fetched: list[tuple[int, m.FetchedPartition]] = []

    def on_step(self, node: Node, step: Step) -> None:
        """Keep the answers to fetches of partitions."""
        match step.event:
            case ev.ResponseReceived(response=m.FetchResponse(partitions=partitions)):
                self.fetched += [(node.replica_id, part) for part in partitions if part.topic_partition != METADATA_LOG]
            case _:
                pass

    def told(self, broker_id: int, name: TopicPartition) -> list[m.FetchedPartition]:
        """What one follower was told of one partition."""
        return [part for told, part in self.fetched if told == broker_id and part.topic_partition == name]
