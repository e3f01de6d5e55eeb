"""``replica format`` and ``replica dump-log``: what touches a disk and needs no cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replica.ids import ReplicaId

if TYPE_CHECKING:
    from replica.storage.dump import DumpedBatch


@click.command("format")
@click.option(
    "--data-dir", required=True, type=click.Path(path_type=Path), envvar="REPLICA_DATA_DIR", help="Missing or empty."
)
@click.option(
    "--cluster-id", required=True, envvar="REPLICA_CLUSTER_ID", help="The same for all replicas of a cluster."
)
@click.option(
    "--replica-id", required=True, type=click.IntRange(min=0), envvar="REPLICA_REPLICA_ID", help="Its own number."
)
def format_data_directory(data_dir: Path, cluster_id: str, replica_id: int) -> None:
    """Make a directory the data directory of one replica, with an identity of its own."""
    from replica.storage import StorageError, format_directory

    try:
        meta = format_directory(data_dir, cluster_id=cluster_id, replica_id=ReplicaId(replica_id))
    except (StorageError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"formatted {data_dir} for replica {meta.replica_id} of cluster {meta.cluster_id}: "
        f"directory id {meta.directory_id}"
    )


@click.command("dump-log")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def dump_log(file: Path) -> None:
    """Print the batches of a segment FILE: offsets, epochs and whether the CRC is right.

    Exits with 1 if the file holds anything but whole, undamaged batches.
    """
    from replica.storage import StorageError
    from replica.storage.dump import dump_segment

    is_sound = True
    try:
        for row in dump_segment(file):
            click.echo(_line_of(row))
            is_sound = is_sound and row.error is None
    except StorageError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if is_sound else 1)


def _line_of(row: DumpedBatch) -> str:
    where = f"position: {row.position} size: {row.size}"
    if row.base_offset is None:
        return f"{where} error: {row.error}"
    kind = " control" if row.is_control else ""
    verdict = "ok" if row.crc_ok else "WRONG"
    line = (
        f"offsets: {row.base_offset}..{row.last_offset} epoch: {row.leader_epoch} records: {row.record_count}{kind} "
        f"{where} crc: {verdict}"
    )
    return line if row.error is None else f"{line} error: {row.error}"
