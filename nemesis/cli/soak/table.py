"""How each combination of a sweep fared, as lines of text.

Owns the table: a row a combination, with how many of its seeds ended how, and below it what was not valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nemesis.ci.judged import VALID, VERDICTS
from nemesis.cli.soak.play import Played

HEADERS = ("combination", *VERDICTS, "acknowledged", "seconds")
ACKNOWLEDGED = "acked_checked"


def table_of(played: Sequence[Played]) -> Iterator[str]:
    """The table in the order in which the combinations were run, and a paragraph for each run that is not valid."""
    rows = [HEADERS, *(_row(name, played) for name in dict.fromkeys(one.cell.combination for one in played))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells)
    for one in played:
        if one.case.verdict != VALID:
            yield from ("", f"{one.case.verdict}: {one.cell.name}", *_indented(one))


def _row(combination: str, played: Sequence[Played]) -> tuple[str, ...]:
    own = [one for one in played if one.cell.combination == combination]
    verdicts = [one.case.verdict for one in own]
    acknowledged = sum(one.run.stats.get(ACKNOWLEDGED, 0) for one in own if one.run is not None)
    counts = (str(verdicts.count(verdict)) for verdict in VERDICTS)
    return (combination, *counts, str(acknowledged), f"{sum(one.seconds for one in own):.0f}")


def _indented(one: Played) -> Iterator[str]:
    if one.run is None:
        yield from (f"  {line}" for line in one.error.splitlines())
        return
    yield from (f"  {reason}" for reason in (*one.run.reasons, *one.unseen))
    yield f"  again: {one.run.command}"
    yield f"  run: {one.run.folder}"
