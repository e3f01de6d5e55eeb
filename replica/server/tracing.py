"""One write as a trace of OpenTelemetry: appended and flushed, fetched by followers, committed, answered.

Owns which spans there are. It looks on from where the log lines and metrics come from, and knows of nothing that a step
would not do without it. Nothing of a trace travels with records: leader and followers compute its ids from what they
both know of a batch (cluster, log, epoch, base offset), so that their spans meet wherever they are exported to, and a
sampler that goes by the trace's id chooses the same ones everywhere.

Of the writes of one step those are followed that append something; what begins and ends meanwhile is in the log lines.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from threading import Thread

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from replica.core.effects import Append, Effect, Flush
from replica.core.events import Event, RequestReceived, ResponseReceived
from replica.core.messages import FetchRequest, FetchResponse, ProduceRequest, Request, Response
from replica.ids import Offset, TopicPartition
from replica.records import RecordBatch
from replica.server.ports import StepObserver
from replica.server.view import ReplicaView

Call = Callable[[Request], Awaitable[Response]]

WRITES_MAX = 10_000
"""How many writes are followed at once; further ones are not."""
EXPORT_AT_STOP_S_MAX = 2.0
"""How long a replica that ends waits for what it has not exported yet; the exporter would try for half a minute."""
EXPORTERS = ("console", "otlp")


class UnknownExporterError(ValueError):
    """An exporter that is none of ``EXPORTERS``, or is not installed; the message says what to do."""


def exporter_of(name: str) -> SpanExporter:
    """Make the exporter that ``OTEL_TRACES_EXPORTER`` names; it reads where to export to from its own variables."""
    if name == "console":
        return ConsoleSpanExporter()
    if name != "otlp":
        raise UnknownExporterError(f"OTEL_TRACES_EXPORTER is {name!r}, and none of {', '.join(EXPORTERS)}, none")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise UnknownExporterError("otlp is not installed: `pip install highwater-log[tracing]`") from error
    return OTLPSpanExporter()


class GivenIds(RandomIdGenerator):
    """Ids for the next span, where they are ``given``; random ones for all others."""

    def __init__(self) -> None:
        self.given: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        """The id of a trace that begins."""
        return super().generate_trace_id() if self.given is None else self.given[0]

    def generate_span_id(self) -> int:
        """The id of any span: it is asked for last."""
        given, self.given = self.given, None
        return super().generate_span_id() if given is None else given[1]


@dataclass(slots=True, kw_only=True)
class Write:
    """A write that has no answer yet, and since when it is in which state (nanoseconds since 1970)."""

    span: trace.Span
    log: TopicPartition
    end_offset: Offset
    appended_ns: int
    committed_ns: int | None = None


class Tracing:
    """Follows the writes of one replica. All methods belong to its event loop.

    ``now_ns`` is the wall clock, by which spans of several machines are laid side by side.
    """

    def __init__(
        self,
        *,
        exporter: SpanExporter,
        cluster_id: str,
        view: ReplicaView,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._ids = GivenIds()
        who = {
            "service.name": "highwater",
            "service.instance.id": str(view.replica_id),
            "highwater.cluster": cluster_id,
        }
        self._provider = TracerProvider(id_generator=self._ids, resource=Resource.create(who), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("replica.server.tracing")
        self._cluster_id = cluster_id
        self._view = view
        self._now_ns = now_ns
        self._arrived: dict[int, int] = {}
        """When each Produce that waits has come, by the request's identity."""
        self._writes: dict[int, Write] = {}
        """Those that have appended, by the request's identity."""
        self._followed: dict[TopicPartition, list[tuple[Offset, trace.Span]]] = {}
        """What this replica has appended as a follower and not flushed yet."""

    def calling(self, call: Call) -> Call:
        """Serve as ``call`` does, and follow what is written."""

        async def traced(request: Request) -> Response:
            if not isinstance(request, ProduceRequest) or len(self._arrived) >= WRITES_MAX:
                return await call(request)
            self._arrived[id(request)] = self._now_ns()
            try:
                return await call(request)
            finally:
                self._on_answered(request)

        return traced

    def observing(self, observer: StepObserver) -> StepObserver:
        """Observe as ``observer`` does, and follow what is written."""
        return _TracingObserver(self, observer)

    def flush(self) -> None:
        """Wait until all spans are exported."""
        self._provider.force_flush()

    def close(self, *, at_most_s: float = EXPORT_AT_STOP_S_MAX) -> None:
        """Export what is left; where no collector answers for so long, it is lost."""
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(at_most_s)

    # --- as the leader ----------------------------------------------------------------------------------------------

    def on_appended(self, request: ProduceRequest, batch: RecordBatch) -> None:
        """Begin the trace of a write whose batch is in the log now, though not flushed."""
        arrived_ns = self._arrived.get(id(request))
        if arrived_ns is None:
            return
        self._ids.given = self._ids_of(request.topic_partition, batch)
        span = self._tracer.start_span(
            "produce",
            context=Context(),
            kind=trace.SpanKind.SERVER,
            start_time=arrived_ns,
            attributes={**_said(request.topic_partition, batch), "highwater.acks": request.acks},
        )
        write = Write(span=span, log=request.topic_partition, end_offset=batch.end_offset, appended_ns=self._now_ns())
        self._writes[id(request)] = write
        self._add(write, "append", arrived_ns, write.appended_ns)

    def on_flushed(self, log: TopicPartition, end_offset: Offset, seconds: float) -> None:
        """Add the flush to what it has made durable here."""
        self._end_followed(log, end_offset)
        now_ns = self._now_ns()
        for write in self._writes.values():
            if write.log == log and write.end_offset <= end_offset and write.committed_ns is None:
                self._add(write, "flush", now_ns - round(seconds * 1e9), now_ns)

    def on_fetch(self, request: FetchRequest) -> None:
        """Add the fetch of a follower that has acknowledged a write, by what it fetches next."""
        now_ns = self._now_ns()
        fetched = {part.topic_partition: part.fetch_offset for part in request.partitions}
        for write in self._writes.values():
            fetch_offset = fetched.get(write.log)
            if fetch_offset is not None and fetch_offset >= write.end_offset and write.committed_ns is None:
                said = {"highwater.follower": int(request.replica_id or 0)}
                self._add(write, "follower fetch", write.appended_ns, now_ns, said)

    def on_step(self) -> None:
        """Add to each write that is committed since this step that it is."""
        for write in self._writes.values():
            partition = self._view.partitions.get(write.log)
            if write.committed_ns is None and partition is not None and partition.high_watermark >= write.end_offset:
                write.committed_ns = self._now_ns()
                self._add(write, "high watermark", write.appended_ns, write.committed_ns)

    def _on_answered(self, request: ProduceRequest) -> None:
        self._arrived.pop(id(request), None)
        write = self._writes.pop(id(request), None)
        if write is not None:
            now_ns = self._now_ns()
            self._add(write, "answer", write.committed_ns or write.appended_ns, now_ns)
            write.span.end(now_ns)

    def _add(
        self, write: Write, name: str, began_ns: int, ended_ns: int, said: Mapping[str, int] | None = None
    ) -> None:
        within = trace.set_span_in_context(write.span, Context())
        span = self._tracer.start_span(name, context=within, start_time=began_ns, attributes=said)
        span.end(ended_ns)

    # --- as a follower ----------------------------------------------------------------------------------------------

    def on_followed(self, append: Append, *, is_flushed: bool) -> None:
        """Begin in the traces of a leader's writes what this follower does: it ends when the batch is flushed here."""
        following = self._followed.setdefault(append.topic_partition, [])
        for batch in append.batches:
            trace_id, span_id = self._ids_of(append.topic_partition, batch)
            if self._provider.sampler.should_sample(None, trace_id, "produce").decision is Decision.RECORD_AND_SAMPLE:
                sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
                leader = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
                within = trace.set_span_in_context(trace.NonRecordingSpan(leader), Context())
                said = _said(append.topic_partition, batch)
                span = self._tracer.start_span("follow", context=within, start_time=self._now_ns(), attributes=said)
                following.append((batch.end_offset, span))
        if not is_flushed or len(following) > WRITES_MAX:  # Of a log that is cut, a flush may never be told.
            self._end_followed(append.topic_partition, append.batches[-1].end_offset)

    def _end_followed(self, log: TopicPartition, end_offset: Offset) -> None:
        following = self._followed.pop(log, [])
        left = [(batch_end, span) for batch_end, span in following if batch_end > end_offset]
        if left:
            self._followed[log] = left
        now_ns = self._now_ns()
        for batch_end, span in following:
            if batch_end <= end_offset:
                span.end(now_ns)

    def _ids_of(self, log: TopicPartition, batch: RecordBatch) -> tuple[int, int]:
        """The ids of a batch's trace and of its first span."""
        known = f"{self._cluster_id} {log} {batch.leader_epoch} {batch.base_offset}"
        digest = blake2b(known.encode(), digest_size=24).digest()
        return int.from_bytes(digest[:16]), int.from_bytes(digest[16:])


class _TracingObserver:
    """Hands all on, and lets ``Tracing`` see what concerns it."""

    def __init__(self, tracing: Tracing, observer: StepObserver) -> None:
        self._tracing = tracing
        self._observer = observer
        self.on_peer_unreachable = observer.on_peer_unreachable
        self.on_halted = observer.on_halted

    def on_step(self, event: Event, effects: tuple[Effect, ...], now_ms: int) -> None:
        self._observer.on_step(event, effects, now_ms)
        match event:
            case RequestReceived(request=ProduceRequest() as request):
                for effect in effects:
                    if isinstance(effect, Append) and effect.topic_partition == request.topic_partition:
                        self._tracing.on_appended(request, effect.batches[0])
            case RequestReceived(request=FetchRequest() as request) if request.replica_id is not None:
                self._tracing.on_fetch(request)
            case ResponseReceived(response=FetchResponse()):
                flushed = {effect.topic_partition for effect in effects if isinstance(effect, Flush)}
                for effect in effects:
                    if isinstance(effect, Append):
                        self._tracing.on_followed(effect, is_flushed=effect.topic_partition in flushed)
            case _:
                pass
        self._tracing.on_step()

    def on_flushed(self, topic_partition: TopicPartition, end_offset: Offset, seconds: float) -> None:
        self._observer.on_flushed(topic_partition, end_offset, seconds)
        self._tracing.on_flushed(topic_partition, end_offset, seconds)


def _said(log: TopicPartition, batch: RecordBatch) -> dict[str, str | int]:
    return {
        "highwater.topic": log.topic,
        "highwater.partition": log.partition,
        "highwater.epoch": batch.leader_epoch,
        "highwater.base_offset": batch.base_offset,
        "highwater.end_offset": batch.end_offset,
    }
