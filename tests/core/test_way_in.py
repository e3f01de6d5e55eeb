"""The tables that say who takes what: nothing that can come in is missing, and nothing else is in them."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import BrokerIdentity, ReplicaConfig
from replica.core.controller.controller import CONTROLLER_REQUESTS
from replica.core.events import Event, RequestReceived
from replica.core.group.group import GROUP_REQUESTS
from replica.core.log.recovered import RecoveredLog
from replica.core.metadata.replay import METADATA_LOG
from replica.core.partition.partition import PARTITION_REQUESTS
from replica.core.quorum.quorum_log import QUORUM_REQUESTS
from replica.core.replica import ON_EVENT, ON_REQUEST, Replica
from replica.ids import Offset, ReplicaId, TopicPartition
from tests.core.harness import CLUSTER, disk_id, voters_of

GONE = TopicPartition("gone", 0)
EMPTY = RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=())


def test_everything_that_comes_in_is_taken_by_somebody() -> None:
    """A replica knows who takes each request that there is, and each other event."""
    assert set(ON_REQUEST) == set(get_args(m.Request))
    assert {*ON_EVENT, RequestReceived} == set(get_args(Event))


def test_each_part_takes_its_own_requests() -> None:
    """A group and the controller answer all requests that are theirs, a quorum log all that are about a log."""
    assert set(GROUP_REQUESTS) == set(get_args(m.GroupRequest))
    assert set(CONTROLLER_REQUESTS) == set(get_args(m.ControllerRequest))
    assert set(QUORUM_REQUESTS) == {m.FetchRequest, *get_args(m.LogRequest)}
    assert set(PARTITION_REQUESTS) < set(get_args(m.LogRequest))


@pytest.mark.parametrize(
    "late",
    [
        ev.Flushed(topic_partition=GONE, end_offset=Offset(1)),
        ev.BatchFound(topic_partition=GONE, offset=Offset(1), base_offset=Offset(0)),
        ev.ProducersScanned(topic_partition=GONE, producers=()),
        ev.LogStartMoved(topic_partition=GONE, log_start_offset=Offset(1)),
    ],
    ids=lambda late: type(late).__name__,
)
def test_late_word_of_a_log_that_is_gone_is_ignored(late: ev.Event) -> None:
    """Whatever storage has to say of a partition that was dropped meanwhile changes nothing."""
    config = ReplicaConfig(
        cluster_id=CLUSTER,
        replica_id=ReplicaId(0),
        directory_id=disk_id(0),
        voters=(ReplicaId(0), ReplicaId(1)),
        initial_voters=voters_of(0, 1),
        identity=BrokerIdentity(incarnation_id="first", address="broker-0:9092"),
    )
    replica = Replica(config=config, logs={METADATA_LOG: EMPTY}, random=Random(0))
    replica.step(ev.Started(), 0)
    assert replica.step(late, 0) == ()
