"""How many producers one address may be, so that one caller's ids do not keep all others out."""

from __future__ import annotations

from replica.core.messages import InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ProduceRequest
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import encode_batch
from replica.server.producer_quota import ADDRESSES_MAX, HOUR_MS, ProducerQuota

LOG = TopicPartition("t", 0)
PEER = "ipv4:10.0.0.1:5000"
OTHER = "ipv4:10.0.0.2:5000"


def batch_of(producer_id: int, sequence: int = 0) -> ProduceRequest:
    """A write of this producer; of -1, of none."""
    numbers = (-1, -1) if producer_id < 0 else (0, sequence)
    batch = encode_batch([b"v"], producer_id=producer_id, producer_epoch=numbers[0], base_sequence=numbers[1])
    return ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=batch.data)


def test_ids_that_are_written_with_are_counted_once() -> None:
    """One producer may write as often as it likes; one id more than the quota is refused, known ones write on."""
    quota = ProducerQuota(ids_max=2)
    for number in range(5):
        assert quota.admits(batch_of(7, number), PEER, number)
    assert quota.admits(batch_of(8), PEER, 5)
    assert not quota.admits(batch_of(9), PEER, 6)
    assert quota.admits(batch_of(7, 5), PEER, 7)


def test_ids_that_are_given_are_counted_each_and_once() -> None:
    """A producer counts when it is given its id, and not again when it writes; a question that got none does not."""
    quota = ProducerQuota(ids_max=2)
    nothing = InitProducerIdResponse(error=ErrorCode.NOT_CONTROLLER)
    for _ in range(9):  # Nobody was given an id: that costs nothing.
        assert quota.admits(InitProducerIdRequest(), PEER, 0)
        quota.on_answer(nothing, PEER, 0)
    for producer_id in (7, 8):
        assert quota.admits(InitProducerIdRequest(), PEER, 0)
        quota.on_answer(InitProducerIdResponse(error=ErrorCode.NONE, producer_id=producer_id), PEER, 0)
        assert quota.admits(batch_of(producer_id), PEER, 0)
    assert not quota.admits(InitProducerIdRequest(), PEER, 0)


def test_a_new_connection_is_no_new_caller() -> None:
    """An address has one quota, whatever its ports; another address has its own."""
    quota = ProducerQuota(ids_max=1)
    assert quota.admits(batch_of(7), PEER, 0)
    assert not quota.admits(batch_of(8), "ipv4:10.0.0.1:5001", 0)
    assert quota.admits(batch_of(8), OTHER, 0)


def test_an_hour_later_there_is_room_again() -> None:
    """The count begins anew with the first id after an hour."""
    quota = ProducerQuota(ids_max=1)
    assert quota.admits(batch_of(7), PEER, 0)
    assert not quota.admits(batch_of(8), PEER, HOUR_MS - 1)
    assert quota.admits(batch_of(8), PEER, HOUR_MS)
    assert not quota.admits(batch_of(9), PEER, HOUR_MS + 1)


def test_all_else_is_not_counted() -> None:
    """Writes without a producer, writes of nothing, and other questions are as many as anybody likes."""
    quota = ProducerQuota(ids_max=1)
    assert quota.admits(batch_of(7), PEER, 0)
    empty = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=b"")
    for request in (batch_of(-1), empty, ListOffsetsRequest(topic_partition=LOG, latest=True)):
        assert quota.admits(request, PEER, 0)


def test_the_count_is_bounded() -> None:
    """However many addresses come, what is remembered of them has a bound."""
    quota = ProducerQuota(ids_max=1)
    for number in range(ADDRESSES_MAX + 1):
        assert quota.admits(batch_of(7), f"ipv4:10.0.{number}:5000", 0)
    assert quota.admits(batch_of(8), "ipv4:10.0.0:5000", 0)
    assert not quota.admits(batch_of(8), "ipv4:10.0.2:5000", 0)
