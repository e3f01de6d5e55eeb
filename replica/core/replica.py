"""A replica: a table of named logs behind one way in and one way out.

Owns the routing of events to logs, and nothing that only one log knows. The driver hands in events and performs
effects; it is the only thing that touches clocks, disks and networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from replica.core.config import ReplicaConfig
from replica.core.effects import Effect, Halt, Reply, Send
from replica.core.events import (
    Event,
    Flushed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SendFailed,
    Started,
    StorageFailed,
    Ticked,
)
from replica.core.quorum import QuorumLog
from replica.core.recovered import RecoveredLog
from replica.core.refusals import refusal
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import CorrelationId, TopicPartition


class Replica:
    """One replica process as a value-in, value-out machine over all its logs. Not reentrant.

    ``random`` is used for election jitter only. ``rules`` are the protocol's decisions; nothing but a test of the tests
    passes other than the default.
    """

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        logs: Mapping[TopicPartition, RecoveredLog],
        random: Random,
        rules: Rules | None = None,
    ) -> None:
        self.config = config
        self._last_correlation_id = CorrelationId(0)
        self._asked_by: dict[CorrelationId, QuorumLog] = {}
        self._logs = {
            topic_partition: QuorumLog(
                topic_partition=topic_partition,
                config=config,
                recovered=recovered,
                rules=rules or Rules(),
                random=random,
                next_correlation_id=self._next_correlation_id,
            )
            for topic_partition, recovered in logs.items()
        }

    @property
    def logs(self) -> Mapping[TopicPartition, QuorumLog]:
        """The logs that this replica hosts, to look at between steps."""
        return self._logs

    @property
    def halted(self) -> str | None:
        """Why this replica has stopped for good; absent while it runs."""
        return next((log.halted for log in self._logs.values() if log.halted is not None), None)

    @property
    def deadline_ms(self) -> int | None:
        """When ``step(Ticked())`` is wanted at the latest; absent while only an event can change anything."""
        deadlines = [log.deadline_ms for log in self._logs.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event at ``now_ms`` (monotonic milliseconds) and return what the driver must do, in order."""
        if self.halted is not None:
            return ()
        match event:
            case RequestReceived(call_id=call_id, request=request) if request.topic_partition not in self._logs:
                unknown = refusal(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return (Reply(call_id=call_id, response=unknown),)
            case RequestReceived(request=request):
                return self._step_log(self._logs[request.topic_partition], event, now_ms)
            case ResponseReceived(correlation_id=correlation_id) | SendFailed(correlation_id=correlation_id):
                log = self._asked_by.pop(correlation_id, None)
                return () if log is None else self._step_log(log, event, now_ms)
            case Flushed(topic_partition=topic_partition):
                return self._step_log(self._logs[topic_partition], event, now_ms)
            case Started() | Ticked() | ResignRequested() | StorageFailed():
                return self._step_every_log(event, now_ms)

    def _step_every_log(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        effects: list[Effect] = []
        for log in self._logs.values():
            effects += self._step_log(log, event, now_ms)
            if effects and isinstance(effects[-1], Halt):
                break
        return tuple(effects)

    def _step_log(self, log: QuorumLog, event: Event, now_ms: int) -> tuple[Effect, ...]:
        effects = log.step(event, now_ms)
        for effect in effects:
            if isinstance(effect, Send):
                self._asked_by[effect.correlation_id] = log
        return effects

    def _next_correlation_id(self) -> CorrelationId:
        self._last_correlation_id = CorrelationId(self._last_correlation_id + 1)
        return self._last_correlation_id
