"""The chart beside the table, as SVG: a panel for each row, a bar for each system, a line from lowest to highest.

Owns where things are drawn. Each panel has a scale of its own, from 0 on. Written by hand: the plotting library of
reports draws no pictures without a browser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from benchmarks.peers.table import Document, measured_systems
from benchmarks.peers.turns import shown

WIDTH, PANEL_WIDTH, COLUMNS = 960, 480, 2
BAR_HEIGHT, TITLE_HEIGHT, PADDING = 18, 26, 14
LABEL_WIDTH, FIGURE_WIDTH = 130, 90
BAR_WIDTH = PANEL_WIDTH - LABEL_WIDTH - FIGURE_WIDTH - 2 * PADDING
COLOURS = ("#1f6feb", "#6e7781", "#2da44e", "#bf8700", "#8250df")
STYLE = "text{font:12px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:11px}"


def chart_of(document: Document) -> str:
    """The whole picture."""
    names = measured_systems(document)
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    rows = [row for row in document["rows"] if row["figures"]]
    height = TITLE_HEIGHT + PADDING + len(names) * BAR_HEIGHT
    lines = -(-len(rows) // COLUMNS)
    drawn = "\n".join(
        f'<g transform="translate({PANEL_WIDTH * (place % COLUMNS)},{height * (place // COLUMNS)})">\n'
        + "\n".join(_panel(row, colours))
        + "\n</g>"
        for place, row in enumerate(rows)
    )
    size = f'width="{WIDTH}" height="{height * lines}" viewBox="0 0 {WIDTH} {height * lines}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{drawn}\n</svg>\n'
    )


def _panel(row: Mapping[str, Any], colours: Mapping[str, str]) -> Iterator[str]:
    better = "more is better" if row["more_is_better"] else "less is better"
    where = f", {row['durability']}" if row["durability"] else ""
    title = escape(f"{row['title']}{where}: {row['unit']}")
    yield f'<text class="title" x="{PADDING}" y="{TITLE_HEIGHT - 8}">{title}<title>{better}</title></text>'
    scale = BAR_WIDTH / max(figures["highest"] for figures in row["figures"].values())
    for place, name in enumerate(name for name in colours if name in row["figures"]):
        figures, y = row["figures"][name], TITLE_HEIGHT + place * BAR_HEIGHT
        middle, left = y + BAR_HEIGHT / 2, PADDING + LABEL_WIDTH
        lowest, median, highest = (left + figures[key] * scale for key in ("lowest", "median", "highest"))
        yield f'<text x="{PADDING}" y="{middle + 4:g}">{escape(name)}</text>'
        yield (
            f'<rect x="{left}" y="{y + 2}" width="{median - left:.1f}" height="{BAR_HEIGHT - 4}" '
            f'fill="{colours[name]}"/>'
        )
        yield (
            f'<line x1="{lowest:.1f}" x2="{highest:.1f}" y1="{middle:g}" y2="{middle:g}" stroke="#24292f" '
            'stroke-width="2"/>'
        )
        yield f'<text x="{left + BAR_WIDTH + 8}" y="{middle + 4:g}">{shown(figures["median"])}</text>'
