"""Whoever changes settings of brokers and topics while a cluster is used and hurt.

Owns the choice of what is changed. Brokers get at most what they began with, so that nothing is slower; a topic asks
for at least as many replicas in sync as its climate says, or takes no batch for a while. At the end each topic is what
it was, or a cluster that has lost a replica could not write. What comes of it is for the judges to see.

Source: Kafka's ``AdminClient.incrementalAlterConfigs``; KIP-226.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from random import Random

from nemesis.simulator.asking import Caller
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import KEPT_BYTES
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.core.metadata.configs import TopicSetting
from replica.core.metadata.quotas import QUOTAS
from replica.core.metadata.resources import ALL_BROKERS, ConfigResource, ConfigResourceType, broker_resource
from replica.errors import ErrorCode

RETRY_MS = 100
MINUTE_MS = 60_000
TAKEN_BACK = 0.3
"""The share of changes that take a setting of brokers back, whether it was set or not."""
OF_TOPICS = 0.4
"""The share of changes that are of a topic."""
QUOTAS_SHARE = 0.1
"""The share of other changes that are of a user. What quotas do is the server's business."""
NO_BATCHES = 0.2
NO_BATCH_BYTES = 50
"""How often a topic takes no batch until its next change: less than any batch has."""
_CHANGED = (
    *("replica_fetch_wait_max_ms", "replica_fetch_backoff_ms", "replica_high_watermark_checkpoint_interval_ms"),
    *("broker_heartbeat_interval_ms", "log_retention_check_interval_ms", "controller_retry_backoff_ms"),
    *("metadata_log_max_record_bytes_between_snapshots", "leader_imbalance_check_interval_seconds"),
)
_Change = m.AlterConfigsRequest | m.AlterTopicRequest


class SettingChanger:
    """Asks for one change after the other, each once, until it is stopped."""

    def __init__(self, world: World, cluster: ClusterClimate, dice: Random) -> None:
        assert cluster.setting_changes > 0, cluster
        self._world = world
        self._cluster = cluster
        self._dice = dice
        self._caller = Caller(world, dice)
        self._changed_topics: set[str] = set()
        self._is_stopped = False
        parts = (cluster.broker_config, cluster.metadata_config, cluster.controller_config)
        self._started_with = {
            each.name: getattr(part, each.name) for part in parts for each in fields(part) if each.name in _CHANGED
        }

    def start(self) -> None:
        """Ask for a change after a pause, and then for the next."""
        pause_ms = self._dice.randint(1, int(2 * MINUTE_MS / self._cluster.setting_changes))
        self._world.queue.after(pause_ms * US_PER_MS, self._change)

    def stop(self) -> None:
        """Change nothing any more, but give each topic what it began with. A question that is out does not arrive."""
        self._is_stopped = True
        self._restore(sorted(self._changed_topics))

    def _restore(self, names: list[str]) -> None:
        if not names:
            return
        configs = {**self._cluster.topic_configs, TopicSetting.MAX_MESSAGE_BYTES: None}

        def on_end(error: ErrorCode | None) -> None:
            rest = names[1:] if error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) else names
            self._world.queue.after(RETRY_MS * US_PER_MS, lambda: self._restore(rest))

        self._ask(m.AlterTopicRequest(name=names[0], configs=configs), on_end)

    def _change(self) -> None:
        if self._is_stopped:
            return
        is_of_topic = self._dice.random() < OF_TOPICS
        self._ask(self._topic_change() if is_of_topic else self._broker_change(), self._go_on)

    def _go_on(self, error: ErrorCode | None) -> None:
        """Go on after a pause; or soon, where nobody has decided."""
        if error in (None, ErrorCode.NOT_CONTROLLER):
            self._world.queue.after(RETRY_MS * US_PER_MS, self._change)
        else:
            self.start()

    def _broker_change(self) -> m.AlterConfigsRequest:
        """Of one broker, or of all; a controller may refuse what contradicts something else. Or a user's quota."""
        if self._dice.random() < QUOTAS_SHARE:
            user = ConfigResource(resource_type=ConfigResourceType.USER, name=self._dice.choice(("", "ann")))
            rate = str(self._dice.randint(1, 1000)) if self._dice.random() >= TAKEN_BACK else None
            return m.AlterConfigsRequest(resource=user, configs={self._dice.choice(tuple(QUOTAS)): rate})
        broker_id = self._dice.choice([None, *self._world.nodes])
        name = self._dice.choice(_CHANGED)
        started_with = self._started_with[name]
        value = str(self._dice.randint(max(1, started_with // 4), started_with))
        return m.AlterConfigsRequest(
            resource=ALL_BROKERS if broker_id is None else broker_resource(broker_id),
            configs={name: None if self._dice.random() < TAKEN_BACK else value},
        )

    def _topic_change(self) -> m.AlterTopicRequest:
        """What its climate allows at all: who has been promised more must not lose it."""
        cluster, name = self._cluster, self._dice.choice(self._cluster.names)
        self._changed_topics.add(name)
        in_sync = self._dice.randint(cluster.min_insync_replicas, cluster.replication_factor)
        max_bytes = str(NO_BATCH_BYTES) if self._dice.random() < NO_BATCHES else None
        configs: dict[str, str | None] = {
            TopicSetting.MIN_INSYNC_REPLICAS: str(in_sync),
            TopicSetting.MAX_MESSAGE_BYTES: max_bytes,
        }
        if cluster.unclean_leader_election_enable:
            configs[TopicSetting.UNCLEAN_LEADER_ELECTION_ENABLE] = self._dice.choice(("true", "false"))
        if cluster.retention_bytes >= 0:
            configs[TopicSetting.RETENTION_BYTES] = str(self._dice.choice(KEPT_BYTES))
        return m.AlterTopicRequest(name=name, configs=configs)

    def _ask(self, request: _Change, then: Callable[[ErrorCode | None], None]) -> None:
        """Ask once, and tell ``then`` how that ended; None where there was no answer."""

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.AlterConfigsResponse | m.AlterTopicResponse | None), response
            error = None if response is None else response.error
            if response is None or error is ErrorCode.NOT_CONTROLLER:
                self._caller.follow(None if response is None else response.current_leader)
            then(error)

        def on_silence() -> None:
            self._caller.turn()
            then(None)

        self._caller.ask(request, on_reply, on_silence, only_in_time=isinstance(request, m.AlterTopicRequest))
