"""``replica group``: the whole state of a group in a file. Owns the output of these commands.

How a disk begins with such a file is ``format``'s.
"""

from __future__ import annotations

from pathlib import Path

import click

from replica.cli.client import bootstrap_option, release, run, time_of, timeout_option, view_config
from replica.cli.help import Group, example


@click.group(cls=Group)
def group() -> None:
    """Back up the state machine of a group."""


@group.command(epilog=example("replica group backup kv --output kv.backup"))
@click.argument("name", metavar="GROUP")
@click.option("--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="A new file.")
@bootstrap_option
@timeout_option
def backup(name: str, output: Path, bootstrap: tuple[str, ...], timeout_ms: int) -> None:
    """Write the state of GROUP into a file, while it is used: everything that was acknowledged before.

    A cluster begins with it by `replica format --from-backup`. The snapshot is held in memory until it is whole.
    Each piece may take --timeout-ms; the first waits until the leader has taken a snapshot, one in 5 seconds at most.
    """
    from replica.client.clock import SystemClock
    from replica.client.groups.snapshot import GroupState, fetch_state
    from replica.storage import StorageError
    from replica.storage.group_backup import group_backup, write_backup

    async def load() -> GroupState:
        return await fetch_state(bootstrap, name, view_config=view_config(timeout_ms))

    if output.exists():
        raise click.ClickException(f"{output} exists already; choose another name")
    state = run(load)
    try:
        made = group_backup(
            cluster_id=state.cluster_id,
            group=name,
            snapshot=state.snapshot,
            release=release(),
            taken_ms=SystemClock().since_1970_ms(),
        )
        write_backup(output, made)
    except StorageError as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"{output}: group {name} of cluster {made.cluster_id}, machine {made.machine}, all below offset "
        f"{made.end_offset}, {len(made.snapshot)} bytes, {time_of(made.taken_ms)}"
    )
