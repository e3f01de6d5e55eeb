"""``replica topic backup`` and ``restore``: the records of a topic in a folder, and a topic with these records.

Owns the order of the steps and what is printed. The folder is ``storage.topic_backup``'s, the way of the batches
``client.copying``'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from replica.cli.client import bootstrap_option, release, run, time_of, timeout_option, view_config
from replica.cli.help import example

if TYPE_CHECKING:
    from replica.client.admin import Admin
    from replica.client.cluster_view import ClusterView
    from replica.client.copying import BatchReader
    from replica.core.metadata.image import TopicImage
    from replica.ids import TopicPartition
    from replica.storage.topic_backup import PartitionBackup, TopicBackup

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AT_ONCE = 8
"""So many partitions are copied side by side."""
LIMIT = str((1 << 63) - 1)
WHILE_RESTORED = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str((1 << 31) - 1),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": LIMIT,
    "message.timestamp.after.max.ms": LIMIT,
}
"""Settings of a topic that is being restored: records keep their times, however old, and none is deleted meanwhile."""


@click.command("backup", epilog=example("replica topic backup orders --output backups/orders"))
@click.argument("name", metavar="TOPIC")
@click.option("--output", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The folder.")
@bootstrap_option
@timeout_option
def topic_backup(name: str, folder: Path, bootstrap: tuple[str, ...], timeout_ms: int) -> None:
    """Copy the committed records of TOPIC and its settings into a folder, while it is used.

    Of each partition, all that was committed when the command began. Where the folder holds a back-up of the topic,
    only what came since is added to it. One that is broken off leaves the folder as it was. Each piece may take
    --timeout-ms.
    """

    before = _of_storage(lambda: _manifest_of(folder))
    made = _of_storage(
        lambda: _with_view(bootstrap, timeout_ms, lambda admin, view: copy_topic(admin, view, name, folder))
    )
    known = {} if before is None else {one.partition: one.end_offset for one in before.partitions}
    for one in made.partitions:
        added = one.end_offset - known.get(one.partition, one.base_offset)
        click.echo(f"{made.name_of(one)}: offsets {one.start_offset} to {one.end_offset}, {added} of them new")
    click.echo(f"{folder}: topic {name} of cluster {made.cluster_id}, {time_of(made.taken_ms)}")


@click.command("restore", epilog=example("replica topic restore backups/orders --topic orders-again"))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--topic", "name", metavar="NAME", help="What it is to be called; as it was, without.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Replicas per partition.")
@bootstrap_option
@timeout_option
def topic_restore(
    folder: Path, name: str | None, replication_factor: int | None, bootstrap: tuple[str, ...], timeout_ms: int
) -> None:
    """Create a topic with the records of a back-up, in their order, and with its settings.

    The whole folder is checked first. Offsets begin at 0: where the back-up begins later, all are smaller by that. Let
    nobody write to the topic before the command has ended. One that was broken off leaves a topic that is not whole:
    delete it, and begin again.
    """
    backup = _of_storage(lambda: _whole(folder))
    wanted = backup.topic if name is None else name

    _of_storage(
        lambda: _with_view(
            bootstrap,
            timeout_ms,
            lambda admin, view: restore_topic(admin, view, folder, backup, wanted, replication_factor),
        )
    )
    for one in backup.partitions:
        shift = f"; offsets are smaller by {one.base_offset} than before" if one.base_offset else ""
        click.echo(f"{wanted}-{one.partition}: {one.end_offset - one.start_offset} records{shift}")
    click.echo(f"restored {wanted}, as it was in cluster {backup.cluster_id} at {time_of(backup.taken_ms)}")


# --- the steps ------------------------------------------------------------------------------------------------------


async def copy_topic(admin: Admin, view: ClusterView, name: str, folder: Path) -> TopicBackup:
    """Add what is committed now to the folder. Raises ClientError, StorageError, ClickException."""
    from replica.client.copying import BatchReader
    from replica.storage.topic_backup import TopicBackup, write_manifest

    described, image = await admin.describe_cluster([name]), await admin.describe_topic(name)
    reader, before = BatchReader(view, image.topic_id), _found(folder, image)

    async def copy_one(number: int) -> PartitionBackup:
        known = () if before is None else before.partitions[number : number + 1]
        return await _copy_partition(reader, folder, image, number, known[0] if known else None)

    made = TopicBackup(
        topic=name,
        topic_id=image.topic_id,
        cluster_id=described.cluster_id,
        release=release(),
        taken_ms=view.clock.since_1970_ms(),
        configs=dict(sorted(image.configs.items())),
        partitions=tuple(await _each(copy_one, sorted(image.partitions))),
    )
    write_manifest(folder, made)
    return made


async def restore_topic(
    admin: Admin, view: ClusterView, folder: Path, backup: TopicBackup, name: str, replication_factor: int | None
) -> None:
    """Create the topic and write all records. Raises ClickException, which says where the topic is not whole."""
    from replica.client.failures import AdminError, ClientError
    from replica.errors import ErrorCode
    from replica.storage import StorageError

    try:
        await admin.create_topic(
            name,
            partition_count=len(backup.partitions),
            replication_factor=replication_factor,
            configs={**backup.configs, **WHILE_RESTORED},
        )
    except AdminError as error:
        if error.error is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        raise click.ClickException(
            f"{name} exists already; choose another name with --topic, or delete it if an interrupted restore left it"
        ) from error
    try:
        await _fill(admin, view, folder, backup, name)
    except (ClientError, StorageError) as error:
        raise click.ClickException(f"{error}; {name} is not whole: delete it, and begin again") from error


async def _fill(admin: Admin, view: ClusterView, folder: Path, backup: TopicBackup, name: str) -> None:
    from replica.client.copying import BatchWriter
    from replica.ids import TopicPartition
    from replica.storage.topic_backup import read_partition

    await view.wait_topic(name, view.deadline())
    writer = BatchWriter(view)

    async def write_one(one: PartitionBackup) -> None:
        partition = TopicPartition(name, one.partition)
        await writer.write(partition, read_partition(folder, backup, one))
        if one.start_offset > one.base_offset:
            await admin.delete_records({partition: one.start_offset - one.base_offset})

    await _each(write_one, backup.partitions)
    await admin.alter_topic(name, {setting: backup.configs.get(setting) for setting in WHILE_RESTORED})


# --- the folder -----------------------------------------------------------------------------------------------------


def _manifest_of(folder: Path) -> TopicBackup | None:
    from replica.storage.topic_backup import read_manifest

    return read_manifest(folder)


def _whole(folder: Path) -> TopicBackup:
    """The back-up in a folder, all of which was read."""
    from replica.storage.topic_backup import CorruptTopicBackupError, check_whole

    backup = _manifest_of(folder)
    if backup is None:
        raise CorruptTopicBackupError(f"{folder} holds no back-up, or one that was never finished: no manifest.json")
    check_whole(folder, backup)
    return backup


def _found(folder: Path, image: TopicImage) -> TopicBackup | None:
    """The back-up that is to be continued, if there is one; it must be of this very topic."""
    backup = _manifest_of(folder)
    if backup is not None and (backup.topic, backup.topic_id) != (image.name, image.topic_id):
        raise click.ClickException(
            f"{folder} holds a back-up of topic {backup.topic} with id {backup.topic_id}, and {image.name} has id "
            f"{image.topic_id}; choose another folder"
        )
    return backup


async def _copy_partition(
    reader: BatchReader, folder: Path, image: TopicImage, number: int, before: PartitionBackup | None
) -> PartitionBackup:
    """Add what is committed of a partition now to what there is of it."""
    from replica.ids import TopicPartition
    from replica.storage.topic_backup import PartitionBackup, SegmentWriter

    name = TopicPartition(image.name, number)
    begins, end = await reader.offset(name, latest=False), await reader.offset(name, latest=True)
    before = before or PartitionBackup(partition=number, start_offset=begins)
    _check_continues(name, before, begins, end)
    writer = SegmentWriter(folder, name)
    async for batch in reader.batches(name, before.end_offset, end, before.last_epoch):
        writer.append(batch)
    segment = writer.finish()
    if segment is not None and before.segments and segment.base_offset != before.end_offset:
        raise click.ClickException(f"{name} has no batch that begins at {before.end_offset}, where the back-up ends")
    return PartitionBackup(
        partition=number,
        start_offset=before.start_offset,
        segments=before.segments if segment is None else (*before.segments, segment),
    )


def _check_continues(name: TopicPartition, before: PartitionBackup, begins: int, end: int) -> None:
    if begins > before.end_offset:
        raise click.ClickException(
            f"{name} begins at offset {begins} now, and the back-up ends at {before.end_offset}: the records between "
            "were deleted; begin a new back-up in another folder"
        )
    if end < before.end_offset:
        raise click.ClickException(
            f"{name} ends at offset {end} now, and the back-up at {before.end_offset}: records were lost; keep this "
            "back-up, and begin a new one in another folder"
        )


# --- running --------------------------------------------------------------------------------------------------------


def _with_view(
    bootstrap: Sequence[str], timeout_ms: int, act: Callable[[Admin, ClusterView], Awaitable[ResultT]]
) -> ResultT:
    """Run what needs an administrator and a view of the cluster of its own."""

    async def action() -> ResultT:
        from replica.client.admin import Admin
        from replica.client.cluster_view import ClusterView

        config = view_config(timeout_ms)
        view = ClusterView(bootstrap, config)
        try:
            async with Admin(bootstrap, config) as admin:
                return await act(admin, view)
        finally:
            await view.close()

    return run(action)


async def _each(act: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]) -> list[ResultT]:
    """Do it for each, a few side by side; the first that fails ends all."""
    import asyncio

    places = asyncio.Semaphore(AT_ONCE)

    async def one(item: ItemT) -> ResultT:
        async with places:
            return await act(item)

    return list(await asyncio.gather(*map(one, items)))


def _of_storage(act: Callable[[], ResultT]) -> ResultT:
    from replica.storage import StorageError

    try:
        return act()
    except StorageError as error:
        raise click.ClickException(str(error)) from error
