"""``replica topic reassign`` and ``replica topic reassignments``: moving partitions to other brokers.

Owns the output of these commands, and how replicas are written. The words of options and errors are ``client``'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from replica.cli.client import bootstrap_option, output_option, show, timeout_option, with_admin
from replica.cli.help import example

if TYPE_CHECKING:
    from replica.client.admin import Admin
    from replica.core.messages import OngoingPartitionReassignment
    from replica.ids import TopicPartition


def replica_ids(entry: str) -> list[int]:
    """Read ``1,2,3``; anything else is a usage error."""
    try:
        return [int(replica) for replica in entry.split(",")]
    except ValueError:
        raise click.UsageError(f"--assignment {entry!r} is not a list of broker ids (for example 1,2,3)") from None


@click.command(epilog=example("replica topic reassign orders --assignment 3,2,1 --partition 0"))
@click.argument("name", metavar="TOPIC")
@bootstrap_option
@click.option(
    "--assignment",
    "entries",
    multiple=True,
    metavar="ID,ID,...",
    help="The replicas that a partition is to have, preferred leader first; once per partition.",
)
@click.option("--cancel", is_flag=True, help="Go back to the replicas of before, where a move is under way.")
@click.option(
    "--partition",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Which partition, in the order of the assignments; all of the topic without it.",
)
@timeout_option
def reassign(
    name: str,
    bootstrap: tuple[str, ...],
    entries: tuple[str, ...],
    cancel: bool,
    numbers: tuple[int, ...],
    timeout_ms: int,
) -> None:
    """Move partitions of TOPIC to other brokers, while they are written and read.

    The command begins the move; `replica topic reassignments` shows what is not done yet. Replicas that come copy the
    log first; those that go delete theirs once all others are in sync.
    """
    if cancel == bool(entries):
        raise click.UsageError("name the replicas with --assignment, or --cancel")
    if len(set(numbers)) != len(numbers):
        raise click.UsageError(f"--partition names one twice: {', '.join(map(str, numbers))}")
    targets = [replica_ids(entry) for entry in entries]

    async def begin(admin: Admin) -> list[TopicPartition]:
        chosen = await (_moving(admin, name, numbers) if cancel else _chosen(admin, name, numbers, len(targets)))
        await admin.alter_partition_reassignments(
            dict.fromkeys(chosen) if cancel else dict(zip(chosen, targets, strict=True))
        )
        return chosen

    for number, partition in enumerate(with_admin(bootstrap, timeout_ms, begin)):
        click.echo(f"{partition} {'goes back to its replicas of before' if cancel else f'moves to {entries[number]}'}")


async def _chosen(admin: Admin, name: str, numbers: tuple[int, ...], count: int) -> list[TopicPartition]:
    """The partitions that the assignments are for."""
    from replica.ids import TopicPartition

    wanted = numbers or tuple(sorted((await admin.describe_topic(name)).partitions))
    if len(wanted) != count:
        raise click.UsageError(f"--assignment is needed once per partition: {len(wanted)} times, not {count}")
    return [TopicPartition(name, number) for number in wanted]


async def _moving(admin: Admin, name: str, numbers: tuple[int, ...]) -> list[TopicPartition]:
    """The partitions that are to stay: those that are named, or all of the topic that move."""
    from replica.client.failures import AdminError
    from replica.errors import ErrorCode
    from replica.ids import TopicPartition

    if numbers:
        return [TopicPartition(name, number) for number in numbers]
    moving = [ongoing.topic_partition for ongoing in await admin.list_partition_reassignments([name])]
    if not moving:
        error = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        raise AdminError(f"{error}: no partition of {name} is being reassigned", error=error)
    return moving


@click.command(epilog=example("replica topic reassignments"))
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@bootstrap_option
@output_option
@timeout_option
def reassignments(names: tuple[str, ...], bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show the partitions that are moving, of all topics or of each TOPIC."""

    async def ask(admin: Admin) -> tuple[OngoingPartitionReassignment, ...]:
        return await admin.list_partition_reassignments(names or None)

    rows = [
        {
            "topic": ongoing.topic_partition.topic,
            "partition": ongoing.topic_partition.partition,
            "replicas": list(ongoing.replicas),
            "adding_replicas": list(ongoing.adding_replicas),
            "removing_replicas": list(ongoing.removing_replicas),
        }
        for ongoing in with_admin(bootstrap, timeout_ms, ask)
    ]
    show(rows, output)
