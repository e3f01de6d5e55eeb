"""What a large log costs the brokers that hold it: to start, to be searched by time, and to be cut by retention.

Owns the measurement and its figures in ``store/bench-large-log.json``. Three brokers have one partition with two
segments of a GiB, of batches of 170 bytes that are as old as can be; their files are written beside the brokers, which
were killed, so that they are read when these start again. *Stalls* are the times that a broker's event loop did not
run, as in ``many_partitions``. Retention looks every five minutes: so long it takes.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click
import grpc.aio

from benchmarks.brokers import Brokers, running
from benchmarks.hostile_clients import bytes_call, connection
from benchmarks.many_partitions import sizes, stalls
from benchmarks.recovery import OVERHEAD_BYTES, WRITTEN_AT_A_TIME, stamped
from benchmarks.result import write_result
from benchmarks.write_path import BROKERS, BUSY, create, wait_for_brokers
from replica.client.admin import Admin
from replica.client.producer import Producer
from replica.core.messages import ListOffsetsRequest, ListOffsetsResponse
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition
from replica.records import encode_batch
from replica.rpc.codec import LIST_OFFSETS
from replica.storage.segment import log_file_name

LOG = TopicPartition(BUSY, 0)
SEGMENTS = 2
SEGMENT_BYTES = (1 << 30) - (1 << 20)
BATCH_BYTES = 170
GIVE_UP_S = 400


async def begin(brokers: Brokers) -> None:
    """Let the partition be there, with a record of its first leader, at offset 0 in epoch 0."""
    async with Admin(brokers.addresses[0]) as admin, Producer(brokers.addresses) as producer:
        await wait_for_brokers(admin)
        await create(admin, BUSY, 1)
        await producer.send(BUSY, b"v")


def fill(brokers: Brokers, segment_bytes: int) -> int:
    """Write the segments in the place of what each broker has; how many batches they hold. Nobody may be running.

    The records of a segment bear its number as their time, in milliseconds since 1970.
    """
    folders = [next((brokers.folder / str(number)).rglob(str(LOG))) for number in range(1, BROKERS + 1)]
    for folder in folders:
        for file in folder.glob("0*.*"):
            file.unlink()
    written = 0
    for number in range(1, SEGMENTS + 1):
        batch = encode_batch([bytes(BATCH_BYTES - OVERHEAD_BYTES)], timestamp_ms=number)
        count, at_a_time = segment_bytes // batch.size_bytes, WRITTEN_AT_A_TIME // batch.size_bytes
        file = folders[0] / log_file_name(Offset(written))
        with file.open("wb") as segment:
            for base in range(written, written + count, at_a_time):
                end = min(base + at_a_time, written + count)
                segment.write(b"".join(stamped(batch, offset) for offset in range(base, end)))
        for folder in folders[1:]:
            shutil.copyfile(file, folder / file.name)
        written += count
    return written


async def ask(addresses: list[str], timestamp_ms: int | None) -> ListOffsetsResponse:
    """Ask whoever leads for the first offset of a time, or for the first of all."""
    request = LIST_OFFSETS.request.encode(ListOffsetsRequest(topic_partition=LOG, timestamp_ms=timestamp_ms))
    give_up_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_s:
        for address in addresses:
            async with connection(address) as channel:
                with suppress(grpc.aio.AioRpcError):
                    answer = LIST_OFFSETS.response.decode(await bytes_call(channel, LIST_OFFSETS.full_name)(request))
                    if answer.error is ErrorCode.NONE:
                        return answer
        await asyncio.sleep(0.1)
    raise click.ClickException(f"nobody has answered within {GIVE_UP_S} s")


async def measure(brokers: Brokers, batches: int) -> Mapping[str, object]:
    """Start on what is there, search it, and wait for retention."""
    addresses, figures = list(brokers.addresses), dict[str, object]({"batches": batches})
    at, begun = sizes(brokers), time.monotonic()
    brokers.start_all()
    await ask(addresses, None)
    figures["served_after_s"] = round(time.monotonic() - begun, 2)
    figures["stalls_while_started_ms"] = stalls(brokers, at)
    at, searches_ms = sizes(brokers), []
    for _ in range(5):
        begun = time.monotonic()
        found = await ask(addresses, SEGMENTS)
        searches_ms.append(round((time.monotonic() - begun) * 1000))
        assert found.offset == batches // SEGMENTS, found
    figures["searches_ms"], figures["stalls_while_searched_ms"] = searches_ms, stalls(brokers, at)
    at, begun = sizes(brokers), time.monotonic()
    while (first := (await ask(addresses, None)).offset) == 0:
        if time.monotonic() > begun + GIVE_UP_S:
            raise click.ClickException(f"retention has deleted nothing within {GIVE_UP_S} s")
        at = sizes(brokers)
        await asyncio.sleep(1)
    await asyncio.sleep(5)
    figures["deleted_below"], figures["stalls_while_deleted_ms"] = first, stalls(brokers, at)
    return figures


@click.command()
@click.option("--segment-bytes", type=click.IntRange(1 << 20), default=SEGMENT_BYTES, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path("store/bench-large-log.json"))
def main(segment_bytes: int, output: Path) -> None:
    """Measure three brokers with a large log, print the figures and write them as JSON."""
    with running(BROKERS) as brokers:
        asyncio.run(begin(brokers))
        brokers.kill_all()
        figures = asyncio.run(measure(brokers, fill(brokers, segment_bytes)))
    click.echo(json.dumps(figures))
    write_result(output, **figures)


if __name__ == "__main__":
    main()
