"""``replica dump-log``: what is in the files of a log, whoever wrote them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from replica.cli.client import time_of
from replica.cli.help import example

if TYPE_CHECKING:
    from replica.core.metadata.records import MetadataRecord
    from replica.records import RecordBatch
    from replica.storage.dump import DumpedBatch
    from replica.voters import VoterSet

METADATA_FOLDER = "__cluster_metadata-0"
"""Where the cluster's decisions stand."""


@click.command("dump-log", epilog=example("replica dump-log data/1/orders-0/00000000000000000000.log"))
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--records/--no-records", default=None, help="Print the records too; without, only those of the metadata log."
)
def dump_log(file: Path, records: bool | None) -> None:
    """Print the batches of a segment FILE: offsets, epochs, producers and whether the CRC is right.

    Of a producer snapshot (*.snapshot), the producers and their newest batches; of a state machine's (*.checkpoint),
    what it is of and how much it holds, and of the metadata's the records; of a group's back-up (*.backup), that and
    where it is from. Exits with 1 if the file is damaged.
    """
    from replica.storage import StorageError
    from replica.storage.dump import dump_segment

    if file.suffix == ".snapshot":
        _print_snapshot(file)
        return
    if file.suffix in (".checkpoint", ".backup"):
        _print_state(file)
        return
    is_metadata = _is_of_metadata(file)
    shows_records = is_metadata if records is None else records
    is_sound = True
    try:
        for row in dump_segment(file):
            click.echo(_line_of(row))
            if shows_records and row.batch is not None and row.error is None:
                is_sound &= _print_records(row.batch, is_metadata=is_metadata)
            is_sound = is_sound and row.error is None
    except StorageError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if is_sound else 1)


def _print_snapshot(file: Path) -> None:
    from replica.storage import StorageError
    from replica.storage.producer_snapshots import read_snapshot

    try:
        entries = read_snapshot(file)
    except StorageError as error:
        click.echo(f"error: {error}")
        sys.exit(1)
    for entry in entries:
        for batch in entry.batches:
            click.echo(
                f"producer: {entry.producer_id} producer-epoch: {entry.producer_epoch} "
                f"sequences: {batch.base_sequence}..{batch.last_sequence} "
                f"offsets: {batch.base_offset}..{batch.end_offset - 1} timestamp: {batch.max_timestamp_ms}"
            )


def _print_state(file: Path) -> None:
    from replica.core.quorum.snapshot_header import split_snapshot
    from replica.machines.machine import CorruptSnapshotError
    from replica.storage import StorageError
    from replica.storage.group_backup import read_backup

    try:
        backup = read_backup(file) if file.suffix == ".backup" else None
        voters, content = split_snapshot(file.read_bytes() if backup is None else backup.snapshot)
        lines = _lines_of_metadata(file, content) if _is_of_metadata(file) else _lines_of_machine(content)
    except (CorruptSnapshotError, StorageError, OSError) as error:
        click.echo(f"error: {error}")
        sys.exit(1)
    if backup is not None:
        click.echo(
            f"group: {backup.group} cluster: {backup.cluster_id} machine: {backup.machine} release: {backup.release} "
            f"taken: {time_of(backup.taken_ms)}"
        )
    click.echo("\n".join(lines))
    click.echo(f"  {_voters_line(voters.latest)}")


def _lines_of_machine(content: bytes) -> list[str]:
    from replica.machines.snapshots import decode_state, unsealed

    state = decode_state(unsealed(content))
    return [
        f"end-offset: {state.applied_offset} epoch: {state.applied_epoch} machine: {state.name} "
        f"log-time: {state.log_time_ms} sessions: {len(state.sessions)} machine-bytes: {len(state.machine)} crc: ok"
    ]


def _lines_of_metadata(file: Path, content: bytes) -> list[str]:
    """The records of an image, as those of a segment are shown."""
    from replica.core.metadata.snapshots import decode_image, records_of_image
    from replica.machines import Snapshot
    from replica.machines.machine import CorruptSnapshotError
    from replica.storage.snapshots import snapshot_id_of

    snapshot_id = snapshot_id_of(file.name)
    if snapshot_id is None:
        raise CorruptSnapshotError(f"{file.name} is not the name of a snapshot")
    records = list(records_of_image(decode_image(Snapshot(id=snapshot_id, data=content))))
    head = f"end-offset: {snapshot_id.end_offset} epoch: {snapshot_id.epoch} records: {len(records)} crc: ok"
    return [head, *(f"  {_told_of(record)}" for record in records)]


def _is_of_metadata(file: Path) -> bool:
    return file.absolute().parent.name == METADATA_FOLDER


def _told_of(record: MetadataRecord) -> str:
    """One decision, as JSON behind the name of its class."""
    return f"{type(record).__name__} {msgspec.json.encode(record).decode()}"


def _line_of(row: DumpedBatch) -> str:
    where = f"position: {row.position} size: {row.size}"
    if row.base_offset is None or row.batch is None:
        return f"{where} error: {row.error}"
    kind = " control" if row.is_control else ""
    verdict = "ok" if row.crc_ok else "WRONG"
    line = (
        f"offsets: {row.base_offset}..{row.last_offset} epoch: {row.leader_epoch} records: {row.record_count}{kind} "
        f"{_origin_of(row.batch)}{where} crc: {verdict}"
    )
    return line if row.error is None else f"{line} error: {row.error}"


def _origin_of(batch: RecordBatch) -> str:
    """Tell what a producer has put into the header beside its records; nothing where it has not."""
    parts = []
    if batch.is_idempotent:
        sequences = f"{batch.base_sequence}..{batch.last_sequence}"
        parts += [
            f"producer: {batch.producer_id}",
            f"producer-epoch: {batch.producer_epoch}",
            f"sequences: {sequences}",
        ]
    if batch.compression != "none":
        parts.append(f"compression: {batch.compression}")
    return "".join(f"{part} " for part in parts)


def _print_records(batch: RecordBatch, *, is_metadata: bool) -> bool:
    """Print what is inside a batch, a line each. Returns whether it could be read."""
    from replica.core.metadata.encoding import CorruptMetadataRecordError, decode_record
    from replica.records import CorruptRecordError, decode_leader_change, decode_records, decode_voters

    try:
        change = decode_leader_change(batch)
        if change is not None:
            voters = ",".join(map(str, change.voters))
            granting = ",".join(map(str, change.granting_voters))
            click.echo(f"  leader: {change.leader_id} voters: {voters} granted by: {granting}")
            return True
        named = decode_voters(batch)
        if named is not None:
            click.echo(f"  {_voters_line(named)}")
            return True
        for record in decode_records(batch):
            if is_metadata:
                click.echo(f"  {record.offset}: {_told_of(decode_record(record.value or b''))}")
                continue
            headers = "".join(f" {name}: {_text(content)}" for name, content in record.headers)
            time = "" if record.timestamp_ms < 0 else f" timestamp: {record.timestamp_ms}"
            key = "" if record.key is None else f" key: {_text(record.key)}"
            click.echo(f"  {record.offset}:{time}{key} value: {_text(record.value)}{headers}")
    except (CorruptRecordError, CorruptMetadataRecordError) as error:
        click.echo(f"  error: {error}")
        return False
    return True


def _voters_line(voters: VoterSet) -> str:
    shown = (f"{voter.replica_id}={voter.address}={voter.directory_id}" for voter in voters.voters)
    return f"voters: {','.join(shown)}"


def _text(content: bytes | None) -> str:
    return "null" if content is None else content.decode(errors="backslashreplace")
