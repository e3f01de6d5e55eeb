"""One table of gRPC options: how every connection between replicas, and from clients, behaves under faults.

Owns the options and the reason for each. gRPC ignores an option name that it does not know, without a word, so the
ones that matter are held by tests that watch them act. Source: gRPC core's ``channel_arg_names.h`` and measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replica.bounds import MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX

CONNECTION_CALLS_MAX = 1024
"""Calls that a server takes of one connection at once. gRPC counts a call for a moment longer than who makes it,
and ends what comes in that moment as UNAVAILABLE, so that nobody should come near."""

CHANNEL_CALLS_MAX = CONNECTION_CALLS_MAX // 2
"""Calls that a client of this package makes of one replica at once; further ones wait for their turn."""

CONNECTIONS_MAX = 1000

PING_MS = 1000
"""How often whoever dials looks whether a silent peer is still there."""

RARE_PING_MS = 10_000
"""The same where nobody waits for an answer in earnest: of pings every second a thousand idle consumers would take a
fifth of a leader's core."""


class Side(StrEnum):
    """Which end of a connection an option is for."""

    BOTH = "both"
    CHANNEL = "channel"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class TransportOption:
    """One gRPC option: its exact name, its value (times in ms, sizes in bytes), and why it is not the default."""

    name: str
    value: int
    side: Side
    reason: str


OPTIONS: tuple[TransportOption, ...] = (
    TransportOption(
        "grpc.max_receive_message_length",
        MESSAGE_BYTES_MAX,
        Side.BOTH,
        "the default of 4 MiB is below what a dump of a log answers with",
    ),
    TransportOption(
        "grpc.max_send_message_length",
        MESSAGE_BYTES_MAX,
        Side.BOTH,
        "refuse at the sender what the receiver would refuse",
    ),
    TransportOption(
        "grpc.so_reuseport",
        0,
        Side.SERVER,
        "on by default: a second replica would bind the same port without an error and take half of the calls",
    ),
    TransportOption(
        "grpc.keepalive_time_ms",
        PING_MS,
        Side.CHANNEL,
        "ping an idle or silent connection every second, so that a dead peer does not hold it for minutes",
    ),
    TransportOption(
        "grpc.keepalive_time_ms",
        RARE_PING_MS,
        Side.SERVER,
        "whoever dials pings as often as it needs; here a dead client only holds what it has asked for a moment longer",
    ),
    TransportOption(
        "grpc.keepalive_timeout_ms",
        1000,
        Side.BOTH,
        "give up on a connection whose ping stays unanswered for a second",
    ),
    TransportOption(
        "grpc.http2.ping_timeout_ms",
        1000,
        Side.BOTH,
        "without it gRPC never arms the keepalive timeout: a call to a paused peer hung to its full deadline",
    ),
    TransportOption(
        "grpc.keepalive_permit_without_calls",
        1,
        Side.BOTH,
        "notice a dead connection before the next call has to",
    ),
    TransportOption(
        "grpc.http2.max_pings_without_data",
        0,
        Side.BOTH,
        "a long poll sends no data for a while; the default allows two pings and then none",
    ),
    TransportOption(
        "grpc.http2.min_ping_interval_without_data_ms",
        250,
        Side.SERVER,
        "with the default of 5 minutes the server answers our keepalive with GOAWAY and kills the long polls in flight",
    ),
    TransportOption(
        "grpc.server_handshake_timeout_ms",
        10_000,
        Side.SERVER,
        "whoever connects and says nothing takes a connection from others for 2 minutes by default",
    ),
    TransportOption(
        "grpc.http2.bdp_probe",
        0,
        Side.SERVER,
        "a stream that nobody reads would send as much as the fastest one, 4 MiB, where its window is 64 KiB at first; "
        "one that is read has as large a window as its message",
    ),
    TransportOption(
        "grpc.initial_reconnect_backoff_ms",
        100,
        Side.CHANNEL,
        "the default of 1 s is longer than a replica needs to restart",
    ),
    TransportOption(
        "grpc.min_reconnect_backoff_ms",
        500,
        Side.CHANNEL,
        "also the deadline of one attempt to connect: 20 s by default, which a paused peer makes us wait in full",
    ),
    TransportOption(
        "grpc.max_reconnect_backoff_ms",
        1000,
        Side.CHANNEL,
        "the default of 2 minutes would outlast a partition by far",
    ),
    TransportOption(
        "grpc.enable_retries",
        0,
        Side.CHANNEL,
        "a retry inside gRPC would blur which attempt may have been applied",
    ),
    TransportOption(
        "grpc.enable_http_proxy",
        0,
        Side.CHANNEL,
        "an http_proxy variable in the environment would capture even loopback addresses",
    ),
    TransportOption(
        "grpc.use_local_subchannel_pool",
        1,
        Side.CHANNEL,
        "two clients in one process must not share a connection, or one of them cannot be cut alone",
    ),
)


TLS_CONNECT_MS_MAX = 3000
"""The deadline of one attempt to connect by TLS: a handshake goes to and fro, and computes. One that may take no longer
than a plain connection is never done on a busy machine, or far away, however often it is tried."""


def channel_options(*, ping_ms: int = PING_MS, with_tls: bool = False) -> list[tuple[str, int]]:
    """Return the options of a channel, as ``grpc.aio.insecure_channel`` takes them, or ``secure_channel``."""
    options = {option.name: option.value for option in OPTIONS if option.side is not Side.SERVER}
    options["grpc.keepalive_time_ms"] = ping_ms
    if with_tls:
        options["grpc.min_reconnect_backoff_ms"] = TLS_CONNECT_MS_MAX
    return list(options.items())


def server_options(
    *, request_bytes_max: int = REQUEST_BYTES_MAX, connections_max: int = CONNECTIONS_MAX
) -> list[tuple[str, int]]:
    """Return the options of a server, as ``grpc.aio.server`` takes them; what it takes in is bounded here."""
    common = {option.name: option.value for option in OPTIONS if option.side is not Side.CHANNEL}
    budgets = {
        "grpc.max_receive_message_length": request_bytes_max,
        "grpc.max_concurrent_streams": CONNECTION_CALLS_MAX,
        "grpc.max_allowed_incoming_connections": connections_max,
    }
    return list((common | budgets).items())
