"""The table of figures in a page of Markdown, between two markers; what stands around them is written by hand.

Owns the words of the table. It reads the document that was written as JSON, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.peers.turns import shown

BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
BY_DEFAULT = "each one's default"
Document = Mapping[str, Any]


def with_table(page: str, table: str, markers: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with another table between two markers. Raises ClickException for a page without them."""
    before, begin, rest = page.partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not begin or not end:
        raise click.ClickException(f"the page has no {markers[0]} with an {markers[1]} after it")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def table_of(document: Document, chart: Path) -> str:
    """All that stands between the markers. ``chart`` is named as it is seen from the page."""
    parts = [
        _machine(document),
        "\n".join(_rows(document)),
        f"![Every row of the table, each with a scale of its own]({chart})",
        "\n".join(_systems(document)),
        "\n".join(_all_kills(document)),
        "\n".join(_failures(document)),
    ]
    return "\n\n".join(part for part in parts if part)


def measured_systems(document: Document) -> Sequence[str]:
    """The names of those that have figures, in the order of their turns."""
    found = {name for row in document["rows"] for name in row["figures"]}
    return [system["name"] for system in document["systems"] if system["name"] in found]


def aim_told(row: Mapping[str, Any]) -> str:
    """The aim of a row in words."""
    aim, parts = row["aim"], []
    if aim["figure"] is not None:
        parts.append(f"{number(aim['figure'])} {row['unit']}")
    if aim["worst"] is not None:
        parts.append(f"the worst {number(aim['worst'])} {row['unit']}")
    for name in aim["ahead_of"]:
        parts.append(f"not behind {name}" if aim["times"] == 1 else f"{aim['times']:g} times {name}")
    return ", ".join(parts)


def number(figure: float) -> str:
    """A number of an aim, which is round."""
    return f"{figure:,.0f}" if figure >= 10 else f"{figure:g}"


def _machine(document: Document) -> str:
    machine, versions = document["machine"], document["versions"]
    rounds, row, kills = document["rounds"], document["seconds"], document["kills_a_round"]
    how_long = (
        f"{rounds} round{'' if rounds == 1 else 's'}, in each {document['warm_up_s']:g} s to warm up, {row:g} s a row "
        f"and {kills} kills of each leader"
    )
    where = f"{machine['cores']} cores ({document['processor']}), {machine['memory_gb']:g} GB"
    with_what = f"{versions['system']}, Python {versions['python']}, {document['event_loop']}"
    load = f"{document['load_before']:g} before, {machine['load']:g} at the end"
    return (
        f"Written by `python -m benchmarks.peers` on {document['date']}: {how_long}. {where}, {with_what}; load "
        f"{load}. A figure is the median of the rounds, or of all kills, with the lowest and the highest of them."
    )


def _rows(document: Document) -> Iterator[str]:
    names = measured_systems(document)
    yield "| " + " | ".join(["work", "acknowledged from", *names, "aim", "met"]) + " |"
    yield "|" + "---|" * (len(names) + 4)
    for row in document["rows"]:
        cells = [_cell(row, row["figures"].get(name)) for name in names]
        met = {None: "", True: "yes", False: "no"}[row["aim"]["is_met"]]
        title = f"{row['title']}, {row['unit']}"
        yield "| " + " | ".join([title, row["durability"] or BY_DEFAULT, *cells, aim_told(row), met]) + " |"


def _cell(row: Mapping[str, Any], figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    how = "" if row["durability"] else f", {figures['durability']}"
    return f"{shown(figures['median'])} ({shown(figures['lowest'])} to {shown(figures['highest'])}){how}"


def _systems(document: Document) -> Iterator[str]:
    for system in document["systems"]:
        if system["missing"]:
            yield f"- **{system['name']}** was not measured: {system['missing']}."
            continue
        settings = "; ".join(f"{what}: {how}" for what, how in system["settings"].items())
        yield (
            f"- **{system['name']}** {system['version']}: acknowledges from {system['durabilities'][0]} by default. "
            f"{settings}."
        )


def _all_kills(document: Document) -> Iterator[str]:
    for row in document["rows"]:
        if row["unit"] == "s":
            for name, figures in row["figures"].items():
                every = ", ".join(shown(figure) for figure in figures["all"])
                yield f"- {row['title']}, each kill of {name}, in s: {every}."


def _failures(document: Document) -> Iterator[str]:
    for failure in document["failures"]:
        yield f"- Failed: {failure['what']} of {failure['system']}: {failure['why']}"
