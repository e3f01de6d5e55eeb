"""``nemesis doctor``: what this machine can do, per kind of cluster and fault, and why not the others.

Owns the table. It is no verdict: the exit code is 0 whatever is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from replica.cli.help import example

if TYPE_CHECKING:
    from nemesis.doctor import Examined, WhyNot


@click.command(epilog=example("nemesis doctor"))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; a reason of null says that it works.")
def doctor(as_json: bool) -> None:
    """Say which clusters, faults and systems this machine can do, and why not the others."""
    from nemesis.doctor import examined

    found = examined()
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
        return
    for line in told(found):
        click.echo(line)


def told(found: Examined) -> Iterator[str]:
    """The table of faults, and below it why what is not there is not there."""
    kinds = list(found.clusters)
    names = list(next(iter(found.clusters.values())))
    width = max(len(name) for name in names)
    yield " ".join(["fault".ljust(width), *kinds])
    for name in names:
        cells = (_yes(found.clusters[kind][name]).ljust(len(kind)) for kind in kinds)
        yield " ".join([name.ljust(width), *cells]).rstrip()
    yield ""
    yield f"{'system'.ljust(width)} --system"
    for name, why_not in found.systems.items():
        yield f"{name.ljust(width)} {_yes(why_not)}"
    for kind in kinds:
        yield from _reasons(f"not with --cluster {kind}", found.clusters[kind])
    yield from _reasons("not on this machine", found.machine)
    yield from _reasons("not as --system", found.systems)


def _reasons(heading: str, found: WhyNot) -> Iterator[str]:
    """Each reason once, with all that it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for name, why_not in found.items():
        if why_not is not None:
            by_reason.setdefault(_line(why_not), []).append(name)
    if by_reason:
        yield ""
        yield f"{heading}:"
    for reason, names in by_reason.items():
        yield f"  {', '.join(names)}: {reason}"


def _yes(why_not: str | None) -> str:
    return "yes" if why_not is None else "no"


def _line(text: str) -> str:
    return " ".join(text.split())
