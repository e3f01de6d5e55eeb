"""``replica start``: from arguments and environment variables to ServerOptions.

Owns the names of the options; each can come from ``REPLICA_<NAME>``. ``start_command`` makes the command anew for a
program that starts replicas of its own, such as a harness that replaces a rule of the protocol.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.core.config import InvalidConfigError, QuorumConfig
from replica.ids import ReplicaId

if TYPE_CHECKING:
    from replica.core.rules import Rules
    from replica.server.options import ServerOptions

QUORUM_OPTIONS = tuple(field.name for field in fields(QuorumConfig))


def start_command(make_rules: Callable[[], Rules] | None = None) -> click.Command:
    """Return the ``start`` command; ``make_rules``, when given, supplies other rules than the protocol's own."""

    def start(**values: Any) -> None:
        """Run one replica until it is told to stop (SIGTERM, Ctrl-C)."""
        # gRPC's own library writes to standard error past every logger, and lines there are ours to format. It reads
        # this once, when it is loaded.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        options = server_options_from(values)
        from replica.server.main import serve

        sys.exit(serve(options, rules=None if make_rules is None else make_rules()))

    return click.Command("start", callback=start, params=[*_server_params(), *_quorum_params()], help=start.__doc__)


def server_options_from(values: dict[str, Any]) -> ServerOptions:
    """Build the options of a server from the command's values; raises click.ClickException with one sentence."""
    from replica.server.addresses import InvalidAddressError, parse_entries
    from replica.server.options import ServerOptions

    try:
        return ServerOptions(
            data_dir=values["data_dir"],
            listen=values["listen"],
            voters=parse_entries(values["voter"]),
            dial=parse_entries(values["dial"]),
            cluster_id=values["cluster_id"],
            replica_id=None if values["replica_id"] is None else ReplicaId(values["replica_id"]),
            quorum=QuorumConfig(**{name: values[name] for name in QUORUM_OPTIONS}),
            log_level=values["log_level"],
            metrics_listen=values["metrics_listen"],
            client_calls_max=values["client_calls_max"],
            handover_wait_ms=values["handover_wait_ms"],
            stop_grace_ms=values["stop_grace_ms"],
        )
    except (InvalidAddressError, InvalidConfigError) as error:
        raise click.ClickException(str(error)) from error


def _option(name: str, **attributes: Any) -> click.Option:
    return click.Option(
        [f"--{name}"], envvar=f"REPLICA_{name.upper().replace('-', '_')}", show_envvar=True, **attributes
    )


def _server_params() -> list[click.Parameter]:
    address = "HOST:PORT"
    entry = "ID=HOST:PORT"
    return [
        _option("data-dir", required=True, type=click.Path(path_type=Path), help="Formatted by `replica format`."),
        _option("listen", required=True, metavar=address, help="Where to serve; port 0 takes a free one."),
        _option("voter", multiple=True, required=True, metavar=entry, help="A voter and its address; once per voter."),
        _option("dial", multiple=True, metavar=entry, help="Dial this voter here instead, for example by a proxy."),
        _option("cluster-id", help="Refuse a data directory of another cluster."),
        _option("replica-id", type=click.IntRange(min=0), help="Refuse a data directory of another replica."),
        _option("metrics-listen", metavar=address, help="Serve Prometheus metrics here."),
        _option(
            "log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="One line per step at debug.",
        ),
        _option("client-calls-max", type=int, default=4096, show_default=True, help="Refuse more calls at once."),
        _option(
            "handover-wait-ms", type=int, default=3000, show_default=True, help="How long a leader that stops waits."
        ),
        _option(
            "stop-grace-ms", type=int, default=500, show_default=True, help="How long calls may end when stopping."
        ),
    ]


def _quorum_params() -> list[click.Parameter]:
    """One option per field of QuorumConfig, by its name."""
    return [_quorum_param(field.name, field.default) for field in fields(QuorumConfig)]


def _quorum_param(name: str, default: Any) -> click.Parameter:
    dashed = name.replace("_", "-")
    if isinstance(default, bool):
        return click.Option(
            [f"--{dashed}/--no-{dashed}"], default=default, show_default=True, envvar=f"REPLICA_{name.upper()}"
        )
    return click.Option([f"--{dashed}"], type=int, default=default, show_default=True, envvar=f"REPLICA_{name.upper()}")
