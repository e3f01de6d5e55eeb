"""Whoever creates the topics of a simulated cluster, changes settings, and deletes records where the world loses some.

Owns the asking until every topic is there. That a topic exists already is as good as having created it, since an answer
may have been lost. Records are deleted only where retention takes some as well, and while the world is hostile. Unlike
retention, which takes whole segments, a deletion lets a log begin anywhere, also inside a batch.

Source: Kafka's ``KafkaAdminClient``.
"""

from __future__ import annotations

from random import Random

from nemesis.simulator.asking import Caller
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.core.metadata.resources import ALL_BROKERS, broker_resource
from replica.errors import ErrorCode
from replica.ids import TopicPartition

RETRY_MS = 100
DELETION_PAUSE_MS = (200, 2_000)
DELETED_MAX = 10
"""How far beyond the last known log start a deletion reaches that does not go to the high watermark."""
TO_HIGH_WATERMARK = 0.3
"""The share of deletions that take all that is committed."""
DELETION_TIMEOUT_MS = 1_500
MINUTE_MS = 60_000
TAKEN_BACK = 0.3
"""The share of changes that take a setting back, whether it was set or not."""
_DECIDED = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.REQUEST_TIMED_OUT})
_DONE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
_NOT_YET = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR})
"""Somebody else is to be asked, or too few brokers are active."""


def _changeable(cluster: ClusterClimate) -> list[tuple[str, int]]:
    """What is changed while brokers run, and what they begin with: they get that at most, so that nothing is slower."""
    broker, metadata = cluster.broker_config, cluster.metadata_config
    names = [
        *("replica_fetch_wait_max_ms", "replica_fetch_backoff_ms", "replica_high_watermark_checkpoint_interval_ms"),
        *("broker_heartbeat_interval_ms", "log_retention_check_interval_ms", "controller_retry_backoff_ms"),
    ]
    of_snapshots = "metadata_log_max_record_bytes_between_snapshots"
    return [(name, getattr(broker, name)) for name in names] + [(of_snapshots, getattr(metadata, of_snapshots))]


class Administrator:
    """Creates the topics of a climate, one after the other, and then deletes records, if this world loses some."""

    def __init__(self, world: World, cluster: ClusterClimate, dice: Random) -> None:
        self._world = world
        self._cluster = cluster
        self._dice = dice
        self._caller = Caller(world, dice)
        self._teller = Caller(world, dice) if cluster.setting_changes else self._caller
        self._names = list(cluster.names)
        self.keeps_records = False
        """Whether nothing is deleted any more, nor any setting changed."""
        self._log_starts: dict[TopicPartition, int] = {}
        """Where logs begin, as far as an answer has told."""

    @property
    def is_done(self) -> bool:
        """Whether all topics are there."""
        return not self._names

    def start(self) -> None:
        """Ask for the first topic that is not there yet; repeat until all are, and go on with records if need be."""
        if self.is_done:
            if self._cluster.retention_bytes >= 0:
                self._delete_records_later()
            if self._cluster.setting_changes:
                self._change_settings_later()
            return
        request = m.CreateTopicRequest(
            name=self._names[0],
            partition_count=self._cluster.partitions,
            replication_factor=self._cluster.replication_factor,
            configs=self._cluster.topic_configs,
        )
        self._caller.ask(request, self._on_reply, self._on_silence)

    def _on_reply(self, response: m.Response | None) -> None:
        assert isinstance(response, m.CreateTopicResponse | None), response
        if response is None:
            self._caller.turn()
        elif response.error in _DONE:
            del self._names[0]
        elif response.error in _NOT_YET:
            self._caller.follow(response.current_leader)
        else:
            raise AssertionError(f"topic {self._names[0]} was refused: {response}")
        self._world.queue.after(RETRY_MS * US_PER_MS, self.start)

    def _on_silence(self) -> None:
        self._caller.turn()
        self.start()

    # --- settings ---------------------------------------------------------------------------------------------------

    def _change_settings_later(self) -> None:
        pause_ms = self._dice.randint(1, int(2 * MINUTE_MS / self._cluster.setting_changes))
        self._world.queue.after(pause_ms * US_PER_MS, self._change_setting)

    def _change_setting(self) -> None:
        """Ask once, of one broker or of all; a controller may refuse what contradicts something else."""
        if self.keeps_records:
            return
        broker_id = self._dice.choice([None, *self._world.nodes])
        name, started_with = self._dice.choice(_changeable(self._cluster))
        value = str(self._dice.randint(max(1, started_with // 4), started_with))
        request = m.AlterConfigsRequest(
            resource=ALL_BROKERS if broker_id is None else broker_resource(broker_id),
            configs={name: None if self._dice.random() < TAKEN_BACK else value},
        )

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.AlterConfigsResponse | None), response
            if response is None or response.error is ErrorCode.NOT_CONTROLLER:
                self._teller.follow(None if response is None else response.current_leader)
            self._change_settings_later()

        def on_silence() -> None:
            self._teller.turn()
            self._change_settings_later()

        self._teller.ask(request, on_reply, on_silence)

    # --- records ----------------------------------------------------------------------------------------------------

    def _delete_records_later(self) -> None:
        self._world.queue.after(self._dice.randint(*DELETION_PAUSE_MS) * US_PER_MS, self._delete_somewhere)

    def _delete_somewhere(self) -> None:
        if self.keeps_records:
            return
        log = self._dice.choice(self._cluster.topic_partitions)
        offset = self._log_starts.get(log, 0) + self._dice.randint(1, DELETED_MAX)
        if self._dice.random() < TO_HIGH_WATERMARK:
            offset = m.HIGH_WATERMARK
        self._delete(m.DeleteRecordsRequest(topic_partition=log, offset=offset, timeout_ms=DELETION_TIMEOUT_MS))

    def _delete(self, request: m.DeleteRecordsRequest) -> None:
        """Ask until a leader has decided, or nothing is to go. What comes of it is for the judges to see."""

        def again() -> None:
            if not self.keeps_records:
                self._delete(request)

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.DeleteRecordsResponse | None), response
            if response is not None and response.low_watermark is not None:
                self._log_starts[request.topic_partition] = response.low_watermark
            if response is not None and response.error in _DECIDED:
                self._delete_records_later()
                return
            self._caller.follow(None if response is None else response.current_leader)
            self._world.queue.after(RETRY_MS * US_PER_MS, again)

        def on_silence() -> None:
            self._caller.turn()
            again()

        self._caller.ask(request, on_reply, on_silence)
