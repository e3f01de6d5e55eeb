"""The option that chooses the kinds of faults.

Owns its form: names with commas between them, or none at all.
"""

from __future__ import annotations

import click

from nemesis.schedule import Package

NO_FAULTS = "none"


def _packages(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[Package, ...] | None:
    """Read ``partition,kill``; ``none`` is no package at all, an absent option says nothing."""
    del context, parameter
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == [NO_FAULTS]:
        return ()
    if not words or not set(words) <= set(Package):
        known = ", ".join(Package)
        raise click.BadParameter(f"{value!r}: give some of {known}, separated by commas, or {NO_FAULTS}")
    return tuple(Package(word) for word in words)


nemesis_option = click.option(
    "--nemesis",
    callback=_packages,
    metavar="NAMES",
    help=f"{', '.join(Package)}; or {NO_FAULTS}. [default: all but {Package.MEMBERSHIP}]",
)
