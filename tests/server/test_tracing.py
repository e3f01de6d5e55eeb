"""A write as a trace: the leader's spans and its followers', one below the other, in the order of what they tell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from threading import Event as Happened

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from replica.core import messages as m
from replica.core.effects import Append, Effect, Flush
from replica.core.events import Event, Flushed, RequestReceived, ResponseReceived
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch
from replica.server.tracing import Tracing, UnknownExporterError, exporter_of
from tests.server.driver_fakes import NotingObserver
from tests.server.observer_fakes import FakePartition, FakeReplica

ONE, TWO = ReplicaId(1), ReplicaId(2)
ORDERS = TopicPartition("orders", 0)
PATIENCE_S = 30.0
BATCH = encode_batch([b"v"], base_offset=10, leader_epoch=3)
WRITE = m.ProduceRequest(topic_partition=ORDERS, acks=-1, timeout_ms=100, records=b"x")
APPENDED: tuple[Effect, ...] = (
    Append(topic_partition=ORDERS, batches=(BATCH,)),
    Flush(topic_partition=ORDERS, end_offset=Offset(11)),
)
WRITTEN = m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(10))


class Rig:
    """One replica that is traced by a clock which ticks at each look, and what was exported of it."""

    def __init__(self, replica_id: ReplicaId, *, exported: InMemorySpanExporter | None = None) -> None:
        self.partition = FakePartition(high_watermark=Offset(10))
        self.exported = exported or InMemorySpanExporter()
        self.tracing = Tracing(
            exporter=self.exported,
            cluster_id="c",
            view=FakeReplica(replica_id=replica_id, partitions={ORDERS: self.partition}),
            now_ns=count().__next__,
        )
        self.seen = NotingObserver()
        self.observer = self.tracing.observing(self.seen)

    def step(self, event: Event, *effects: Effect) -> None:
        """Let it observe a step."""
        self.observer.on_step(event, effects, 1)

    def spans(self) -> list[ReadableSpan]:
        """All that were exported, in the order of their ends."""
        self.tracing.flush()
        return list(self.exported.get_finished_spans())


def fetch_from(offset: int) -> RequestReceived:
    """What follower 2 asks for next."""
    part = m.FetchPartition(topic_partition=ORDERS, fetch_offset=Offset(offset))
    return RequestReceived(call_id=CallId(7), request=m.FetchRequest(partitions=(part,), replica_id=TWO))


async def traced_write(rig: Rig, response: m.ProduceResponse, *steps: tuple[Event, tuple[Effect, ...]]) -> None:
    """Let a write be called, and these steps happen until it is answered so."""

    async def call(request: m.Request) -> m.Response:
        rig.step(RequestReceived(call_id=CallId(1), request=request), *APPENDED)
        for event, effects in steps:
            if isinstance(event, Flushed):
                rig.observer.on_flushed(ORDERS, event.end_offset, 0.0)
                rig.partition.high_watermark = Offset(11)
            rig.step(event, *effects)
        return response

    assert await rig.tracing.calling(call)(WRITE) == response


def within(spans: Sequence[ReadableSpan], root: ReadableSpan) -> bool:
    """Whether all are children of one span, and take place meanwhile."""
    assert root.context is not None
    return all(
        span.parent is not None
        and span.parent.span_id == root.context.span_id
        and (root.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (root.end_time or 0)
        for span in spans
    )


async def test_a_write_is_followed_from_its_request_to_its_answer() -> None:
    """Append, the fetch that acknowledges it, flush, high watermark and answer are told in this order, in one span."""
    rig = Rig(ONE)
    await traced_write(
        rig,
        WRITTEN,
        (fetch_from(10), ()),
        (fetch_from(11), ()),
        (Flushed(topic_partition=ORDERS, end_offset=Offset(11)), ()),
    )
    *children, root = rig.spans()
    assert [span.name for span in children] == ["append", "follower fetch", "flush", "high watermark", "answer"]
    assert root.name == "produce"
    assert within(children, root)
    assert dict(root.attributes or {}) == {
        "highwater.topic": "orders",
        "highwater.partition": 0,
        "highwater.epoch": 3,
        "highwater.base_offset": 10,
        "highwater.end_offset": 11,
        "highwater.acks": -1,
    }
    assert dict(children[1].attributes or {}) == {"highwater.follower": 2}
    assert len(rig.seen.steps) == 4
    assert rig.seen.flushed == [11]


async def test_what_a_follower_does_is_in_the_leaders_trace() -> None:
    """Nothing of a trace goes from one to the other: both compute the same ids, and the follower's span is a child."""
    leader, follower = Rig(ONE), Rig(TWO)
    await traced_write(leader, WRITTEN)
    fetched = ResponseReceived(correlation_id=CorrelationId(1), replica_id=ONE, response=m.FetchResponse())
    follower.step(fetched, *APPENDED)
    assert follower.spans() == []
    follower.observer.on_flushed(ORDERS, Offset(11), 0.0)
    (followed,) = follower.spans()
    root = leader.spans()[-1]
    assert followed.name == "follow"
    assert followed.context is not None
    assert root.context is not None
    assert followed.context.trace_id == root.context.trace_id
    assert followed.parent is not None
    assert followed.parent.span_id == root.context.span_id
    assert followed.resource.attributes["service.instance.id"] == "2"


async def test_a_follower_that_does_not_flush_has_followed_at_once() -> None:
    """Where the system is trusted with the disk no flush comes, and the span does not wait for one."""
    follower = Rig(TWO)
    fetched = ResponseReceived(correlation_id=CorrelationId(1), replica_id=ONE, response=m.FetchResponse())
    follower.step(fetched, APPENDED[0])
    assert [span.name for span in follower.spans()] == ["follow"]


async def test_each_write_has_a_trace_of_its_own() -> None:
    """The same place in the log in another epoch, or another cluster, is another trace."""
    ids = set()
    for epoch in (3, 4):
        rig = Rig(ONE)
        batch = encode_batch([b"v"], base_offset=10, leader_epoch=epoch)
        ids |= {rig.tracing._ids_of(ORDERS, batch), rig.tracing._ids_of(TopicPartition("orders", 1), batch)}
    assert len(ids) == 4


async def test_what_appends_nothing_leaves_nothing_behind() -> None:
    """A refused write, and what is no write, have no trace; whatever a caller gives up is not kept either."""
    rig = Rig(ONE)

    async def refuse(request: m.Request) -> m.Response:
        rig.step(RequestReceived(call_id=CallId(1), request=request))
        return m.ProduceResponse(error=ErrorCode.NOT_ENOUGH_REPLICAS, not_appended=True)

    async def fail(request: m.Request) -> m.Response:
        rig.step(RequestReceived(call_id=CallId(1), request=request), *APPENDED)
        raise ConnectionError

    async def tell(_: m.Request) -> m.Response:
        return m.ListOffsetsResponse(error=ErrorCode.NONE)

    await rig.tracing.calling(refuse)(WRITE)
    await rig.tracing.calling(tell)(m.ListOffsetsRequest(topic_partition=ORDERS, latest=True))
    assert rig.spans() == []
    with pytest.raises(ConnectionError):
        await rig.tracing.calling(fail)(WRITE)
    assert [span.name for span in rig.spans()] == ["append", "answer", "produce"]
    assert (rig.tracing._arrived, rig.tracing._writes) == ({}, {})


class DeafExporter(InMemorySpanExporter):
    """One whose collector does not answer until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.is_called, self.may_go = Happened(), Happened()
        self.is_shut_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_called.set()
        self.may_go.wait()
        return super().export(spans)

    def shutdown(self) -> None:
        self.is_shut_down = True
        super().shutdown()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_replica_that_ends_does_not_wait_for_a_collector_that_is_down(answers: bool) -> None:
    """What is left is exported where somebody takes it; where nobody does, the exporter is left to itself."""
    exporter = DeafExporter()
    rig = Rig(ONE, exported=exporter)
    if answers:
        exporter.may_go.set()
    await traced_write(rig, WRITTEN)
    rig.tracing.close(at_most_s=PATIENCE_S if answers else 0.0)
    assert exporter.is_called.wait(PATIENCE_S)
    assert exporter.is_shut_down is answers
    assert bool(exporter.get_finished_spans()) is answers
    exporter.may_go.set()


def test_an_exporter_that_is_none_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(UnknownExporterError, match="'jaeger', and none of console, otlp, none"):
        exporter_of("jaeger")


def test_nothing_of_it_is_loaded_unless_it_is_asked_for() -> None:
    """A replica whose environment names no exporter imports nothing of OpenTelemetry."""
    script = "import sys, replica.server.main; print([name for name in sys.modules if 'opentelemetry' in name])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
