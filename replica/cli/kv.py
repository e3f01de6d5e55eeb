"""``replica kv``: the key-value store on the command line.

Owns the output of these commands. A command exits with 1 where it certainly did nothing, a failed comparison included,
and with 3 where nobody can say whether it was done. What they share is ``kv_options``'; what changes nothing is
``kv_reads``', and how a transaction is written ``kv_txn``'s.
"""

from __future__ import annotations

import sys
from os import fsencode
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import text
from replica.cli.help import Group, example
from replica.cli.kv_lease import lease
from replica.cli.kv_options import (
    Store,
    key_row,
    keys_of,
    lease_option,
    number,
    output_option,
    prefix_option,
    store_options,
    tell,
)
from replica.cli.kv_reads import describe, get, line_of, range_, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from replica.client.groups.key_value import KeyValueClient, Revised
    from replica.machines.key_value import LeaseId
    from replica.machines.key_value.commands import Transaction
    from replica.machines.key_value.results import CompareAndSetResult, OperationResult


@click.group(cls=Group)
def kv() -> None:
    """Read and write a replicated key-value store."""


kv.add_command(lease)
for _reading in (get, range_, watch, describe):
    kv.add_command(_reading)


@kv.command(epilog=example("replica kv put color red"))
@click.argument("key")
@click.argument("value")
@lease_option
@output_option
@store_options
def put(store: Store, key: str, value: str, lease_id: LeaseId | None, output: str) -> None:
    """Let KEY be VALUE. With - for VALUE, it is what comes from standard input."""
    content = sys.stdin.buffer.read() if value == "-" else fsencode(value)
    done = store.run(lambda client: client.put(fsencode(key), content, lease_id=lease_id))
    tell(output, f"put at revision {done.revision}", revision=done.revision)


@kv.command(epilog=example("replica kv cas color blue --expected red"))
@click.argument("key")
@click.argument("value")
@click.option("--expected", metavar="VALUE", help="Put only if the key has this value.")
@click.option("--expected-revision", type=number, help="Put only if it was last changed there.")
@click.option("--absent", is_flag=True, help="Put only if there is no such key.")
@lease_option
@output_option
@store_options
def cas(store: Store, key: str, value: str, output: str, **options: Any) -> None:
    """Let KEY be VALUE if it is as expected. Exits with 1 if it is not, and says what it is."""
    expected, revision, absent = options["expected"], options["expected_revision"], options["absent"]
    if (expected is not None) + (revision is not None) + absent != 1:
        raise click.UsageError("say what is expected by one of --expected, --expected-revision and --absent")

    def compare(client: KeyValueClient) -> Awaitable[Revised[CompareAndSetResult]]:
        name, content, lease_id = fsencode(key), fsencode(value), options["lease_id"]
        if revision is not None:
            return client.compare_and_set_revision(name, revision, content, lease_id=lease_id)
        wanted = None if expected is None else fsencode(expected)
        return client.compare_and_set(name, wanted, content, lease_id=lease_id)

    done = store.run(compare)
    current = done.result.current
    row = None if current is None else key_row(current)
    if done.result.succeeded:
        sentence = f"put at revision {done.revision}"
    elif current is None:
        sentence = f"not put: there is no key {key!r}"
    else:
        sentence = f"not put: {key!r} is {text(current.value)!r}, last changed at revision {current.mod_revision}"
    tell(output, sentence, revision=done.revision, succeeded=done.result.succeeded, current=row)
    sys.exit(0 if done.result.succeeded else 1)


@kv.command(epilog=example("replica kv delete color"))
@click.argument("start", metavar="KEY | START")
@click.argument("end", required=False)
@prefix_option
@output_option
@store_options
def delete(store: Store, start: str, end: str | None, is_prefix: bool, output: str) -> None:
    """Delete KEY, or all keys from START to END (exclusive), or with --prefix all that begin with START."""
    keys = keys_of(start, end, is_prefix=is_prefix)
    done = store.run(lambda client: client.delete(keys))
    deleted = done.result.deleted
    tell(output, f"deleted {deleted}, revision {done.revision}", revision=done.revision, deleted=deleted)


@kv.command(epilog=example("replica kv incr visits --by 2"))
@click.argument("key")
@click.option(
    "--by",
    "delta",
    type=click.IntRange(-(1 << 63), (1 << 63) - 1),
    default=1,
    show_default=True,
    help="How much; below 0 to count down.",
)
@output_option
@store_options
def incr(store: Store, key: str, delta: int, output: str) -> None:
    """Add to the number that KEY has, and print the sum. A key that is not there counts as 0."""
    done = store.run(lambda client: client.increment(fsencode(key), delta))
    tell(output, str(done.result.number), revision=done.revision, number=done.result.number)


@kv.command(epilog=example("replica kv txn --if 'version(color) = 0' --then 'put color red' --else 'get color'"))
@click.option("--if", "comparisons", multiple=True, metavar="COMPARISON", help='Such as value("a") = "1".')
@click.option("--then", "then", multiple=True, metavar="OPERATION", help="Such as put a 2; done if all hold.")
@click.option("--else", "otherwise", multiple=True, metavar="OPERATION", help="Done if not.")
@output_option
@store_options
def txn(
    store: Store, comparisons: tuple[str, ...], then: tuple[str, ...], otherwise: tuple[str, ...], output: str
) -> None:
    """Do several things at one revision, if all comparisons hold; or others, if not.

    Without options it is read from standard input, as etcdctl writes it: comparisons, operations if they hold, and
    operations if not, one a line, with an empty line behind each of the three parts.

    \b
    value("color") = "red"    or version, mod_revision, create_revision; = != < >
    put KEY VALUE [--lease ID]
    get KEY
    delete | range KEY | START END | --prefix START
    increment KEY [DELTA]
    """
    transaction = _transaction(comparisons, then, otherwise)
    done = store.run(lambda client: client.transact(transaction.comparisons, transaction.then, transaction.otherwise))
    rows = [_operation_row(result) for result in done.result.results]
    told = ["succeeded" if done.result.succeeded else "failed", *(str(row["told"]) for row in rows)]
    tell(
        output,
        "\n".join([f"{told[0]}, revision {done.revision}", *told[1:]]),
        revision=done.revision,
        succeeded=done.result.succeeded,
        results=[{name: value for name, value in row.items() if name != "told"} for row in rows],
    )


def _transaction(comparisons: tuple[str, ...], then: tuple[str, ...], otherwise: tuple[str, ...]) -> Transaction:
    from replica.cli.kv_txn import TransactionSyntaxError, parse_sections, parse_transaction

    try:
        if comparisons or then or otherwise:
            return parse_transaction(comparisons, then, otherwise)
        return parse_sections(sys.stdin.read().splitlines())
    except TransactionSyntaxError as error:
        raise click.UsageError(str(error)) from error


def _operation_row(result: OperationResult) -> dict[str, Any]:
    """What an operation of a transaction came to: fields for JSON, and ``told`` for people."""
    from replica.machines.key_value import results

    match result:
        case results.PutResult():
            return {"type": "put", "told": "put"}
        case results.DeleteResult(deleted=deleted):
            return {"type": "delete", "deleted": deleted, "told": f"deleted {deleted}"}
        case results.IncrementResult(number=number):
            return {"type": "increment", "number": number, "told": number}
        case results.GetResult(found=found):
            told = "no such key" if found is None else line_of(found)
            return {"type": "get", "found": None if found is None else key_row(found), "told": told}
        case results.RangeResult(found=found, more=more):
            lines = [line_of(each) for each in found]
            told = "\n".join(lines) or "no keys"
            return {"type": "range", "found": [key_row(each) for each in found], "more": more, "told": told}


@kv.command(epilog=example("replica kv compact 7"))
@click.argument("revision", type=number)
@output_option
@store_options
def compact(store: Store, revision: int, output: str) -> None:
    """Forget what was before REVISION; what stood at it can still be read."""
    done = store.run(lambda client: client.compact(revision))
    tell(output, f"forgot what was before revision {revision}", revision=done.revision, compact_revision=revision)
