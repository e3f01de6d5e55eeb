"""``replica start``: from arguments and environment variables to ServerOptions.

Owns the names of the options; each can come from ``REPLICA_<NAME>``. The parameters of the core are options of the same
names, those of groups behind ``group-``; one that several parts of the core know by the same name is one option for all
of them. ``start_command`` makes the command anew for a program that starts replicas of its own, such as a harness that
replaces a rule of the protocol.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from replica.cli.access import access_from, access_params
from replica.cli.help import Command, Sections, example
from replica.cli.tls import tls_files
from replica.core.config import (
    BrokerConfig,
    ControllerConfig,
    GroupConfig,
    InvalidConfigError,
    MetadataConfig,
    QuorumConfig,
)
from replica.ids import ReplicaId

if TYPE_CHECKING:
    from replica.core.rules import Rules
    from replica.server.clocks import Clocks
    from replica.server.options import ProcessRole, ServerOptions
    from replica.storage import Files

_Part = type[QuorumConfig | BrokerConfig | ControllerConfig | MetadataConfig | GroupConfig]
_PARTS: Mapping[_Part, str] = MappingProxyType(
    {QuorumConfig: "", BrokerConfig: "", ControllerConfig: "", MetadataConfig: "", GroupConfig: "group_"}
)
"""The parts of the core, and what the names of their options begin with."""

_HEADINGS: Mapping[_Part, str] = MappingProxyType(
    {
        QuorumConfig: "Quorum logs",
        BrokerConfig: "Partitions and the broker",
        ControllerConfig: "The controller",
        MetadataConfig: "The cluster's metadata",
        GroupConfig: "Groups of state machines",
    }
)

_HELP: Mapping[str, str] = MappingProxyType(
    {
        "log_flush": "fsync: flush before acknowledging acks=all. os: let the system flush when it pleases; a power "
        "loss of several brokers at once can then lose acknowledged records.",
        "replica_lag_time_max_ms": "A follower that has not caught up for so long leaves the ISR.",
        "broker_session_timeout_ms": "A broker that is silent for so long is fenced.",
        "min_insync_replicas": "How many replicas must be in sync for acks=all, where a topic does not say.",
        "metadata_log_max_record_bytes_between_snapshots": "A snapshot of the cluster's metadata is taken after so "
        "many bytes of applied records, or ...",
        "metadata_log_max_snapshot_interval_ms": "... after so long.",
        "group_tick_interval_ms": "A leader of a group writes at least so often, so that the group's time goes on.",
        "group_snapshot_max_interval_ms": "A snapshot of a group is taken after so long, or ...",
        "group_snapshot_max_record_bytes_between": "... after so many bytes of applied records.",
        "group_auto_leader_rebalance_enable": "Let each group be led by its preferred replica; the groups take turns.",
        "group_leader_imbalance_check_interval_seconds": "The preferred leader of a group has kept up for so long.",
        "group_lease_reads": "Let leaders of groups answer by lease: on every replica, or on none. Switch it on while "
        "all are stopped.",
        "group_lease_clock_drift_max_percent": "By how much clocks may differ in speed where there are leases.",
        "change_voters_timeout_max_ms": "A leader waits no longer for a new voter to catch up.",
        "transfer_timeout_max_ms": "A leader waits no longer for the one to whom it is to hand over.",
        "unclean_leader_election_enable": "Let a replica lead that is not in sync, where no other can: loses records.",
    }
)


def start_command(
    make_rules: Callable[[], Rules] | None = None,
    make_files: Callable[[], Files] | None = None,
    make_clocks: Callable[[], Clocks] | None = None,
) -> click.Command:
    """Return the ``start`` command; ``make_rules``, when given, supplies other rules than the protocol's own.

    ``make_files`` supplies another way to the disk than the operating system's, ``make_clocks`` other clocks than the
    machine's.
    """

    def start(**values: Any) -> None:
        """Run one replica until it is told to stop (SIGTERM, Ctrl-C, SIGHUP)."""
        # gRPC's own library writes to standard error past every logger, and lines there are ours to format. It reads
        # this once, when it is loaded.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        options = server_options_from(values)
        from replica.server.main import serve

        rules = None if make_rules is None else make_rules()
        files = None if make_files is None else make_files()
        sys.exit(serve(options, rules=rules, files=files, clocks=None if make_clocks is None else make_clocks()))

    params = [*_server_params(), *_core_params()]
    epilog = example("replica start --data-dir data/1 --listen 127.0.0.1:9001")
    return Command("start", callback=start, params=params, help=start.__doc__, epilog=epilog, sections=_sections())


def _sections() -> Sections:
    """The options that nobody can do without or that many want, and those of each part of the core."""
    parts = {part: [_PARTS[part] + field.name for field in fields(part)] for part in _PARTS}
    placed: set[str] = set()
    sections: dict[str, list[str]] = {"This replica": [str(parameter.name) for parameter in _server_params()]}
    for part, names in parts.items():
        sections[_HEADINGS[part]] = [name for name in names if name not in placed]
        placed.update(names)
    return sections


def server_options_from(values: dict[str, Any]) -> ServerOptions:
    """Build the options of a server from the command's values; raises click.ClickException with one sentence."""
    from replica.rpc.addresses import InvalidAddressError, parse_entries
    from replica.server.groups import parse_groups
    from replica.server.options import ServerOptions

    try:
        given = {field.name: values[field.name] for field in fields(ServerOptions) if field.name in values}
        given |= {
            "quorum": QuorumConfig(**_given(QuorumConfig, values)),
            "broker": BrokerConfig(**_given(BrokerConfig, values)),
            "controller": ControllerConfig(**_given(ControllerConfig, values)),
            "metadata": MetadataConfig(**_given(MetadataConfig, values)),
            "group": GroupConfig(**_given(GroupConfig, values)),
            "voters": parse_entries(values["voter"]),
            "dial": parse_entries(values["dial"]),
            "roles": _roles_from(values["roles"]),
            "replica_id": None if values["replica_id"] is None else ReplicaId(values["replica_id"]),
            "groups": parse_groups(values["group"]),
            "tls": tls_files(with_token=False),
            "access": access_from(values),
        }
        return ServerOptions(**given)
    except (InvalidAddressError, InvalidConfigError) as error:
        raise click.ClickException(str(error)) from error


def _roles_from(text: str) -> frozenset[ProcessRole]:
    from replica.server.options import ProcessRole

    known = {role.value: role for role in ProcessRole}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InvalidConfigError(f"{name!r} is no role; give {', '.join(known)}, or both with a comma between")
    return frozenset(known[name] for name in names)


def _given(part: _Part, values: Mapping[str, Any]) -> dict[str, Any]:
    """Pick what was given for one part of the core; for the rest its own defaults hold."""
    values = {field.name: values[_PARTS[part] + field.name] for field in fields(part)}
    given = {name: value for name, value in values.items() if value is not None}
    choices = {field.name: type(field.default) for field in fields(part) if isinstance(field.default, StrEnum)}
    return {name: choices[name](value) if name in choices else value for name, value in given.items()}


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
        _option(
            "voter",
            multiple=True,
            metavar=entry,
            help="Whom to ask who leads, and where: a voter, or any replica; several. Needed on a disk without initial "
            "voters only.",
        ),
        _option(
            "group",
            multiple=True,
            metavar="NAME=MACHINE",
            help="Host a state machine on a quorum log of that name; the same on every voter.",
        ),
        _option("dial", multiple=True, metavar=entry, help="Dial this replica here instead, for example by a proxy."),
        _option(
            "roles",
            default="broker,controller",
            show_default=True,
            metavar="ROLE[,ROLE]",
            help="A voter, and who may become one, is a controller.",
        ),
        _option(
            "advertised-address", metavar=address, help="Where others reach this broker; needed if it is no voter."
        ),
        _option(
            "peer-listen",
            metavar=address,
            help="Serve other replicas here, and them nowhere else; --voter then names where they reach each other, "
            "and --advertised-address where clients reach this one.",
        ),
        click.Option(
            ["--tls-client-auth/--no-tls-client-auth"],
            envvar="REPLICA_TLS_CLIENT_AUTH",
            show_envvar=True,
            default=True,
            show_default=True,
            help="With `replica --tls-ca-file`: let nobody in without a certificate that is believed.",
        ),
        *access_params(),
        _option("rack", help="Where this broker stands."),
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
        *_numbers(),
    ]


def _numbers() -> list[click.Parameter]:
    """What is counted at the door, when a replica stops, and on its disk."""
    return [
        _number("client-calls-max", 4096, "Refuse more calls at once."),
        _number("producer-ids-per-hour", 4000, "Let one address be no more idempotent producers in an hour."),
        _number("connections-max", 1000, "Take no more connections at once."),
        _number("request-bytes-max", 4 << 20, "Refuse larger requests."),
        _number("connection-answer-bytes-max", 32 << 20, "What answers may hold that one connection has not taken."),
        _number("answer-bytes-max", 1 << 30, "What answers may hold that all connections have not taken."),
        _number("handover-wait-ms", 5000, "How long a replica that stops waits for others to lead what it leads."),
        _number("stop-grace-ms", 500, "How long calls may end when stopping."),
        _number("log-flush-offset-checkpoint-interval-ms", 5000, "How often it is noted how far logs are flushed."),
        _number("log-flush-start-offset-checkpoint-interval-ms", 60_000, "How often it is noted where logs begin."),
        _number("file-delete-delay-ms", 60_000, "How long deleted files take space, for readers in flight."),
        _number("log-segment-bytes", 1 << 30, "How long a file of a log gets; only whole files are ever deleted."),
    ]


def _number(name: str, default: int, explanation: str) -> click.Option:
    return _option(name, type=int, default=default, show_default=True, help=explanation)


def _core_params() -> list[click.Parameter]:
    """One option per name of a parameter of the core."""
    defaults: dict[str, list[Any]] = {}
    for part, prefix in _PARTS.items():
        for field in fields(part):
            defaults.setdefault(prefix + field.name, []).append(field.default)
    return [_core_param(name, known) for name, known in defaults.items()]


def _core_param(name: str, defaults: list[Any]) -> click.Parameter:
    """Make the option of one parameter: absent unless given, because the parts may differ in their defaults."""
    dashed = name.replace("_", "-")
    default = defaults[0]
    attributes: dict[str, Any] = {"default": None, "envvar": f"REPLICA_{name.upper()}", "help": _HELP.get(name)}
    if isinstance(default, bool):
        shown = f"--{dashed}" if default else f"--no-{dashed}"
        return click.Option([f"--{dashed}/--no-{dashed}"], show_default=shown, **attributes)
    if isinstance(default, StrEnum):
        kind = click.Choice([choice.value for choice in type(default)])
        return click.Option([f"--{dashed}"], type=kind, show_default=default.value, **attributes)
    shown = ", ".join(str(value) for value in dict.fromkeys(defaults))
    return click.Option([f"--{dashed}"], type=int, show_default=shown, **attributes)
