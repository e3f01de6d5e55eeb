"""``replica produce``, ``consume`` and ``offsets``: records from lines of text, records as lines of text.

Owns what a line means and the exit codes of a write: 1 where something certainly was not written, 3 where nobody can
say; and of a reading: 1 where not every partition could be read. The words of shared options and errors are
``client``'s.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import (
    EXIT_OUTCOME_UNKNOWN,
    bootstrap_option,
    output_option,
    run,
    show,
    text,
    timeout_option,
    view_config,
)
from replica.cli.help import example
from replica.ids import OFFSET_MAX

if TYPE_CHECKING:
    from replica.client.consumer import Consumer
    from replica.client.delivery import Delivery
    from replica.client.producer import Producer
    from replica.client.producer_config import ProducerConfig
    from replica.client.values import ConsumerRecord
    from replica.ids import TopicPartition

EXIT_NOT_WRITTEN = 1
EXIT_NOT_READ = 1
CONSUME_API_TIMEOUT_MS = 10_000
CONSUME_CHECK_MIN_MS = 1000
POLL_MS = 60_000


@click.command(epilog=example("printf 'alice:apples\\nbob:pears\\n' | replica produce orders --key-separator :"))
@click.argument("topic")
@bootstrap_option
@click.option("--partition", type=click.IntRange(min=0), help="Write to this one; without, by key.")
@click.option("--key-separator", metavar="TEXT", help="What comes before it in a line is the record's key.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--idempotence/--no-idempotence", default=None, help="Never twice, always in order; on with acks=all.")
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), default="none", show_default=True)
@click.option("--linger-ms", type=click.IntRange(min=0), default=5, show_default=True, help="Wait to fill batches.")
@click.option("--quiet", "-q", is_flag=True, help="Do not print where each record stands.")
@timeout_option
def produce(topic: str, bootstrap: tuple[str, ...], quiet: bool, timeout_ms: int, **options: Any) -> None:
    """Write the lines of standard input to TOPIC, one record each; print their partitions and offsets.

    Exits with 1 if a record was definitely not written, with 3 if that is unknown of one. Then no further line is read.
    """
    config = _producer_config(timeout_ms, options)
    separator = options["key_separator"]

    async def action() -> int:
        from replica.client.producer import Producer

        async with Producer(bootstrap, config, view_config=view_config(timeout_ms)) as producer:
            return await _produce_lines(
                producer, topic, options["partition"], None if separator is None else separator.encode(), quiet=quiet
            )

    sys.exit(run(action))


def _producer_config(timeout_ms: int, options: dict[str, Any]) -> ProducerConfig:
    from replica.client.producer_config import Acks, ProducerConfig
    from replica.records import Compression

    try:
        return ProducerConfig(
            acks={"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}[options["acks"]],
            linger_ms=options["linger_ms"],
            compression=Compression(options["compression"]),
            enable_idempotence=options["idempotence"],
            max_block_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms + options["linger_ms"],
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error


async def _produce_lines(
    producer: Producer, topic: str, partition: int | None, separator: bytes | None, *, quiet: bool
) -> int:
    """Send line after line, and tell in the same order what becomes of each. Returns the exit code."""
    import asyncio
    from contextlib import suppress

    sent: asyncio.Queue[tuple[int, Delivery] | None] = asyncio.Queue()

    async def send_lines() -> None:
        from replica.cli.lines import lines_of

        number = 0
        async for line in lines_of(sys.stdin.buffer):
            number += 1
            key, value = _key_and_value(line, number, separator)
            await producer.ready()
            await sent.put((number, producer.send(topic, value, key=key, partition=partition)))

    sending = asyncio.create_task(send_lines())
    sending.add_done_callback(lambda _: sent.put_nowait(None))
    code = 0
    while (each := await sent.get()) is not None:
        code = max(code, await _tell(*each, quiet=quiet))
        if code != 0:
            sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    return code


def _key_and_value(line: bytes, number: int, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise click.ClickException(f"line {number} has no {separator.decode()!r}; put it between key and value")
    return key, value


async def _tell(number: int, delivery: Delivery, *, quiet: bool) -> int:
    """Print where a record stands, or what is known of it. Returns what the exit code is at least."""
    from replica.client.failures import NotWrittenError, OutcomeUnknownError

    try:
        written = await delivery
    except NotWrittenError as error:
        click.echo(f"line {number}: {error}", err=True)
        return EXIT_NOT_WRITTEN
    except OutcomeUnknownError as error:
        click.echo(f"line {number}: {error}", err=True)
        return EXIT_OUTCOME_UNKNOWN
    if not quiet:
        offset = "-" if written.offset is None else written.offset
        click.echo(f"{written.topic_partition.partition}\t{offset}")
    return 0


@click.command(epilog=example("replica consume orders --from beginning --timeout-ms 2000"))
@click.argument("topic")
@bootstrap_option
@click.option("--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this; once per one.")
@click.option(
    "--from",
    "start",
    default="beginning",
    show_default=True,
    metavar="beginning|end|OFFSET|TIME",
    help="Where to begin; a time like 2026-01-31T12:00:00Z (UTC without a zone).",
)
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after this many.")
@click.option("--timeout-ms", type=click.IntRange(min=1), help="Stop when nothing came for so long; without, go on.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "value", "json"]),
    default="text",
    show_default=True,
    help="text: partition, offset, key and value with tabs between.",
)
@click.option("--rack", help="Read from an in-sync follower in this rack, where the leader is in another.")
def consume(topic: str, bootstrap: tuple[str, ...], start: str, timeout_ms: int | None, **options: Any) -> None:
    """Print the committed records of TOPIC as they come, one line each.

    Exits with 1 if nothing came from a partition because it has no leader that answers.
    """
    begin = _start_of(start)

    async def action() -> int:
        from replica.client.consumer import Consumer
        from replica.client.consumer_config import ConsumerConfig
        from replica.client.reading import OffsetReset

        config = ConsumerConfig(auto_offset_reset=OffsetReset.NONE, client_rack=options["rack"])
        async with Consumer(bootstrap, config, view_config=view_config(CONSUME_API_TIMEOUT_MS)) as consumer:
            await _assign(consumer, topic, options["partitions"], begin)
            return await _print_polled(consumer, timeout_ms, options["max_messages"], options["output"])

    sys.exit(run(action))


Start = str | int | datetime


def _start_of(text: str) -> Start:
    if text in ("beginning", "end"):
        return text
    if text.isdecimal():
        if len(text) > 19 or int(text) > OFFSET_MAX:
            raise click.UsageError(f"--from {text} is above {OFFSET_MAX}, the largest offset that there can be")
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--from {text!r} is neither beginning, end, an offset nor a time like 2026-01-31T12:00:00Z"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


async def _assign(consumer: Consumer, topic: str, numbers: tuple[int, ...], start: Start) -> None:
    from replica.client.failures import UnknownTopicError
    from replica.ids import TopicPartition

    existing = await consumer.partitions_of(topic)
    names = [TopicPartition(topic, number) for number in numbers] or existing
    for name in names:
        if name not in existing:
            raise UnknownTopicError(str(name))
    consumer.assign(names)
    match start:
        case int():
            for name in names:
                consumer.seek(name, start)
        case datetime():
            await _seek_to_time(consumer, names, start)
        case "end":
            consumer.seek_to_end()
        case _:
            consumer.seek_to_beginning()


async def _seek_to_time(consumer: Consumer, names: list[TopicPartition], time: datetime) -> None:
    found = await consumer.offsets_for_times(dict.fromkeys(names, int(time.timestamp() * 1000)))
    for name, first in found.items():
        if first is None:
            consumer.seek_to_end(name)
        else:
            consumer.seek(name, first.offset)


async def _print_polled(consumer: Consumer, timeout_ms: int | None, max_messages: int | None, output: str) -> int:
    """Print what comes until that is enough, or nothing has come for so long. Returns the exit code."""
    left = max_messages
    while left is None or left > 0:
        records = await consumer.poll(timeout_ms or POLL_MS)
        if not records and timeout_ms is not None:
            return await _tell_unreadable(consumer, timeout_ms)
        for record in records if left is None else records[:left]:
            click.echo(_line_of(record, output))
        left = None if left is None else left - len(records)
    return 0


async def _tell_unreadable(consumer: Consumer, timeout_ms: int) -> int:
    """Say from which partitions nothing came because nobody answers for them. Returns the exit code."""
    import asyncio

    patience_ms = min(max(timeout_ms, CONSUME_CHECK_MIN_MS), CONSUME_API_TIMEOUT_MS)
    rows = await asyncio.gather(*(_offsets_of(consumer, name, patience_ms) for name in sorted(consumer.assignment)))
    errors = [row["error"] for row in rows if row["error"] is not None]
    for error in errors:
        click.echo(f"Error: not everything was read: {error}", err=True)
    return EXIT_NOT_READ if errors else 0


def _line_of(record: ConsumerRecord, output: str) -> str | bytes:
    if output == "value":
        return record.value or b""
    if output == "text":
        where = f"{record.topic_partition.partition}\t{record.offset}"
        return f"{where}\t{_text(record.key) or ''}\t{_text(record.value) or ''}"
    return json.dumps(
        {
            "topic": record.topic_partition.topic,
            "partition": record.topic_partition.partition,
            "offset": record.offset,
            "leader_epoch": record.leader_epoch,
            "timestamp_ms": record.timestamp_ms,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(content)] for name, content in record.headers],
        }
    )


def _text(content: bytes | None) -> str | None:
    return None if content is None else text(content)


@click.command(epilog=example("replica offsets orders"))
@click.argument("topic")
@bootstrap_option
@output_option
@timeout_option
def offsets(topic: str, bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show where each partition of TOPIC begins and ends. Exits with 1 if one of them does not answer."""

    async def action() -> list[dict[str, Any]]:
        import asyncio

        from replica.client.consumer import Consumer

        async with Consumer(bootstrap, view_config=view_config(timeout_ms)) as consumer:
            names = await consumer.partitions_of(topic)
            return list(await asyncio.gather(*(_offsets_of(consumer, name, timeout_ms) for name in names)))

    rows = run(action)
    errors = [str(row["error"]) for row in rows if row["error"] is not None]
    show(
        rows if output == "json" else [{**row, "error": "see below" if row["error"] else None} for row in rows], output
    )
    for error in errors:
        click.echo(f"Error: {error}", err=True)
    sys.exit(1 if errors else 0)


async def _offsets_of(consumer: Consumer, name: TopicPartition, timeout_ms: int) -> dict[str, Any]:
    from replica.client.failures import ReadFailedError

    row: dict[str, Any] = {"partition": name.partition, "log_start_offset": None, "high_watermark": None}
    try:
        start = (await consumer.beginning_offsets([name], timeout_ms=timeout_ms))[name]
        end = (await consumer.end_offsets([name], timeout_ms=timeout_ms))[name]
    except ReadFailedError as error:
        return {**row, "records": None, "error": str(error)}
    return {**row, "log_start_offset": start, "high_watermark": end, "records": end - start, "error": None}
