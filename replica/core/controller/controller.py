"""The active controller: requests and time in, metadata records and answers out.

Owns the beginning and the end of an activity, and the table of who decides about which request. It does not write the
metadata log: whoever drives it appends the records of one decision as one batch, exactly at the offset that it named,
and gives the answer away only when they are committed.

Source: Kafka ``QuorumController``; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.controller.acls import on_create_acls, on_delete_acls, on_describe_acls
from replica.core.controller.alter_partition import on_alter_partition
from replica.core.controller.alter_reassignments import on_alter_reassignments, on_list_reassignments
from replica.core.controller.brokers import (
    end_refused_session,
    fence_silent_brokers,
    on_heartbeat,
    on_registration,
    on_unregister_broker,
)
from replica.core.controller.configs import on_alter_configs, on_describe_configs
from replica.core.controller.elections import maybe_elect_leaderless, maybe_rebalance, on_elect_leader
from replica.core.controller.features import REQUESTS_SINCE, level_fault, on_describe_features, on_update_features
from replica.core.controller.invariants import check_decision, check_offline
from replica.core.controller.producer_ids import on_init_producer_id
from replica.core.controller.state import MS_PER_SECOND, ControllerState, LevelsKnown
from replica.core.controller.topics import on_alter_topic, on_create_topic, on_delete_topic
from replica.core.dynamic_settings import Numbers
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.levels import FIRST_LEVEL
from replica.core.metadata.records import FeatureLevelRecord, MetadataRecord
from replica.core.refusals import refusal
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId

CONTROLLER_REQUESTS: Mapping[type[m.ControllerRequest], Callable[[ControllerState, Any, int], m.Response]] = {
    m.BrokerRegistrationRequest: on_registration,
    m.BrokerHeartbeatRequest: on_heartbeat,
    m.AlterPartitionRequest: on_alter_partition,
    m.CreateTopicRequest: on_create_topic,
    m.DeleteTopicRequest: on_delete_topic,
    m.AlterTopicRequest: on_alter_topic,
    m.ElectLeaderRequest: on_elect_leader,
    m.AlterPartitionReassignmentsRequest: on_alter_reassignments,
    m.ListPartitionReassignmentsRequest: on_list_reassignments,
    m.InitProducerIdRequest: on_init_producer_id,
    m.UnregisterBrokerRequest: on_unregister_broker,
    m.CreateAclsRequest: on_create_acls,
    m.DeleteAclsRequest: on_delete_acls,
    m.DescribeAclsRequest: on_describe_acls,
    m.AlterConfigsRequest: on_alter_configs,
    m.DescribeConfigsRequest: on_describe_configs,
    m.UpdateFeaturesRequest: on_update_features,
    m.DescribeFeaturesRequest: on_describe_features,
}
"""Who decides about what."""


class Decision(Struct, frozen=True, kw_only=True):
    """What becomes of a request: records for the log, perhaps none, and the answer once they are committed."""

    records: tuple[MetadataRecord, ...]
    response: m.Response


class Controller:
    """The decisions of one controller; between activities it knows nothing.

    A cluster of which nothing is decided yet begins at ``initial_level``. ``levels_known`` is as in the state.
    """

    def __init__(
        self,
        *,
        cluster_id: str,
        config: ControllerConfig,
        rules: Rules,
        numbers: Numbers = MappingProxyType({}),
        initial_level: int = FIRST_LEVEL,
        levels_known: LevelsKnown = dict.fromkeys,
    ) -> None:
        self._cluster_id = cluster_id
        self._numbers = numbers
        self._initial_level = initial_level
        self._levels_known = levels_known
        self._config = config
        self._rules = rules
        self._state: ControllerState | None = None

    # --- being active -----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether it decides."""
        return self._state is not None

    @property
    def image(self) -> MetadataImage:
        """The committed image with all that was decided since; the empty one while it is not active."""
        return MetadataImage() if self._state is None else self._state.image

    @property
    def config(self) -> ControllerConfig:
        """What it goes by: what it was started with, and while it is active what the metadata says over it."""
        return self._config if self._state is None else self._state.config

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Begin to decide upon the committed ``image``.

        No broker has been heard from yet: each that is not fenced gets a whole session to make itself heard.
        """
        assert self._state is None, "it is active already"
        c = ControllerState(cluster_id=self._cluster_id, config=self._config, numbers=self._numbers, rules=self._rules)
        c.image = image
        c.follow_settings(now_ms)
        c.levels_known = self._levels_known
        c.begins_at_level = self._initial_level if image == MetadataImage() else FIRST_LEVEL
        for broker in image.brokers.values():
            if not broker.fenced:
                c.refresh_session(broker.broker_id, now_ms)
        c.unclean_election_at_ms = now_ms + c.config.unclean_leader_election_interval_ms
        c.rebalance_at_ms = now_ms + c.config.leader_imbalance_check_interval_seconds * MS_PER_SECOND
        self._state = c

    def deactivate(self) -> None:
        """Forget everything: what was decided and is not committed did not happen."""
        self._state = None

    def take_back(self, image: MetadataImage) -> None:
        """Undo the last decision, which cannot be written: ``image`` is that of before."""
        c = self._active()
        c.image = image
        c.session_deadlines_ms = {
            broker_id: at_ms for broker_id, at_ms in c.session_deadlines_ms.items() if broker_id in image.brokers
        }

    # --- deciding ---------------------------------------------------------------------------------------------------

    def handle(self, request: m.ControllerRequest, now_ms: int, next_offset: Offset) -> Decision:
        """Decide about a request. The first record will get ``next_offset`` in the metadata log."""
        c = self._active()
        if request.cluster_id is not None and request.cluster_id != c.cluster_id:
            return Decision(records=(), response=refusal(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        fault = level_fault(c, REQUESTS_SINCE.get(type(request), FIRST_LEVEL))
        if fault is not None:
            return Decision(records=(), response=refusal(request, ErrorCode.UNSUPPORTED_VERSION, message=fault))
        before = c.image
        c.begin_decision(next_offset)
        response = CONTROLLER_REQUESTS[type(request)](c, request, now_ms)
        return Decision(records=_finished(c, before), response=response)

    def tick(self, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Decide what is due by time alone: fence silent brokers, look for leaders, give leaderships back.

        One of the three at a time: each may concern every partition, and a decision is one batch. The first of a new
        cluster is its feature level.
        """
        c = self._active()
        if c.begins_at_level > FIRST_LEVEL:
            c.append(FeatureLevelRecord(level=c.begins_at_level))
            c.begins_at_level = FIRST_LEVEL
            return c.end_decision()
        if now_ms < _deadline_ms(c):
            return ()
        before = c.image
        fence_silent_brokers(c, now_ms)
        for maybe_decide in (maybe_elect_leaderless, maybe_rebalance):
            if not c.has_decided:
                maybe_decide(c, now_ms)
        return _finished(c, before)

    def on_peer_refused(self, broker_id: ReplicaId, refused_at_ms: int, now_ms: int) -> None:
        """Take it that the process of a broker has ended: ``tick`` is due if that is news of it."""
        end_refused_session(self._active(), broker_id, refused_at_ms, now_ms)

    @property
    def session_deadlines_ms(self) -> Mapping[ReplicaId, int]:
        """Until when each broker counts as alive that does; of their end it wants to hear at once."""
        return {} if self._state is None else dict(self._state.session_deadlines_ms)

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` has something to do; absent while it is not active."""
        return None if self._state is None else _deadline_ms(self._state)

    def _active(self) -> ControllerState:
        assert self._state is not None, "asked to decide while it is not active"
        return self._state


def _finished(c: ControllerState, before: MetadataImage) -> tuple[MetadataRecord, ...]:
    if __debug__:
        check_decision(before, c.image, elr_enable=c.config.elr_enable)
        check_offline(before, c.image, c.offline)
    return c.end_decision()


def _deadline_ms(c: ControllerState) -> int:
    due_ms = [c.unclean_election_at_ms, *c.session_deadlines_ms.values()]
    return min([*due_ms, c.rebalance_at_ms] if c.config.auto_leader_rebalance_enable else due_ms)
