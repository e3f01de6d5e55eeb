"""What the commands of ``replica kv`` share: options, the client, and what is shown of keys.

The words of options and errors that other commands have as well are ``client``'s.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import ResultT, bootstrap_option, run, text, timeout_option, view_config

if TYPE_CHECKING:
    from replica.client.groups.key_value import KeyValueClient, ReadFrom
    from replica.client.groups.queries import Node
    from replica.ids import ReplicaId
    from replica.machines.key_value import KeyValue
    from replica.machines.key_value.values import KeyRange

group_option = click.option(
    "--group", default="kv", show_default=True, metavar="NAME", help="The group that runs the key-value store."
)
output_option = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
number = click.IntRange(min=1, max=(1 << 63) - 1)
"""Revisions, leases and limits."""
lease_option = click.option("--lease", "lease_id", type=number, metavar="ID", help="Ends with it.")
prefix_option = click.option("--prefix", "is_prefix", is_flag=True, help="All keys that begin so.")
revision_option = click.option("--revision", type=number, help="As it was then.")


class Store:
    """Where the store is and how long to try: what every command is told by the same options."""

    def __init__(self, bootstrap: tuple[str, ...], group: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self.timeout_ms = timeout_ms

    def run(self, action: Callable[[KeyValueClient], Awaitable[ResultT]]) -> ResultT:
        """Do something with a client."""

        async def act() -> ResultT:
            from replica.client.groups.key_value import KeyValueClient

            config = view_config(self.timeout_ms)
            async with KeyValueClient(self._bootstrap, self._group, view_config=config) as client:
                return await action(client)

        return run(act)


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every command, and hand it a Store in place of them."""

    @bootstrap_option
    @group_option
    @timeout_option
    @wraps(command)
    def with_store(*, bootstrap: tuple[str, ...], group: str, timeout_ms: int, **options: Any) -> None:
        command(Store(bootstrap, group, timeout_ms), **options)

    return with_store


def read_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a question: how recent the answer must be, and who is asked."""

    @click.option(
        "--consistency",
        type=click.Choice(["linearizable", "lease", "stale"]),
        default="linearizable",
        show_default=True,
        help="lease: as linearizable, if clocks are right; stale: as it is where it is asked, however old.",
    )
    @click.option(
        "--node",
        metavar="leader|any|ID",
        help="Who is asked; by default the leader, and for stale answers any replica.",
    )
    @wraps(command)
    def with_read_from(*arguments: Any, consistency: str, node: str | None, **options: Any) -> None:
        command(*arguments, read_from=_read_from(consistency, node), **options)

    return with_read_from


def _read_from(consistency: str, node: str | None) -> ReadFrom:
    from replica.client.groups.key_value import ReadFrom
    from replica.core.messages import Consistency

    wanted = Consistency[consistency.upper()]
    return ReadFrom(consistency=wanted, node=_node(node or ("any" if wanted is Consistency.STALE else "leader")))


def _node(text: str) -> Node | ReplicaId:
    from replica.client.groups.queries import Node
    from replica.ids import ReplicaId

    if text.isdecimal() and len(text) < 20:
        return ReplicaId(int(text))
    if text not in [*Node]:
        raise click.UsageError(f"--node {text!r} is neither leader, any nor the id of a replica")
    return Node(text)


def keys_of(start: str, end: str | None, *, is_prefix: bool) -> KeyRange:
    """Which keys KEY, START END or --prefix START means."""
    from replica.cli.kv_txn import key_range

    if is_prefix and end is not None:
        raise click.UsageError("--prefix takes one START and no END")
    words = [start] if end is None else [start, end]
    keys = key_range(["--prefix", *words] if is_prefix else words)
    assert keys is not None, words
    return keys


def tell(output: str, sentence: str, **fields: Any) -> None:
    """Print a result: its sentence, or its fields as JSON."""
    click.echo(json.dumps(fields) if output == "json" else sentence)


def key_row(found: KeyValue) -> dict[str, Any]:
    """A key as JSON shows it."""
    return {
        "key": text(found.key),
        "value": text(found.value),
        "create_revision": found.create_revision,
        "mod_revision": found.mod_revision,
        "version": found.version,
        "lease_id": found.lease_id,
    }
