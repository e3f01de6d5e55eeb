"""A collector of OpenTelemetry for tests: it takes spans by OTLP over HTTP, and keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """What a collector knows of a span: ``attributes`` are its own and those of the replica that has exported it."""

    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    attributes: dict[str, str | int]


class OtlpReceiver(ThreadingHTTPServer):
    """Listens on loopback. ``spans`` has what was exported so far, in the order of arrival."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[ReceivedSpan] = []

    @property
    def endpoint(self) -> str:
        """What ``OTEL_EXPORTER_OTLP_ENDPOINT`` is to be."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: OtlpReceiver

    def do_POST(self) -> None:
        """Take the spans of one request, which is not compressed; an empty message is the answer."""
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.spans.extend(spans_of(ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of a request."""


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """A receiver that runs."""
    with OtlpReceiver() as receiver:
        thread = Thread(target=receiver.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


def spans_of(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    """The spans of one request."""
    for exported in request.resource_spans:
        for span in (span for scope in exported.scope_spans for span in scope.spans):
            yield ReceivedSpan(
                name=span.name,
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent_id=span.parent_span_id,
                attributes=dict(map(told, [*exported.resource.attributes, *span.attributes])),
            )


def told(attribute: KeyValue) -> tuple[str, str | int]:
    """An attribute's name and value."""
    value = attribute.value
    return attribute.key, value.int_value if value.HasField("int_value") else value.string_value
