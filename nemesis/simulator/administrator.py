"""Whoever creates the topics of a simulated cluster, and deletes records where the world loses some.

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
from replica.errors import ErrorCode
from replica.ids import TopicPartition

RETRY_MS = 100
DELETION_PAUSE_MS = (200, 2_000)
DELETED_MAX = 10
"""How far beyond the last known log start a deletion reaches that does not go to the high watermark."""
TO_HIGH_WATERMARK = 0.3
"""The share of deletions that take all that is committed."""
DELETION_TIMEOUT_MS = 1_500
_DECIDED = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.REQUEST_TIMED_OUT})
_DONE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
_NOT_YET = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR})
"""Somebody else is to be asked, or too few brokers are active."""


class Administrator:
    """Creates the topics of a climate, one after the other, and then deletes records, if this world loses some."""

    def __init__(self, world: World, cluster: ClusterClimate, dice: Random) -> None:
        self._world = world
        self._cluster = cluster
        self._dice = dice
        self._caller = Caller(world, dice)
        self._names = list(cluster.names)
        self.keeps_records = False
        """Whether nothing is deleted any more."""
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
