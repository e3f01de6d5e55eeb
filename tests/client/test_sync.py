"""The clients for scripts: plain calls with the results and the errors of the asyncio clients."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from replica.client import NotWrittenError, sync
from replica.client import admin as async_admin
from replica.client import consumer as async_consumer
from replica.client import producer as async_producer
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.consumer_config import ConsumerConfig
from replica.client.reading import OffsetReset
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset
from replica.records import encode_batch
from tests.client.test_sender import CONFIG, WRITTEN
from tests.client.views import BOOTSTRAP, ORDERS, described, leads, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock


def connected(*answers: Answer) -> dict[str, Any]:
    """Options of a client whose produced batches get these answers in turn."""
    waiting = list(answers)
    batch = encode_batch([b"a", b"b"], leader_epoch=5)

    def script(_: Endpoint, request: m.Request) -> Answer:
        match request:
            case m.DescribeClusterRequest():
                return described({0: led_by(1, 5)}, controller=leads(2, 3))
            case m.ListOffsetsRequest():
                return m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(0), leader_epoch=Epoch(5))
            case m.FetchRequest():
                records = batch.data if request.partitions[0].fetch_offset == 0 else b""
                part = m.FetchedPartition(
                    topic_partition=ORDERS, error=ErrorCode.NONE, high_watermark=Offset(2), records=records
                )
                return m.FetchResponse(partitions=(part,))
            case m.ProduceRequest():
                return waiting.pop(0)
        raise AssertionError(request)

    return {"connections": ScriptedConnections(script), "clock": VirtualClock()}


def test_writes_wait_until_they_are_written() -> None:
    """One record and many give what the asyncio calls give, without an event loop in sight."""
    options = connected(WRITTEN, WRITTEN)
    with sync.Producer(BOOTSTRAP, CONFIG, **options) as producer:
        assert producer.send("orders", b"a", key=b"k").offset == 4
        assert producer.send_many("orders", [b"a", b"b"]).offsets().tolist() == [4, 5]
    assert options["connections"].asked(m.ProduceRequest) == [1, 1]
    assert options["connections"].is_closed


def test_errors_are_those_of_the_calls() -> None:
    """A refusal is raised where the call was made, and the client goes on."""
    refused = m.ProduceResponse(error=ErrorCode.INVALID_RECORD, not_appended=True)
    with sync.Producer(BOOTSTRAP, CONFIG, **connected(refused, WRITTEN)) as producer:
        with pytest.raises(NotWrittenError, match="INVALID_RECORD"):
            producer.send("orders", b"a")
        with pytest.raises(TypeError, match="it must be bytes or None"):
            producer.send("orders", "text")  # that is what is refused
        assert producer.send("orders", b"a").offset == 4


def test_records_are_read_in_every_form() -> None:
    """Positions are set and records come as objects and as columns."""
    config = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST)
    with sync.Consumer(BOOTSTRAP, config, **connected()) as consumer:
        assert consumer.partitions_of("orders") == [ORDERS]
        consumer.assign([ORDERS])
        assert [record.value for record in consumer.poll()] == [b"a", b"b"]
        consumer.seek(ORDERS, 0)
        assert consumer.poll_arrow().column("value").to_pylist() == [b"a", b"b"]
        consumer.seek_to_beginning()
        assert [len(polled) for polled in consumer.poll_batches()] == [2]
        assert consumer.end_offsets([ORDERS]) == {ORDERS: 0}
        with pytest.raises(ValueError, match="is no offset"):
            consumer.seek(ORDERS, -1)


def test_the_cluster_is_described() -> None:
    """An administrator's calls are plain ones as well."""
    with sync.Admin(BOOTSTRAP, ViewConfig(), **connected()) as admin:
        assert [broker.broker_id for broker in admin.describe_cluster().brokers] == [1, 2, 3]
        assert admin.describe_topic("orders").name == "orders"


def test_what_is_closed_says_so() -> None:
    """A second close does nothing, and any other call is told what to do."""
    producer = sync.Producer(BOOTSTRAP, CONFIG, **connected())
    producer.close()
    producer.close()
    with pytest.raises(RuntimeError, match="the producer is closed; make another one"):
        producer.send("orders", b"a")


def test_a_callback_cannot_wait_for_its_own_thread() -> None:
    """A call that would wait for ever raises instead."""
    told: list[BaseException] = []
    done = threading.Event()
    producer = sync.Producer(BOOTSTRAP, CONFIG, **connected(WRITTEN))

    def on_delivery(_: object) -> None:
        try:
            producer.send("orders", b"b")
        except RuntimeError as error:
            told.append(error)
        done.set()

    with producer:
        producer.send("orders", b"a", on_delivery=on_delivery)
        assert done.wait(10)
    assert "works for all clients and cannot wait" in str(told[0])


def test_several_threads_share_a_client() -> None:
    """Each waits for its own record."""
    with sync.Producer(BOOTSTRAP, CONFIG, **connected(*[WRITTEN] * 8)) as producer, ThreadPoolExecutor(4) as threads:
        written = list(threads.map(lambda _: producer.send("orders", b"a"), range(8)))
    assert all(done.offset is not None and done.offset >= 4 for done in written)


LEFT_OUT = {"Producer": {"ready", "flush"}, "Consumer": {"assignment"}, "Admin": set[str]()}
"""What has no use where every call waits."""


@pytest.mark.parametrize(
    ("front", "client"),
    [
        (sync.Producer, async_producer.Producer),
        (sync.Consumer, async_consumer.Consumer),
        (sync.Admin, async_admin.Admin),
    ],
)
def test_no_call_is_forgotten(front: type[Any], client: type[Any]) -> None:
    """Each call of an asyncio client is there, with its arguments and what is written about it."""
    names = {name for name in vars(client) if not name.startswith("_")} - LEFT_OUT[front.__name__] - {"close"}
    assert names == {name for name in vars(front) if not name.startswith("_")}
    for name in names:
        method: Callable[..., Any] = getattr(front, name)
        assert method.__doc__ == getattr(client, name).__doc__
        assert inspect.signature(method).parameters == inspect.signature(getattr(client, name)).parameters
