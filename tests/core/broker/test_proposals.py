"""Asking for ISRs: one request for all partitions at a time. Kafka's AlterPartitionManagerTest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.broker import proposals
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicPartition
from tests.core.broker.bench import (
    CLUSTER,
    CONFIG,
    CONTROLLER,
    BrokerBench,
    registered,
    registration,
    removed,
    topic,
    topic_partition,
)

A, B = topic_partition("topic", 0), topic_partition("topic", 1)
LED = registration(1, 2, leader=1, isr=(1,))
"""Broker 2 is a replica and not in sync."""


def a_leader() -> BrokerBench:
    """A broker that leads two partitions alone, and knows a controller that has let it in."""
    bench = BrokerBench(config=replace(CONFIG, alter_partition_retry_backoff_ms=100))
    bench.controller_id = CONTROLLER
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, LED, LED))
    return bench


def catch_up(bench: BrokerBench, *names: TopicPartition, epoch: int = 0) -> None:
    """Let broker 2 fetch these partitions at their ends."""
    parts = tuple(
        m.FetchPartition(
            topic_partition=name,
            fetch_offset=Offset(0),
            current_leader_epoch=Epoch(epoch),
            log_start_offset=Offset(0),
        )
        for name in names
    )
    request = m.FetchRequest(
        partitions=parts,
        cluster_id=CLUSTER,
        replica_id=ReplicaId(2),
        replica_directory_id=bench.metadata.image.brokers[ReplicaId(2)].directory_id,
        broker_epoch=BrokerEpoch(20),
    )
    bench.fetch(1, request)


def proposed(bench: BrokerBench) -> list[tuple[int, int]]:
    """Topic and partition of each proposal in the one request that is out."""
    ((to, request),) = bench.out(m.AlterPartitionRequest)
    assert (to, request.broker_epoch) == (CONTROLLER, 10)
    return [(part.topic_id, part.partition) for part in request.partitions]


def committed(request: m.AlterPartitionRequest) -> m.AlterPartitionResponse:
    """Answer that all of it is committed."""
    return m.AlterPartitionResponse(
        error=ErrorCode.NONE,
        partitions=tuple(
            m.AlteredPartition(
                topic_id=part.topic_id,
                partition=part.partition,
                error=ErrorCode.NONE,
                leader_id=ReplicaId(1),
                leader_epoch=part.leader_epoch,
                partition_epoch=PartitionEpoch(part.partition_epoch + 1),
                isr=tuple(member.broker_id for member in part.new_isr),
            )
            for part in request.partitions
        ),
    )


def test_what_has_no_room_in_a_request_is_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request names only so many partitions; the others are proposed once it is answered, and none is forgotten."""
    monkeypatch.setattr(proposals, "PROPOSED_AT_ONCE", 1)
    bench = a_leader()
    catch_up(bench, A, B)
    assert proposed(bench) == [(7, 0)]
    ((_, request),) = bench.out(m.AlterPartitionRequest)
    bench.answer(m.AlterPartitionRequest, committed(request))
    assert proposed(bench) == [(7, 1)]


def test_what_had_no_room_in_a_refused_request_waits_for_another_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller in this very process refuses at once: a step does not go through all partitions for that."""
    monkeypatch.setattr(proposals, "PROPOSED_AT_ONCE", 1)
    bench = a_leader()
    catch_up(bench, A, B)
    bench.answer(m.AlterPartitionRequest, m.AlterPartitionResponse(error=ErrorCode.NOT_CONTROLLER))
    assert bench.out(m.AlterPartitionRequest) == []
    bench.elapse(1)
    assert proposed(bench) == [(7, 1)]


def test_proposals_go_together() -> None:
    """What all partitions want goes in one request."""
    bench = a_leader()
    catch_up(bench, A, B)
    assert proposed(bench) == [(7, 0), (7, 1)]


def test_one_request_is_out_at_a_time() -> None:
    """What comes up while a request is out goes with the next one, once this one is answered."""
    bench = a_leader()
    catch_up(bench, A)
    catch_up(bench, B)
    assert proposed(bench) == [(7, 0)]

    ((_, request),) = bench.out(m.AlterPartitionRequest)
    bench.answer(m.AlterPartitionRequest, committed(request))

    assert bench.broker.partitions[A].in_sync_replicas == {1, 2}
    assert bench.broker.partitions[B].in_sync_replicas == {1}
    assert proposed(bench) == [(7, 1)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="send_failed"),
        pytest.param(m.AlterPartitionResponse(error=ErrorCode.NOT_CONTROLLER), id="not_controller"),
        pytest.param(m.AlterPartitionResponse(error=ErrorCode.STALE_BROKER_EPOCH), id="stale_broker_epoch"),
        pytest.param(m.AlterPartitionResponse(error=ErrorCode.NONE), id="about_nothing"),
    ],
)
def test_unknown_fate_is_no_refusal(answer: m.AlterPartitionResponse | None) -> None:
    """Whoever might have been committed counts on, and is proposed again after a pause."""
    bench = a_leader()
    catch_up(bench, A)
    first = bench.answer(m.AlterPartitionRequest, answer)
    assert bench.out(m.AlterPartitionRequest) == []
    assert bench.broker.partitions[A].maximal_isr == {1, 2}
    bench.elapse(99)
    assert bench.out(m.AlterPartitionRequest) == []
    bench.elapse(1)
    assert bench.out(m.AlterPartitionRequest) == [(CONTROLLER, first)]


def test_proposal_waits_for_a_controller() -> None:
    """While nobody is known to lead the metadata log, nothing is proposed, and nothing is forgotten."""
    bench = a_leader()
    bench.controller_id = None
    catch_up(bench, A)
    assert bench.out(m.AlterPartitionRequest) == []
    bench.controller_id = CONTROLLER
    bench.elapse(1)
    assert proposed(bench) == [(7, 0)]


def test_answer_about_the_topic_before_is_not_taken() -> None:
    """What became of a proposal for a deleted topic is nothing to the one that has its name now."""
    bench = a_leader()
    catch_up(bench, A)
    ((_, request),) = bench.out(m.AlterPartitionRequest)
    bench.decide(removed(7), *topic("topic", 8, LED))
    bench.answer(m.AlterPartitionRequest, committed(request))
    assert bench.broker.partitions[A].in_sync_replicas == {1}
