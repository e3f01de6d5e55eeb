"""``replica format``, ``format-log-dir`` and ``random-id``: how a disk gets its identity, and who votes at first.

Owns the options and what must hold between them. Source: Kafka's ``kafka-storage format``; KIP-853.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.cli.help import example
from replica.ids import ReplicaId

if TYPE_CHECKING:
    from replica.voters import VoterSet


@click.command(
    "format",
    epilog=example(
        "replica format --data-dir data/1 --cluster-id demo --replica-id 1 --standalone",
        "replica format --data-dir new/1 --cluster-id new --replica-id 1 --standalone --from-backup kv.backup",
    ),
)
@click.option(
    "--data-dir", required=True, type=click.Path(path_type=Path), envvar="REPLICA_DATA_DIR", help="Missing or empty."
)
@click.option(
    "--cluster-id", required=True, envvar="REPLICA_CLUSTER_ID", help="The same for all replicas of a cluster."
)
@click.option(
    "--replica-id", required=True, type=click.IntRange(min=0), envvar="REPLICA_REPLICA_ID", help="Its own number."
)
@click.option(
    "--initial-voters",
    metavar="ID=HOST:PORT=DIRECTORY_ID,...",
    help="Who votes at first; the same on every one of them. The entry of this replica gives its directory id.",
)
@click.option("--standalone", is_flag=True, help="This replica alone votes at first; with --advertised-address.")
@click.option("--no-initial-voters", is_flag=True, help="This disk has no vote until it is added to the voters.")
@click.option("--advertised-address", metavar="HOST:PORT", help="Where others reach this replica; for --standalone.")
@click.option("--level", type=click.IntRange(min=1), help="The feature level of a new cluster; by default the newest.")
@click.option("--directory-id", help="The id of this disk, by `replica random-id`; without, a fresh one is drawn.")
@click.option(
    "--from-backup",
    "backups",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Begin a group as it is in this file, by `replica group backup`; once per group, the same on every voter.",
)
def format_data_directory(
    data_dir: Path,
    cluster_id: str,
    replica_id: int,
    level: int | None,
    backups: tuple[Path, ...],
    **choice: Any,
) -> None:
    """Make a directory the data directory of one replica, with an identity of its own.

    Say who votes at first, by one of --initial-voters, --standalone and --no-initial-voters; voters can be added and
    removed later.
    """
    from replica.core.metadata.levels import FIRST_LEVEL, NEWEST_LEVEL
    from replica.rpc.addresses import InvalidAddressError
    from replica.storage import StorageError, format_directory
    from replica.storage.group_backup import read_backup

    chosen = _FormatChoice(replica_id=ReplicaId(replica_id), **choice)
    if chosen.no_initial_voters and level is not None:
        raise click.UsageError("--level is for the first voters of a cluster: whoever joins is at the cluster's level")
    try:
        own_directory_id, voters = chosen.identity()
        restored = [read_backup(backup) for backup in backups]
        meta = format_directory(
            data_dir,
            cluster_id=cluster_id,
            replica_id=ReplicaId(replica_id),
            directory_id=own_directory_id,
            initial_voters=voters,
            feature_level=FIRST_LEVEL if chosen.no_initial_voters else level or NEWEST_LEVEL,
            restored=restored,
        )
    except (InvalidAddressError, StorageError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"formatted {data_dir} for replica {meta.replica_id} of cluster {meta.cluster_id}: "
        f"directory id {meta.directory_id}{_told(voters)}"
    )
    for backup in restored:
        click.echo(
            f"group {backup.group} begins at offset {backup.end_offset}, as it was in cluster {backup.cluster_id}; "
            f"start with --group {backup.group}={backup.machine}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormatChoice:
    """Who is to vote at first, as the options say it."""

    replica_id: ReplicaId
    initial_voters: str | None
    standalone: bool
    no_initial_voters: bool
    advertised_address: str | None
    directory_id: str | None

    def identity(self) -> tuple[str | None, VoterSet]:
        """The directory id, absent for a fresh one, and the voters. Raises click.UsageError, InvalidAddressError."""
        from replica.rpc.addresses import check_directory_id
        from replica.voters import VoterSet

        if sum((self.initial_voters is not None, self.standalone, self.no_initial_voters)) != 1:
            raise click.UsageError(
                "give one of --initial-voters, --standalone and --no-initial-voters: who votes at first; a disk that "
                "replaces another, or joins, has --no-initial-voters"
            )
        if self.advertised_address is not None and not self.standalone:
            raise click.UsageError("--advertised-address is for --standalone; otherwise `replica start` has it")
        if self.directory_id is not None:
            check_directory_id(self.directory_id)
        if self.initial_voters is not None:
            return self._listed(self.initial_voters)
        if self.standalone:
            return self._alone()
        return self.directory_id, VoterSet(())

    def _listed(self, text: str) -> tuple[str | None, VoterSet]:
        from replica.rpc.addresses import parse_voters

        voters = parse_voters(text.split(","))
        own = voters.find(self.replica_id)
        if own is None:
            raise click.UsageError(
                f"replica {self.replica_id} is not among --initial-voters; to join later, use --no-initial-voters"
            )
        if self.directory_id not in (None, own.directory_id):
            raise click.UsageError(
                f"--directory-id is {self.directory_id}, and --initial-voters says {own.directory_id}"
            )
        return own.directory_id, voters

    def _alone(self) -> tuple[str, VoterSet]:
        from replica.rpc.addresses import check_address
        from replica.storage.meta_properties import random_directory_id
        from replica.voters import Voter, VoterSet

        if self.advertised_address is None:
            raise click.UsageError("--standalone needs --advertised-address: where other voters will reach this one")
        check_address(self.advertised_address)
        directory_id = self.directory_id or random_directory_id()
        voter = Voter(replica_id=self.replica_id, directory_id=directory_id, address=self.advertised_address)
        return directory_id, VoterSet((voter,))


def _told(voters: VoterSet) -> str:
    if not voters.voters:
        return ", no vote until it is added"
    return f", initial voters {','.join(map(str, voters.ids))}"


@click.command("format-log-dir", epilog=example("replica format-log-dir --data-dir data/1 disk/a disk/b"))
@click.option(
    "--data-dir", required=True, type=click.Path(path_type=Path), envvar="REPLICA_DATA_DIR", help="Formatted already."
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
def format_log_directories(data_dir: Path, paths: tuple[Path, ...]) -> None:
    """Make missing or empty directories log directories of a replica: for `replica start --log-dir`."""
    from replica.storage import StorageError, format_log_directory

    for path in paths:
        try:
            meta = format_log_directory(path, data_dir=data_dir)
        except StorageError as error:
            raise click.ClickException(str(error)) from error
        click.echo(f"formatted {path} as a log directory of {data_dir}: directory id {meta.directory_id}")


@click.command("random-id", epilog=example("replica random-id"))
def random_id() -> None:
    """Print a fresh directory id, for `replica format`."""
    from replica.storage.meta_properties import random_directory_id

    click.echo(random_directory_id())
