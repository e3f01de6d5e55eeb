"""``replica kv get``, ``range``, ``watch``, ``describe``: what changes nothing. Owns the output of these commands."""

from __future__ import annotations

import json
from os import fsencode
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import text
from replica.cli.help import example
from replica.cli.kv_options import (
    Store,
    key_row,
    keys_of,
    number,
    output_option,
    prefix_option,
    read_options,
    revision_option,
    store_options,
    tell,
)

if TYPE_CHECKING:
    from replica.client.groups.key_value import KeyValueClient, ReadFrom
    from replica.machines.key_value import KeyRange, KeyValue
    from replica.machines.key_value.results import Event


@click.command(epilog=example("replica kv get color"))
@click.argument("key")
@revision_option
@output_option
@read_options
@store_options
def get(store: Store, key: str, revision: int | None, output: str, read_from: ReadFrom) -> None:
    """Print the value of KEY. Exits with 1 if there is no such key."""
    answer = store.run(lambda client: client.get_revised(fsencode(key), revision=revision, read_from=read_from))
    found = answer.result.found
    if found is None:
        raise click.ClickException(f"there is no key {key!r} at revision {revision or answer.revision}")
    if output == "json":
        tell(output, "", revision=answer.revision, **key_row(found))
    else:
        click.echo(found.value)


@click.command("range", epilog=example("replica kv range --prefix co"))
@click.argument("start", metavar="[KEY | START]", default="")
@click.argument("end", required=False)
@prefix_option
@click.option("--limit", type=number, help="No more than so many.")
@click.option("--keys-only", is_flag=True, help="Without the values.")
@revision_option
@output_option
@read_options
@store_options
def range_(store: Store, start: str, end: str | None, output: str, **options: Any) -> None:
    """Print keys and values: of KEY, from START to END (exclusive), or with --prefix of all that begin with START.

    Without any of these, all keys.
    """
    is_prefix = options["is_prefix"] or (not start and end is None)
    keys = keys_of(start, end, is_prefix=is_prefix)

    async def read(client: KeyValueClient) -> None:
        await _print_range(client, keys, output, options)

    store.run(read)


async def _print_range(client: KeyValueClient, keys: KeyRange, output: str, options: dict[str, Any]) -> None:
    """Print piece after piece, all of them as they stood at the revision of the first."""
    from replica.machines.key_value import KeyRange

    revision, left = options["revision"], options["limit"]
    while True:
        answer = await client.range(keys, limit=left, revision=revision, read_from=options["read_from"])
        revision = revision or answer.revision
        for found in answer.result.found:
            click.echo(line_of(found, output, keys_only=options["keys_only"]))
        left = None if left is None else left - len(answer.result.found)
        if not answer.result.more or left == 0:
            return
        keys = KeyRange(start=answer.result.found[-1].key + b"\0", end=keys.end)


def line_of(found: KeyValue, output: str = "text", *, keys_only: bool = False) -> str:
    """A key as one line."""
    if output == "json":
        row = key_row(found)
        return json.dumps({name: row[name] for name in row if not (keys_only and name == "value")})
    return text(found.key) if keys_only else f"{text(found.key)}\t{text(found.value)}"


@click.command(epilog=example("replica kv watch --prefix co --from-revision 1 --max-events 2"))
@click.argument("start", metavar="[KEY | START]", default="")
@click.argument("end", required=False)
@prefix_option
@click.option("--from-revision", type=number, help="Begin with what was changed there; without, now.")
@click.option("--max-events", type=number, help="Stop after this many.")
@output_option
@read_options
@store_options
def watch(store: Store, start: str, end: str | None, output: str, **options: Any) -> None:
    """Print what changes, as it comes: its revision, put or delete, the key, and the value. Without keys, of all.

    Exits with 1 when a revision is forgotten before it was told, or nobody answers for --timeout-ms.
    """
    keys = keys_of(start, end, is_prefix=options["is_prefix"] or (not start and end is None))

    async def follow(client: KeyValueClient) -> None:
        from replica.client.groups.watch import WatchConfig

        left = options["max_events"]
        watching = client.watch(
            keys,
            from_revision=options["from_revision"],
            read_from=options["read_from"],
            config=WatchConfig(timeout_ms=store.timeout_ms),
        )
        async for result in watching:
            for event in result.events[:left]:
                click.echo(_event_line(event, output))
            left = None if left is None else left - len(result.events)
            if left is not None and left <= 0:
                break
        await watching.aclose()

    store.run(follow)


def _event_line(event: Event, output: str) -> str:
    from replica.machines.key_value import Tombstone

    if output == "json":
        row = {"key": text(event.key), "mod_revision": event.mod_revision}
        return json.dumps(
            {"type": "delete", **row} if isinstance(event, Tombstone) else {"type": "put", **key_row(event)}
        )
    if isinstance(event, Tombstone):
        return f"{event.mod_revision}\tdelete\t{text(event.key)}"
    return f"{event.mod_revision}\tput\t{text(event.key)}\t{text(event.value)}"


@click.command(epilog=example("replica kv describe"))
@output_option
@read_options
@store_options
def describe(store: Store, output: str, read_from: ReadFrom) -> None:
    """Show the store's revision, the first one that can be read, and how many keys and leases there are."""
    answer = store.run(lambda client: client.describe(read_from=read_from))
    shown = {
        "revision": answer.revision,
        "compact_revision": answer.result.compact_revision,
        "keys": answer.result.keys,
        "leases": answer.result.leases,
    }
    tell(output, "\n".join(f"{name}\t{number}" for name, number in shown.items()), **shown)
