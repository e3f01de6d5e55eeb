"""``replica acl``: who may do what. Owns the words for an entry of the access control list, and the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import bootstrap_option, output_option, show, timeout_option, with_admin
from replica.cli.help import Group, example

if TYPE_CHECKING:
    from replica.core.metadata.acls import Acl

OPERATIONS = ("all", "read", "write", "create", "delete", "alter", "describe")
_RESOURCES = {
    "topic": "Topics of this name; `*` for all.",
    "topic_prefix": "Topics whose names begin so.",
    "group": "Groups of this name; `*` for all.",
    "group_prefix": "Groups whose names begin so.",
}


@click.group(cls=Group)
def acl() -> None:
    """Say who may do what, where replicas run with --authorizer acl."""


def _entry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command name entries: each operation for each principal on each resource."""
    command = click.option("--deny", is_flag=True, help="Deny it, whatever else allows it.")(command)
    command = click.option("--cluster", is_flag=True, help="The cluster itself.")(command)
    for name, explanation in reversed(_RESOURCES.items()):
        command = click.option(f"--{name.replace('_', '-')}", name, multiple=True, metavar="NAME", help=explanation)(
            command
        )
    command = click.option(
        "--operation", "operations", multiple=True, required=True, type=click.Choice(OPERATIONS), help="What; several."
    )(command)
    return click.option(
        "--principal", "principals", multiple=True, required=True, metavar="User:NAME", help="Who; User:* for all."
    )(command)


def _entries(values: dict[str, Any]) -> list[Acl]:
    from replica.core.metadata.acls import THE_CLUSTER, Acl, Operation, PatternType, Permission, ResourceType, acl_fault

    resources = [
        (ResourceType(option.partition("_")[0]), PatternType.PREFIXED if "_" in option else PatternType.LITERAL, name)
        for option in _RESOURCES
        for name in values[option]
    ]
    if values["cluster"]:
        resources.append((ResourceType.CLUSTER, PatternType.LITERAL, THE_CLUSTER))
    if not resources:
        raise click.UsageError("an entry is about something: give --topic, --group, one of their prefixes or --cluster")
    entries = [
        Acl(
            principal=principal,
            permission=Permission.DENY if values["deny"] else Permission.ALLOW,
            operation=Operation(operation),
            resource_type=resource_type,
            pattern_type=pattern_type,
            name=name,
        )
        for principal in values["principals"]
        for operation in values["operations"]
        for resource_type, pattern_type, name in resources
    ]
    for entry in entries:
        if (fault := acl_fault(entry)) is not None:
            raise click.UsageError(fault)
    return entries


@acl.command(
    epilog=example(
        "replica acl add --principal User:shop --operation write --topic orders",
        "replica acl add --principal User:reports --operation read --topic-prefix orders-",
        "replica acl add --principal User:intern --operation all --topic '*' --deny",
    )
)
@_entry_options
@bootstrap_option
@timeout_option
def add(bootstrap: tuple[str, ...], timeout_ms: int, **values: Any) -> None:
    """Add entries: each operation for each principal on each resource. Those that there are already stay."""
    entries = _entries(values)
    with_admin(bootstrap, timeout_ms, lambda admin: admin.create_acls(entries))
    click.echo("\n".join(map(told, entries)))


@acl.command(epilog=example("replica acl remove --principal User:shop --operation write --topic orders"))
@_entry_options
@bootstrap_option
@timeout_option
def remove(bootstrap: tuple[str, ...], timeout_ms: int, **values: Any) -> None:
    """Remove exactly these entries, named as they were added. Those that there are not are passed over."""
    entries = _entries(values)
    with_admin(bootstrap, timeout_ms, lambda admin: admin.delete_acls(entries))
    click.echo("\n".join(map(told, entries)))


@acl.command("list", epilog=example("replica acl list"))
@bootstrap_option
@output_option
@timeout_option
def list_acls(bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show all entries."""
    show([_row(entry) for entry in with_admin(bootstrap, timeout_ms, lambda admin: admin.describe_acls())], output)


def told(entry: Acl) -> str:
    """An entry in words."""
    what = str(entry.resource_type) if entry.resource_type == "cluster" else f"{entry.resource_type} {entry.name}"
    star = "*" if entry.pattern_type == "prefixed" else ""
    return f"{entry.permission} {entry.principal} {entry.operation} {what}{star}"


def _row(entry: Acl) -> dict[str, Any]:
    return {
        "principal": entry.principal,
        "permission": entry.permission.value,
        "operation": entry.operation.value,
        "resource_type": entry.resource_type.value,
        "pattern_type": entry.pattern_type.value,
        "name": entry.name,
    }
