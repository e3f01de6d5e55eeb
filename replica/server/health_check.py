"""Asks a replica's health service, with as few imports as a container's health check needs to be quick.

Owns the one call, written by hand: importing the generated code for two bytes would take longer than the call.
Source: gRPC's health checking protocol, ``grpc.health.v1``.
"""

from __future__ import annotations

import grpc

from replica.rpc.tls import TlsError, TlsFiles

LIVENESS, READINESS = "liveness", "readiness"
"""The names of the two questions: does its event loop run, and will it serve who comes to it?"""

_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
"""``HealthCheckResponse{status: SERVING}`` on the wire."""
_NAME_BYTES_MAX = 127


class UnhealthyError(Exception):
    """The replica does not answer, or says that it is not serving; the message says which."""


def check_health(address: str, *, service: str, timeout_ms: int, tls: TlsFiles | None = None) -> None:
    """Raise UnhealthyError unless ``address`` serves ``service``; the empty name asks what ``LIVENESS`` does."""
    name = service.encode()
    if len(name) > _NAME_BYTES_MAX:
        raise UnhealthyError(f"{service!r} is no service's name: it is longer than {_NAME_BYTES_MAX} bytes")
    request = b"\x0a" + bytes([len(name)]) + name if name else b""
    with _channel(address, tls) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_CHECK)
        try:
            answer = check(request, timeout=timeout_ms / 1000)
        except grpc.RpcError as error:
            raise UnhealthyError(f"{address} is not serving: {error.code().name}: {error.details()}") from None
    if answer != _SERVING:
        what = "is not ready" if service == READINESS else f"does not serve {service}".rstrip()
        raise UnhealthyError(f"{address} is alive but {what}")


def _channel(address: str, tls: TlsFiles | None) -> grpc.Channel:
    options = [("grpc.enable_http_proxy", 0)]
    if tls is None:
        return grpc.insecure_channel(address, options=options)
    try:
        return grpc.secure_channel(address, tls.channel_credentials(), options=options)
    except TlsError as error:
        raise UnhealthyError(str(error)) from error
