"""``replica quorum add-voter`` and ``remove-voter``: who votes in which logs.

Owns their options and output. Exit code 1: definitely not changed; 3: unknown. Of several logs, those that were said to
be changed are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from replica.cli.client import bootstrap_option, run, timeout_option, view_config
from replica.cli.help import example

if TYPE_CHECKING:
    from replica.ids import ReplicaId

_log_option = click.option(
    "--log",
    "logs",
    required=True,
    multiple=True,
    metavar="NAME",
    help="In this log: a group's name, or __cluster_metadata. Once per log; they are changed one after another.",
)


@click.command("add-voter", epilog=example("replica quorum add-voter --log __cluster_metadata --voter 4"))
@_log_option
@click.option("--voter", required=True, metavar="ID[=HOST:PORT]", help="The new voter, and where others reach it.")
@click.option("--directory-id", metavar="ID", help="Of its disk; without, it is asked.")
@bootstrap_option
@timeout_option
def add_voter(
    logs: tuple[str, ...], voter: str, directory_id: str | None, bootstrap: tuple[str, ...], timeout_ms: int
) -> None:
    """Let a replica vote that runs and fetches already, once it has caught up.

    It was formatted with --no-initial-voters. While another change is under way this waits, up to --timeout-ms for each
    log. Without HOST:PORT the new voter is where the cluster dials it now.
    """
    from replica.rpc.addresses import check_directory_id

    if directory_id is not None:
        _checked(lambda: check_directory_id(directory_id))
    replica_id, address = _voter_from(voter)

    async def change(log: str) -> str:
        from replica.client.groups.voters import add_voter

        added = await add_voter(
            bootstrap,
            _group_of(log),
            replica_id,
            address=address,
            directory_id=directory_id,
            view_config=view_config(timeout_ms),
        )
        return f"replica {replica_id} votes in {log}: directory id {added.directory_id}, address {added.address}"

    _change_each(logs, change)


@click.command("remove-voter", epilog=example("replica quorum remove-voter --log __cluster_metadata --voter 4"))
@_log_option
@click.option("--voter", "replica_id", type=click.IntRange(min=0), required=True, metavar="ID")
@click.option("--directory-id", metavar="ID", help="On this disk alone, as `describe` shows it.")
@bootstrap_option
@timeout_option
def remove_voter(
    logs: tuple[str, ...], replica_id: int, directory_id: str | None, bootstrap: tuple[str, ...], timeout_ms: int
) -> None:
    """Let a voter vote no more, whether it runs or not. It goes on fetching.

    A leader that is removed leads until that is committed.
    """

    async def change(log: str) -> str:
        from replica.client.groups.voters import remove_voter
        from replica.ids import ReplicaId
        from replica.voters import ReplicaKey

        key = ReplicaKey(ReplicaId(replica_id), directory_id)
        await remove_voter(bootstrap, _group_of(log), key, view_config=view_config(timeout_ms))
        return f"replica {replica_id} votes no more in {log}"

    _change_each(logs, change)


def _change_each(logs: Sequence[str], change: Callable[[str], Awaitable[str]]) -> None:
    """Change one log after the other, and say each as it is done; the first that fails ends it."""
    for log in dict.fromkeys(logs):
        click.echo(run(partial(change, log)))


def _group_of(log: str) -> str | None:
    """The group whose log has this name; absent for the metadata log."""
    from replica.core.metadata.replay import METADATA_LOG

    return None if log == METADATA_LOG.topic else log


def _voter_from(text: str) -> tuple[ReplicaId, str | None]:
    from replica.ids import ReplicaId
    from replica.rpc.addresses import check_address

    number, equals, address = text.partition("=")
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        raise click.UsageError(f"--voter {text!r} is neither ID nor ID=HOST:PORT (for example 4=127.0.0.1:9092)")
    if equals:
        _checked(lambda: check_address(address))
    return ReplicaId(int(number)), address if equals else None


def _checked(check: Callable[[], None]) -> None:
    from replica.rpc.addresses import InvalidAddressError

    try:
        check()
    except InvalidAddressError as error:
        raise click.UsageError(str(error)) from error
