"""``nemesis gc``: runs that are no longer needed go.

Owns the command's options, how ages and sizes are written, and the words for what goes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemesis.cli.run import store_option

if TYPE_CHECKING:
    from nemesis.serve.pruning import Stored

AGES: Mapping[str, int] = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SIZES: Mapping[str, int] = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
VERDICTS = ("valid", "invalid", "unknown", "not-judged")
Callback = Callable[[click.Context, click.Parameter, str | None], int | None]


def _in_units(units: Mapping[str, int], example: str) -> Callback:
    """Reads a number with one of these units behind it."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
        del context, parameter
        if value is None:
            return None
        match = re.fullmatch(rf"(\d{{1,9}})({'|'.join(units)})", value.strip())
        if match is None:
            raise click.BadParameter(f"{value!r}: give a number with {', '.join(units)} behind it, such as {example}")
        return int(match[1]) * units[match[2]]

    return read


def _verdicts(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read ``valid,unknown``."""
    del context, parameter
    words = tuple(word.strip() for word in (value or "").split(",") if word.strip())
    wrong = [word for word in words if word not in VERDICTS]
    if wrong or (value is not None and not words):
        raise click.BadParameter(f"{value!r}: give some of {', '.join(VERDICTS)}, separated by commas")
    return words


@click.command()
@store_option
@click.option("--verdict", "verdicts", callback=_verdicts, metavar="LIST", help=f"Only these: {', '.join(VERDICTS)}.")
@click.option(
    "--older-than", callback=_in_units(AGES, "30d"), metavar="AGE", help="Only runs not written to since: 12h, 30d, 8w."
)
@click.option(
    "--max-size",
    callback=_in_units(SIZES, "10GiB"),
    metavar="SIZE",
    help="Only as many, the oldest first, as have to go for all runs to come to no more: 500MiB, 10GiB.",
)
@click.option("--delete", is_flag=True, help="Delete them. Without, what would go is only told.")
def gc(store: Path, verdicts: tuple[str, ...], older_than: int | None, max_size: int | None, delete: bool) -> None:
    """Delete runs of the store that are old, too many, or of some verdicts; a run goes if all that is given is so.

    Without --delete nothing is deleted, and what would go is told. Folders that hold no run stay, and so does a run
    that goes on.
    """
    from nemesis.serve.pruning import Rules, remove, stored_runs
    from nemesis.serve.store import Store
    from nemesis.serve.summary import Standing

    if not verdicts and older_than is None and max_size is None:
        raise click.UsageError("say which runs may go: --verdict, --older-than, --max-size")
    standings = tuple(Standing(word.replace("-", " ")) for word in verdicts) or tuple(Standing)
    try:
        opened = Store(store)
    except NotADirectoryError as error:
        raise click.BadParameter(str(error), param_hint="--store") from None
    stored = stored_runs(opened)
    rules = Rules(standings=standings, older_than_s=older_than or 0, size_max=max_size)
    going = rules.going(stored, time.time())
    _tell(going)
    if not delete:
        size = _words(sum(one.size for one in going))
        more = "" if not going else "; --delete deletes them"
        click.echo(f"{len(going)} of {len(stored)} runs would go, {size}{more}")
        return
    try:
        click.echo(f"deleted: {_words(remove(opened, going))}")
    except OSError as error:
        raise click.ClickException(f"a run cannot be deleted: {error}") from error


def _tell(going: Sequence[Stored]) -> None:
    now_s = time.time()
    for one in going:
        days = (now_s - one.touched_s) / AGES["d"]
        click.echo(f"{one.folder}  {one.run.standing}  {_words(one.size)}  {days:.1f} days old")


def _words(size: int) -> str:
    """A size for people."""
    for unit, factor in reversed(list(SIZES.items())):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
