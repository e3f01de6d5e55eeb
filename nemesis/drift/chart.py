"""What was judged as a picture, SVG: a panel for each quantity, a line for each life of each replica's processes.

Owns where things are drawn. Each panel has a scale of its own, from 0 on. Written by hand: the plotting library of
reports draws no pictures without a browser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from nemesis.drift.judgement import QUANTITIES
from nemesis.drift.series import Series

COLUMNS, WIDTH, PANEL_WIDTH, PANEL_HEIGHT = 2, 960, 480, 170
TOP, BOTTOM, LEFT, RIGHT = 30, 22, 52, 14
COLOURS = ("#1f6feb", "#2da44e", "#bf8700", "#8250df", "#cf222e", "#0a7ea4", "#6e7781", "#bc4c00", "#116329")
STYLE = "text{font:11px sans-serif;fill:#24292f}.title{font-weight:bold}polyline{fill:none;stroke-width:1.5}"


def chart_of(series: Sequence[Series], limit_s: float) -> str:
    """The whole picture; ``limit_s`` is how long the run's workload lasted."""
    nodes = sorted({one.node for one in series if one.node is not None})
    colours = {node: COLOURS[place % len(COLOURS)] for place, node in enumerate(nodes)}
    rows = -(-len(QUANTITIES) // COLUMNS)
    drawn = "\n".join(
        f'<g transform="translate({PANEL_WIDTH * (place % COLUMNS)},{PANEL_HEIGHT * (place // COLUMNS)})">\n'
        + "\n".join(_panel(name, [one for one in series if one.quantity == name], colours, limit_s))
        + "\n</g>"
        for place, name in enumerate(QUANTITIES)
    )
    height = rows * PANEL_HEIGHT + BOTTOM
    legend = "\n".join(
        f'<text x="{LEFT + 90 * place}" y="{height - 8}" style="fill:{colour}">replica {node}</text>'
        for place, (node, colour) in enumerate(colours.items())
    )
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{drawn}\n{legend}\n</svg>\n'
    )


def _panel(name: str, series: Sequence[Series], colours: dict[int, str], limit_s: float) -> Iterator[str]:
    quantity = QUANTITIES[name]
    unit = f", {quantity.unit}" if quantity.unit else ""
    yield f'<text class="title" x="{LEFT}" y="{TOP - 12}">{escape(quantity.words + unit)}</text>'
    highest = max(
        (life.value.max() * quantity.scale for one in series for life in one.lives if len(life.value)), default=0
    )
    bottom, right = PANEL_HEIGHT - BOTTOM, PANEL_WIDTH - RIGHT
    across, up = (right - LEFT) / limit_s, (bottom - TOP) / (highest or 1.0)
    for value in (0.0, highest):
        y = bottom - value * up
        yield f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
    yield f'<text x="{right}" y="{bottom + 14}" text-anchor="end">{limit_s / 60:.3g} min</text>'
    for one in series:
        colour = "#24292f" if one.node is None else colours[one.node]
        for life in one.lives:
            points = " ".join(
                f"{LEFT + time_s * across:.1f},{bottom - value * quantity.scale * up:.1f}"
                for time_s, value in zip(life.time_s, life.value, strict=True)
            )
            yield f'<polyline points="{points}" stroke="{colour}"/>'
