"""Start a replica that a harness has its hands on: ``python -m nemesis.variants.server [OPTION...]``.

Owns three options: ``--variant NAME`` for one wrong rule, ``--stand-still FILE`` for a replica that stands still at a
named point when it finds the order to in that file, and ``--clocks FILE`` for one whose clocks go by the settings in
that file. All others are those of ``replica start``, read by the same code.
"""

from __future__ import annotations

from pathlib import Path

import click

from nemesis.variants.catalogue import BUILT
from nemesis.variants.clocks import DialledClocks
from nemesis.variants.standstill import StandingFiles
from replica.cli_start import start_command


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.option("--variant", "name", type=click.Choice(sorted(BUILT)))
@click.option("--stand-still", type=click.Path(path_type=Path))
@click.option("--clocks", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(name: str | None, stand_still: Path | None, clocks: Path | None, arguments: tuple[str, ...]) -> None:
    """Run a replica that is wrong in one rule, that can be made to stand still, or whose clocks can be set."""
    command = start_command(
        None if name is None else BUILT[name].rules,
        None if stand_still is None else lambda: StandingFiles(stand_still),
        None if clocks is None else lambda: DialledClocks(clocks),
    )
    command.main(args=arguments, prog_name=__spec__.name if name is None else f"{__spec__.name} --variant {name}")


if __name__ == "__main__":
    main()
