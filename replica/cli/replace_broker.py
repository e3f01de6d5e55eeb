"""``replica cluster replace-broker``: all that one broker has and does, to another. Owns the output, and the order.

First everything is looked at; then partitions move, and at last votes do. Each step is left out where it is done
already, so that the command can be given again after an interruption.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import as_table, bootstrap_option, output_option, run, timeout_option, view_config
from replica.cli.help import example
from replica.ids import ReplicaId

if TYPE_CHECKING:
    from replica.client.admin import Admin
    from replica.client.replacing import PartitionCheck

EXIT_WOULD_BE_LOST = 1


@click.command(
    "replace-broker",
    epilog=example(
        "replica cluster replace-broker --broker-id 1 --with 4 --check",
        "replica cluster replace-broker --broker-id 1 --with 4 --group kv",
    ),
)
@click.option("--broker-id", "old", type=click.IntRange(min=0), required=True, help="The broker that goes.")
@click.option("--with", "new", type=click.IntRange(min=0), required=True, metavar="ID", help="One that runs already.")
@click.option("--check", "checks_only", is_flag=True, help="Show what would be lost if the broker went now, and stop.")
@click.option("--accept-last-copies", is_flag=True, help="Go on although nobody else has some of its records.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group in which it votes; once per group.")
@click.option(
    "--at-once", type=click.IntRange(min=1), default=20, show_default=True, help="So many partitions move at a time."
)
@bootstrap_option
@output_option
@timeout_option
def replace_broker(
    old: int, new: int, bootstrap: tuple[str, ...], timeout_ms: int, output: str, groups: tuple[str, ...], **how: Any
) -> None:
    """Move everything from one broker to another: its partitions, which it leads of them, and its votes.

    Exits with 1, and nothing is changed, where the other cannot take its place, or where records would be lost if the
    broker went now: it has the last copy. With --accept-last-copies these are moved too, if the broker runs. Repeated
    after an interruption, it goes on. The broker itself is not stopped.
    """
    if old == new:
        raise click.UsageError("--with names the broker that is to be replaced")
    replacement = _Replacement(
        old=ReplicaId(old),
        new=ReplicaId(new),
        logs=(None, *dict.fromkeys(groups)),
        bootstrap=bootstrap,
        timeout_ms=timeout_ms,
    )
    checked = run(replacement.check)
    if how["checks_only"] or checked.is_refused(accept_last_copies=how["accept_last_copies"]):
        checked.show(output)
    if checked.is_refused(accept_last_copies=how["accept_last_copies"] and not how["checks_only"]):
        sys.exit(EXIT_WOULD_BE_LOST)
    if not how["checks_only"]:
        sys.exit(EXIT_WOULD_BE_LOST if run(lambda: replacement.perform(checked, how["at_once"])) else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """What there is to move, what speaks against it, and in which logs the vote has to move as well."""

    partitions: list[PartitionCheck]
    faults: list[str]
    votes_in: list[str | None]

    def is_refused(self, *, accept_last_copies: bool) -> bool:
        """Whether nothing is to be changed."""
        would_be_lost = any(row.would_be_lost for row in self.partitions)
        return bool(self.faults) or (would_be_lost and not accept_last_copies)

    def show(self, output: str) -> None:
        """Print it as a table with sentences below, or as JSON."""
        rows = [_row_of(row) for row in self.partitions]
        logs = [_name_of(log) for log in self.votes_in]
        if output == "json":
            click.echo(json.dumps({"partitions": rows, "votes_in": logs, "faults": self.faults}, indent=2))
            return
        click.echo(as_table(rows))
        click.echo(f"\nvotes in: {', '.join(logs) or 'no log'}")
        for fault in self.faults:
            click.echo(f"refused: {fault}")
        lost = sum(row.would_be_lost for row in self.partitions)
        if lost:
            click.echo(
                f"refused: it has the last copy of {lost} partitions; --accept-last-copies moves them, if it runs "
                "until that is done"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    old: ReplicaId
    new: ReplicaId
    logs: tuple[str | None, ...]
    bootstrap: tuple[str, ...]
    timeout_ms: int

    async def check(self) -> _Checked:
        """Look at everything, and change nothing."""
        from replica.client.groups.quorum import describe_quorum
        from replica.client.replacing import check_partitions, faults_of

        async with self._admin() as admin:
            described = await admin.describe_cluster()
        faults, votes_in = faults_of(described, self.old, self.new), list[str | None]()
        for log in self.logs:
            quorum = await describe_quorum(self.bootstrap, log, view_config=view_config(self.timeout_ms))
            voters = {state.replica_id for state in quorum.current_voters}
            if self.old not in voters:
                continue
            votes_in.append(log)
            if self.new not in voters | {state.replica_id for state in quorum.observers}:
                faults.append(f"broker {self.new} does not follow {_name_of(log)}; start it so that it can vote there")
        return _Checked(partitions=check_partitions(described, self.old, self.new), faults=faults, votes_in=votes_in)

    async def perform(self, checked: _Checked, at_once: int) -> bool:
        """Move partitions, then votes; tells whether anything is left."""
        from replica.client.replacing import move_all

        async with self._admin() as admin:
            left = await move_all(admin, self.old, self.new, at_once=at_once, say=click.echo)
        for log in checked.votes_in:
            await self._move_vote(log)
        for row in left:
            click.echo(f"{row.topic_partition} is left: {row.verdict}")
        if left:
            return True
        click.echo(
            f"broker {self.new} has taken the place of broker {self.old}; stop that one, and then "
            f"`replica cluster unregister --broker-id {self.old}`"
        )
        return False

    async def _move_vote(self, log: str | None) -> None:
        """First one more, then one less: a majority of either is one of the other."""
        from replica.client.groups.quorum import describe_quorum
        from replica.client.groups.voters import add_voter, remove_voter
        from replica.voters import ReplicaKey

        config = view_config(self.timeout_ms)
        quorum = await describe_quorum(self.bootstrap, log, view_config=config)
        if self.new not in {state.replica_id for state in quorum.current_voters}:
            await add_voter(self.bootstrap, log, self.new, view_config=config)
        await remove_voter(self.bootstrap, log, ReplicaKey(self.old, None), view_config=config)
        click.echo(f"broker {self.new} votes in {_name_of(log)} in the place of broker {self.old}")

    def _admin(self) -> Admin:
        from replica.client.admin import Admin

        return Admin(self.bootstrap, view_config(self.timeout_ms))


def _name_of(log: str | None) -> str:
    from replica.core.metadata.replay import METADATA_LOG

    return METADATA_LOG.topic if log is None else log


def _row_of(row: PartitionCheck) -> dict[str, Any]:
    return {
        "partition": str(row.topic_partition),
        "replicas": list(row.registration.replicas),
        "isr": list(row.registration.isr),
        "min_isr": row.min_insync_replicas,
        "becomes": None if row.target is None else list(row.target),
        "moving": row.is_moving,
        "without_it": str(row.verdict),
    }
