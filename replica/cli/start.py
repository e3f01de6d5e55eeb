"""``replica start``: from arguments, environment variables and a file to ServerOptions.

Owns the names of the settings; each is an option, and can come from ``REPLICA_<NAME>`` or a file as well. The
parameters of the core are settings of the same names, those of groups behind ``group-``; one that several parts of the
core know by the same name is one setting for all of them. ``start_command`` makes the command anew for a program that
starts replicas of its own, such as a harness that replaces a rule of the protocol.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.bounds import REQUEST_BYTES_MAX, TEXT_BYTES_MAX
from replica.cli.access import access_from, access_settings
from replica.cli.config_file import config_option
from replica.cli.config_setting import Setting
from replica.cli.help import Command, Sections, example
from replica.cli.tls import tls_files
from replica.core.config import InvalidConfigError
from replica.core.setting_kinds import Kind, Number, Switch
from replica.core.settings import NUMBERS, PARTS, SEGMENT_BYTES_MAX, SETTINGS, Part
from replica.rpc.channels import CONNECTIONS_MAX

if TYPE_CHECKING:
    from replica.core.rules import Rules
    from replica.server.clocks import Clocks
    from replica.server.options import ProcessRole, ServerOptions
    from replica.storage import Files

ADDRESS = "HOST:PORT"


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
        # structlog imports it to draw tracebacks, which takes a tenth of all that a start computes; here they are JSON.
        with _without("rich"):
            options = server_options_from(values)
            from replica.server.main import serve

        rules = None if make_rules is None else make_rules()
        files = None if make_files is None else make_files()
        sys.exit(serve(options, rules=rules, files=files, clocks=None if make_clocks is None else make_clocks()))

    epilog = example("replica start --data-dir data/1 --listen 127.0.0.1:9001", "replica start --config replica.toml")
    return Command(
        "start",
        callback=start,
        params=[config_option(), *settings()],
        help=start.__doc__,
        epilog=epilog,
        sections=sections(),
    )


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Let whoever would import a module if it is there do without it."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]  # As Python has it: an import of it fails.
    try:
        yield
    finally:
        del sys.modules[module]


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting of a replica but those of TLS, which belong to all commands."""
    return (*_server_settings(), *_core_settings())


def sections() -> Sections:
    """The options that nobody can do without or that many want, and those of each part of the core."""
    left = {str(setting.name): None for setting in settings()}
    parts = {part.heading: [part.prefix + field.name for field in fields(part.config)] for part in PARTS}
    of_parts = {heading: [name for name in names if left.pop(name, 0) is None] for heading, names in parts.items()}
    return {"This replica": ["config", *left], **of_parts}


def server_options_from(values: Mapping[str, Any], *, files_are_read: bool = True) -> ServerOptions:
    """Build the options of a server from the command's values; raises click.ClickException with one sentence.

    Unless ``files_are_read``, the files of TLS need not be there.
    """
    from replica.rpc.addresses import InvalidAddressError, parse_entries
    from replica.server.groups import parse_groups
    from replica.server.options import ServerOptions

    try:
        given = {field.name: values[field.name] for field in fields(ServerOptions) if field.name in values}
        given = {name: value for name, value in given.items() if value is not None}
        given |= {part.field: part.config(**_given(part, values)) for part in PARTS}
        given |= {
            "voters": parse_entries(values["voter"]),
            "dial": parse_entries(values["dial"]),
            "roles": _roles_from(values["roles"]),
            "groups": parse_groups(values["group"]),
            "log_dirs": tuple(map(Path, values["log_dir"])),
            "tls": tls_files(are_read=files_are_read, with_token=False),
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


def _given(part: Part, values: Mapping[str, Any]) -> dict[str, Any]:
    """Pick what was given for one part of the core; for the rest its own defaults hold."""
    known = fields(part.config)
    given = {field.name: values[part.prefix + field.name] for field in known}
    choices = {field.name: type(field.default) for field in known if isinstance(field.default, StrEnum)}
    return {
        name: choices[name](value) if name in choices else value for name, value in given.items() if value is not None
    }


# --- the settings ---------------------------------------------------------------------------------------------------


def _setting(name: str, **attributes: Any) -> Setting:
    return Setting([f"--{name}"], show_envvar=True, **attributes)


def _listener(name: str, says: str, **attributes: Any) -> Setting:
    return _setting(name, metavar=ADDRESS, unit=ADDRESS, may_be="port 0 to 65535", help=says, **attributes)


def _table(name: str, says: str, unit: str, may_be: str) -> Setting:
    return _setting(name, multiple=True, metavar=unit, unit=unit, may_be=may_be, help=says)


def _number(name: str, default: int) -> Setting:
    number = NUMBERS[name.replace("-", "_")]
    return _setting(
        name,
        type=click.IntRange(number.least, number.most),
        unit=number.unit,
        holds=(default,),
        default=default,
        show_default=True,
        help=number.says,
        mode=number.mode,
    )


def _limit(name: str) -> Setting:
    """A number that there is none of unless it is given."""
    number = NUMBERS[name.replace("-", "_")]
    return _setting(
        name, type=click.IntRange(number.least, number.most), unit=number.unit, mode=number.mode, help=number.says
    )


def _text(name: str, says: str) -> Setting:
    return _setting(name, unit="text", may_be=f"at most {TEXT_BYTES_MAX} bytes", help=says)


def _server_settings() -> list[Setting]:
    return [
        _setting(
            "data-dir",
            required=True,
            type=click.Path(path_type=Path),
            unit="path",
            may_be="a folder",
            help="Formatted by `replica format`.",
        ),
        _table(
            "log-dir",
            "Put partitions here, on a disk of its own, and not into --data-dir; several.",
            "path",
            "each a folder of its own",
        ),
        *_addresses(),
        _absent(
            "--tls-client-auth/--no-tls-client-auth",
            "switch",
            [True],
            Switch("With `replica --tls-ca-file`: let nobody in without a certificate that is believed."),
            show_default="--tls-client-auth",
            show_envvar=True,
        ),
        *access_settings(),
        *_identity(),
        _listener("metrics-listen", "Serve Prometheus metrics here."),
        _setting(
            "log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            unit="word",
            holds=("info",),
            help=SETTINGS["log_level"].says,
            mode=SETTINGS["log_level"].mode,
        ),
        *_server_numbers(),
    ]


def _addresses() -> list[Setting]:
    """Who is reached where, and for what."""
    entry, once = f"ID={ADDRESS}", "each ID once, port 1 to 65535"
    return [
        _listener("listen", "Where to serve; port 0 takes a free one.", required=True),
        _table(
            "voter",
            "Whom to ask who leads, and where: a voter, or any replica; several. Needed on a disk without initial "
            "voters only.",
            entry,
            once,
        ),
        _table(
            "group",
            "Host a state machine on a quorum log of that name; the same on every voter.",
            "NAME=MACHINE",
            "each NAME once: letters, digits, dots, dashes, underscores",
        ),
        _table("dial", "Dial this replica here instead, for example by a proxy.", entry, once),
        _setting(
            "roles",
            default="broker,controller",
            show_default=True,
            metavar="ROLE[,ROLE]",
            unit="text",
            may_be="broker, controller, or both with a comma between",
            holds=("broker,controller",),
            help="A voter, and who may become one, is a controller.",
        ),
        _setting(
            "advertised-address",
            metavar=ADDRESS,
            unit=ADDRESS,
            may_be="port 1 to 65535",
            help="Where others reach this broker; needed if it is no voter.",
        ),
        _listener(
            "peer-listen",
            "Serve other replicas here, and them nowhere else; --voter then names where they reach each other, "
            "and --advertised-address where clients reach this one.",
        ),
    ]


def _identity() -> list[Setting]:
    """Which replica this is, or must be."""
    return [
        _text("rack", "Where this broker stands."),
        _text("cluster-id", "Refuse a data directory of another cluster."),
        _limit("replica-id"),
    ]


def _server_numbers() -> list[Setting]:
    """What is counted at the door, when a replica stops, and on its disk."""
    return [
        _number("client-calls-max", 4096),
        _number("producer-ids-per-hour", 4000),
        _number("connections-max", CONNECTIONS_MAX),
        _limit("connections-per-address-max"),
        _limit("memory-bytes-max"),
        _limit("producer-byte-rate"),
        _limit("consumer-byte-rate"),
        _limit("request-rate"),
        _number("request-bytes-max", REQUEST_BYTES_MAX),
        _number("connection-answer-bytes-max", 32 << 20),
        _number("answer-bytes-max", 1 << 30),
        _number("handover-wait-ms", 5000),
        _number("stop-grace-ms", 500),
        _number("log-flush-offset-checkpoint-interval-ms", 5000),
        _number("log-flush-start-offset-checkpoint-interval-ms", 60_000),
        _number("file-delete-delay-ms", 60_000),
        _number("log-segment-bytes", SEGMENT_BYTES_MAX),
    ]


def _core_settings() -> list[Setting]:
    """One per name of a parameter of the core."""
    defaults: dict[str, list[Any]] = {}
    for part in PARTS:
        for field in fields(part.config):
            defaults.setdefault(part.prefix + field.name, []).append(field.default)
    return [_core_setting(name, list(dict.fromkeys(known))) for name, known in defaults.items()]


def _core_setting(name: str, defaults: Sequence[Any]) -> Setting:
    """Make the option of one parameter: absent unless given, because the parts may differ in their defaults."""
    dashed, default = name.replace("_", "-"), defaults[0]
    kind = SETTINGS[name]
    if isinstance(default, bool):
        shown = f"--{dashed}" if default else f"--no-{dashed}"
        return _absent(f"--{dashed}/--no-{dashed}", "switch", defaults, kind, show_default=shown)
    if isinstance(kind, Number):
        return _absent(f"--{dashed}", kind.unit, defaults, kind, type=click.IntRange(kind.least, kind.most))
    words = click.Choice([choice.value for choice in type(default)])
    return _absent(f"--{dashed}", "word", [default.value], kind, type=words)


def _absent(declared: str, unit: str, holds: Sequence[Any], kind: Kind, **attributes: Any) -> Setting:
    attributes = {"show_default": ", ".join(map(str, holds)), "mode": kind.mode} | attributes
    return Setting([declared], default=None, unit=unit, holds=holds, help=kind.says, **attributes)
