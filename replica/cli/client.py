"""What the commands share that ask a cluster by its brokers' addresses: options, tables, and errors as one sentence.

Owns the words of the options and of what to do about an error. Imports nothing heavy before a command runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from replica.cli.tls import tls_files

if TYPE_CHECKING:
    from replica.client.admin import Admin
    from replica.client.cluster_view import ViewConfig
    from replica.client.failures import ClientError

ResultT = TypeVar("ResultT")
Cell = str | int | None

CLIENT_DIAL = "REPLICA_CLIENT_DIAL"
"""Where brokers are dialled from here instead of at the addresses that they tell: ID=HOST:PORT with blanks between."""
EXIT_INTERRUPTED = 130
EXIT_OUTCOME_UNKNOWN = 3

bootstrap_option = click.option(
    "--bootstrap",
    required=True,
    multiple=True,
    metavar="HOST:PORT",
    envvar="REPLICA_BOOTSTRAP",
    show_envvar=True,
    help="A broker to ask first; once per broker, or with commas. The others are learned from it.",
)
timeout_option = click.option(
    "--timeout-ms", type=click.IntRange(min=1), default=10_000, show_default=True, help="How long to try."
)
output_option = click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True
)

ADVICE = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`replica topic list` shows what exists",
    "TOPIC_ALREADY_EXISTS": "choose another name, or change it with `replica topic alter`",
    "INVALID_REPLICATION_FACTOR": "start more brokers or ask for fewer replicas with --replication-factor",
    "INVALID_PARTITIONS": "ask for another number with --partitions",
    "INVALID_REPLICA_ASSIGNMENT": "`replica cluster describe` shows the brokers",
    "NO_REASSIGNMENT_IN_PROGRESS": "`replica topic reassignments` shows what is moving",
    "INVALID_REQUEST": "leave out --partitions and --replication-factor where --assignment is given",
    "PREFERRED_LEADER_NOT_AVAILABLE": "bring the first of its replicas back, or wait until it is in sync",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "start one of its replicas",
    "INCONSISTENT_CLUSTER_ID": "check --bootstrap",
    "OFFSET_OUT_OF_RANGE": "`replica offsets` shows where each partition begins and up to where it is committed",
    **dict.fromkeys(
        ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"),
        "`replica acl list` shows who may do what, to who may see it",
    ),
    "NOT_ENOUGH_REPLICAS": "bring replicas back, or lower min.insync.replicas",
}
"""What to do about an error, where its own words do not say."""


class OutcomeUnknown(click.ClickException):
    """A command whose outcome nobody knows: a code of its own, so that a script can tell."""

    exit_code = EXIT_OUTCOME_UNKNOWN


def run(action: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run what asks a cluster. What goes wrong becomes one sentence and exit code 1, or 3 where nobody knows whether it
    is done; Ctrl-C just ends it.
    """
    import asyncio

    # gRPC's own library writes to standard error past every logger; it reads this once, when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from replica.client.failures import ClientError, ClusterUnreachableError
    from replica.rpc.addresses import InvalidAddressError

    async def awaited() -> ResultT:
        return await action()

    try:
        return asyncio.run(awaited())
    except InvalidAddressError as error:
        raise click.UsageError(str(error)) from error
    except ClusterUnreachableError as error:
        is_denied = error.error == "CLUSTER_AUTHORIZATION_FAILED"
        advice = "" if is_denied else "; check --bootstrap, and that the brokers run"
        raise click.ClickException(f"{error}{advice}") from error
    except ClientError as error:
        raise _told(error) from error
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _told(error: ClientError) -> click.ClickException:
    """What is known of a failure, and what to do about it."""
    from replica.client.failures import OutcomeUnknownError
    from replica.client.groups.failures import UnknownGroupError, VotersNotChangedError, VotersUnknownError

    match error:
        case OutcomeUnknownError():
            return OutcomeUnknown(f"{error}; look before you repeat it")
        case VotersUnknownError():
            return OutcomeUnknown(f"{error}; `replica quorum describe` shows who votes")
        case UnknownGroupError():
            return click.ClickException(f"{error}; check --group or --log, and that replicas were started with it")
    advice = None if error.error is None or isinstance(error, VotersNotChangedError) else ADVICE.get(error.error)
    return click.ClickException(f"{error}{'' if advice is None else f'; {advice}'}")


def with_admin(bootstrap: tuple[str, ...], timeout_ms: int, use: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
    """Run what asks a cluster as an administrator does."""

    async def action() -> ResultT:
        from replica.client.admin import Admin

        async with Admin(bootstrap, view_config(timeout_ms)) as admin:
            return await use(admin)

    return run(action)


def view_config(timeout_ms: int) -> ViewConfig:
    """Settings for a command that tries for so long. Raises click.UsageError for a CLIENT_DIAL that cannot be read."""
    from replica.client.cluster_view import ViewConfig
    from replica.rpc.addresses import InvalidAddressError, parse_entries

    try:
        dial = parse_entries(os.environ.get(CLIENT_DIAL, "").split())
    except InvalidAddressError as error:
        raise click.UsageError(f"{CLIENT_DIAL}: {error}") from error
    return ViewConfig(api_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms, dial=dial, tls=tls_files())


def show(rows: Sequence[dict[str, Any]], output: str) -> None:
    """Print rows as JSON or as a table; of a row's fields, the table shows those that fit into a cell."""
    click.echo(json.dumps(rows, indent=2) if output == "json" else as_table(rows))


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """Align rows under the names of their fields: text to the left, numbers to the right. Nothing is cut off."""
    columns = list(rows[0]) if rows else []
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    heads = [column.upper().replace("_", "-") for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [all(isinstance(row[column], int | float | None) for row in rows) for column in columns]

    def line(texts: Sequence[str]) -> str:
        padded = zip(texts, widths, numeric, strict=True)
        return "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in padded).rstrip()

    return "\n".join([click.style(line(heads), bold=True), *map(line, cells)]) if rows else "nothing to show"


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value)) or "-"
        case dict():
            return ",".join(f"{name}={content}" for name, content in value.items()) or "-"
        case _:
            return str(value)


def text(content: bytes) -> str:
    """Bytes for a terminal or for JSON; what is no UTF-8 is escaped."""
    return content.decode(errors="backslashreplace")


def release() -> str:
    """Which version of the software this is."""
    from importlib.metadata import version

    return version("highwater-log")


def time_of(since_1970_ms: int) -> str:
    """A time of day for people, to the second, in UTC."""
    return datetime.fromtimestamp(since_1970_ms // 1000, UTC).isoformat().replace("+00:00", "Z")


def settings(entries: Sequence[str], option: str) -> dict[str, str]:
    """Read ``NAME=VALUE`` entries; a usage error names the one that is none."""
    pairs = [entry.partition("=") for entry in entries]
    for (name, equals, _), entry in zip(pairs, entries, strict=True):
        if not name or not equals:
            raise click.UsageError(f"{option} {entry!r} is not NAME=VALUE (for example min.insync.replicas=2)")
    return {name: value for name, _, value in pairs}
