"""What one decision may weigh: what cannot be replicated is refused, and what time alone brings always can be."""

from __future__ import annotations

import pytest

from replica.bounds import (
    ADDRESS_BYTES_MAX,
    BATCH_BYTES_MAX,
    BROKERS_MAX,
    DIRECTORY_ID_BYTES_MAX,
    INT32_MAX,
    INT64_MAX,
    PARTITIONS_MAX,
    REPLICAS_MAX,
    TEXT_BYTES_MAX,
)
from replica.core import messages as m
from replica.core.config import InvalidConfigError, QuorumConfig
from replica.core.controller import brokers
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    RegisterBrokerRecord,
)
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId
from tests.core.controller.bench import Bench
from tests.core.controller.test_quorum_controller import CLUSTER, an_active_controller

LARGEST_ID = ReplicaId(INT32_MAX)
LARGEST_EPOCH = BrokerEpoch(INT64_MAX)


def register(broker_id: int, rack: str) -> m.BrokerRegistrationRequest:
    return m.BrokerRegistrationRequest(
        broker_id=ReplicaId(broker_id),
        cluster_id=CLUSTER,
        incarnation_id="i",
        directory_id="d",
        flushes=True,
        metadata_end_offset=Offset(0),
        address="h:1",
        rack=rack,
    )


@pytest.mark.parametrize("rack_mib", [24, 40])
def test_a_decision_that_no_follower_could_fetch_is_refused(rack_mib: int) -> None:
    """The controller says so, leads on, has written nothing and knows nothing of it; the next decision is made."""
    stage = an_active_controller()
    end = stage.end
    call_id = stage.call(register(7, "\x01" * (rack_mib << 20)))
    assert stage.error(call_id) is ErrorCode.MESSAGE_TOO_LARGE
    assert (stage.end, stage.core.halted, stage.is_active) == (end, None, True)
    assert stage.core.controller is not None
    assert not stage.core.controller.controller.image.brokers
    next_call_id = stage.register(8)
    stage.commit()
    assert stage.error(next_call_id) is ErrorCode.NONE
    assert list(stage.core.metadata.image.brokers) == [8]


def test_who_was_refused_has_no_session() -> None:
    """When its time would be up, nobody is looked for who is not registered."""
    stage = an_active_controller()
    stage.call(register(7, "\x01" * BATCH_BYTES_MAX))
    assert stage.core.controller is not None
    state = stage.core.controller.controller._state
    assert state is not None
    assert not state.session_deadlines_ms


def test_a_leader_proposes_nothing_that_cannot_be_replicated() -> None:
    """Whoever writes into the log by itself is told before anything is appended; a client's write is bounded before."""
    stage = an_active_controller()
    log = next(iter(stage.core.logs.values()))
    batch = metadata_batch([largest_registration(rack="r" * BATCH_BYTES_MAX)], Offset(0), Epoch(0))
    with pytest.raises(ValueError, match=f"at most {BATCH_BYTES_MAX} are replicated"):
        log.propose(batch, stage.now_ms)
    assert isinstance(log.role, Leader)
    with pytest.raises(InvalidConfigError, match="nothing is replicated"):
        QuorumConfig(message_max_bytes=BATCH_BYTES_MAX + 1)


def largest_registration(rack: str = "\x01" * TEXT_BYTES_MAX) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=LARGEST_ID,
        broker_epoch=LARGEST_EPOCH,
        incarnation_id="\x01" * TEXT_BYTES_MAX,
        directory_id="\x01" * DIRECTORY_ID_BYTES_MAX,
        flushes=False,
        address="\x01" * ADDRESS_BYTES_MAX,
        rack=rack,
    )


def largest_partition() -> PartitionRecord:
    """All replicas are among those that move, and in the ISR."""
    moving = (LARGEST_ID,) * (2 * REPLICAS_MAX)
    return PartitionRecord(
        topic_id=TopicId(INT64_MAX),
        partition=INT32_MAX,
        registration=PartitionRegistration(
            replicas=moving,
            isr=moving,
            elr=(),
            last_known_leader=LARGEST_ID,
            leader_id=LARGEST_ID,
            leader_epoch=Epoch(INT32_MAX),
            partition_epoch=PartitionEpoch(INT32_MAX),
            adding_replicas=moving[:REPLICAS_MAX],
            removing_replicas=moving[REPLICAS_MAX:],
        ),
    )


def test_a_change_of_every_partition_can_be_replicated() -> None:
    """As large as bounds allow, a record of each partition and of each broker make one batch that followers can fetch.

    So large is what follows when a broker registers, leaves or falls silent, when leaders are looked for, and when
    leaderships go back.
    """
    change = BrokerRegistrationChangeRecord(
        broker_id=LARGEST_ID, broker_epoch=LARGEST_EPOCH, fenced=False, in_controlled_shutdown=False
    )
    records: list[MetadataRecord] = [
        largest_registration(),
        *[change] * BROKERS_MAX,
        *[largest_partition()] * PARTITIONS_MAX,
    ]
    assert metadata_batch(records, Offset(0), Epoch(0)).size_bytes <= BATCH_BYTES_MAX


def test_brokers_for_whom_a_decision_is_too_small_are_fenced_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broker that falls silent is a change of all its partitions; one at least is taken, the others come next."""
    monkeypatch.setattr(brokers, "PARTITIONS_MAX", 5)
    bench = Bench()
    bench.start(1, 2, 3, 4)
    bench.create((1, 2, 3), (1, 2, 3), (1, 2, 3))
    bench.now_ms += bench.config.broker_session_timeout_ms // 2
    bench.heartbeat(4)
    bench.now_ms += bench.config.broker_session_timeout_ms // 2
    for fenced in ([1], [1, 2], [1, 2, 3]):
        assert bench.controller.deadline_ms is not None
        assert bench.controller.deadline_ms <= bench.now_ms
        bench.tick()
        assert [n for n in (1, 2, 3, 4) if bench.broker(n).fenced] == fenced
    bench.tick()
    assert bench.records == ()
