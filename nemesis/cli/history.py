"""``nemesis history RUN``: the operations of a stored run, those that are asked for, as a table or as JSON Lines.

Owns the columns of the table in a terminal and how a cell looks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.check import check_is_run, run_folder
from nemesis.cli.exit import UnsupportedError
from replica.cli.help import example

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 100
"""So many rows the table has where nobody asks for another number."""
CELL_CHARACTERS_MAX = 40
RECORDS_MAX = 4
EXAMPLE = "key = 'topic1-0' and outcome != 'ok' and time >= 4.5"


@click.command(epilog=example(f'nemesis history store/append/latest --where "{EXAMPLE}"'))
@run_folder
@click.option(
    "--where",
    "condition",
    metavar="CONDITION",
    help=f"Those for which this holds, as SQL has it behind WHERE: {EXAMPLE}. 5 in records finds the polls of a value.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON Lines: one object for each operation, all of them.")
@click.option("--limit", type=click.IntRange(min=1), help=f"At most so many; a table has {ROWS} at most without it.")
def history(folder: Path, condition: str | None, as_json: bool, limit: int | None) -> None:
    """Show the operations of a stored RUN, in the order in which they were invoked.

    The columns are index, time (seconds since the run began), duration_ms, process (-1 is the nemesis), function, key
    (the object or the topic-partition, also called partition), value, "offset" (in double quotes), records, outcome
    (ok, fail or info), epoch, node, error and detail.
    """
    from nemesis.history.operations import extent_ns, operations_of
    from nemesis.history.reader import read_history, read_replica_events

    check_is_run(folder)
    recorded = read_history(folder)
    table = operations_of(recorded, extent_ns(recorded, read_replica_events(folder))[0])
    if condition is not None:
        table = _chosen(table, condition)
    found = table.num_rows
    shown = table.slice(0, limit if limit is not None else found if as_json else ROWS)
    rows = (row for batch in shown.to_batches(max_chunksize=10_000) for row in batch.to_pylist())
    if as_json:
        for row in rows:
            click.echo(json.dumps({name: value for name, value in row.items() if value is not None}))
        return
    for line in told(list(rows)):
        click.echo(line)
    more = "" if found == shown.num_rows else f", {shown.num_rows:,} shown; --limit shows more"
    click.echo(f"{found:,} operation{'' if found == 1 else 's'}{more}")


def _chosen(table: pa.Table, condition: str) -> pa.Table:
    """The operations for which the condition holds."""
    from nemesis.serve.condition import ConditionError, where

    try:
        return where(table, condition)
    except ImportError as error:
        raise UnsupportedError(f"--where needs {error.name}: pip install 'highwater-log[serve]'") from error
    except ConditionError as error:
        raise click.BadParameter(str(error), param_hint="--where") from error


def told(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as lines, with a heading; columns that are empty in all of them are left out."""
    if not rows:
        return
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    cells = [names, *([cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    is_number = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    for line in cells:
        padded = zip(line, widths, is_number, strict=True)
        yield "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in padded).rstrip()


def cell(value: Any) -> str:
    """One value in a line; control characters, which a terminal might obey, as their escapes."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.3f}"
        case list():
            shown = " ".join(f"{record['value']}@{record['offset']}" for record in value[:RECORDS_MAX])
            more = f" and {len(value) - RECORDS_MAX} more" if len(value) > RECORDS_MAX else ""
            return shown + more if value else "none"
        case _:
            text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value))
            return text if len(text) <= CELL_CHARACTERS_MAX else f"{text[: CELL_CHARACTERS_MAX - 1]}…"
