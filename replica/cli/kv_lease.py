"""``replica kv lease``: leases, and the keys that go with them. Owns the output of these commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from replica.cli.client import text
from replica.cli.help import Group, example
from replica.cli.kv_options import Store, number, output_option, read_options, store_options, tell

if TYPE_CHECKING:
    from replica.client.groups.key_value import ReadFrom
    from replica.machines.key_value import LeaseId

_lease_argument = click.argument("lease_id", metavar="ID", type=number)


@click.group(cls=Group)
def lease() -> None:
    """Grant, keep alive, end and show leases."""


@lease.command(epilog=example("replica kv lease grant 60000"))
@click.argument("ttl_ms", metavar="TTL_MS", type=number)
@output_option
@store_options
def grant(store: Store, ttl_ms: int, output: str) -> None:
    """Make a lease that ends when it is not kept alive for TTL_MS; print its id."""
    done = store.run(lambda client: client.grant_lease(ttl_ms))
    tell(output, str(done.result.lease_id), lease_id=done.result.lease_id, ttl_ms=done.result.ttl_ms)


@lease.command("keep-alive", epilog=example("replica kv lease keep-alive 7"))
@_lease_argument
@output_option
@store_options
def keep_alive(store: Store, lease_id: LeaseId, output: str) -> None:
    """Let the lease ID live for its whole time from now on, once."""
    done = store.run(lambda client: client.keep_lease_alive(lease_id))
    tell(output, f"lives for {done.result.ttl_ms} ms", lease_id=lease_id, ttl_ms=done.result.ttl_ms)


@lease.command(epilog=example("replica kv lease revoke 7"))
@_lease_argument
@output_option
@store_options
def revoke(store: Store, lease_id: LeaseId, output: str) -> None:
    """End the lease ID and delete its keys."""
    done = store.run(lambda client: client.revoke_lease(lease_id))
    deleted = done.result.deleted
    tell(output, f"deleted {deleted}, revision {done.revision}", revision=done.revision, deleted=deleted)


@lease.command("describe", epilog=example("replica kv lease describe 7"))
@_lease_argument
@output_option
@read_options
@store_options
def describe_lease(store: Store, lease_id: LeaseId, output: str, read_from: ReadFrom) -> None:
    """Show what the lease ID has left, and its keys."""
    found = store.run(lambda client: client.describe_lease(lease_id, read_from=read_from)).result
    keys = [text(key) for key in found.keys]
    sentence = "\n".join([f"{found.left_ms} of {found.ttl_ms} ms left", *keys])
    tell(output, sentence, lease_id=lease_id, ttl_ms=found.ttl_ms, left_ms=found.left_ms, keys=keys)
