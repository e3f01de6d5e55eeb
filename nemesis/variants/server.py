"""Start a replica that a harness has its hands on: ``python -m nemesis.variants.server [OPTION...]``.

Owns two options: ``--variant NAME`` for one wrong rule, and ``--stand-still FILE`` for a replica that stands still at a
named point when it finds the order to in that file. All others are those of ``replica start``, read by the same code.
"""

from __future__ import annotations

from pathlib import Path

import click

from nemesis.variants.catalogue import BUILT
from nemesis.variants.standstill import StandingFiles
from replica.cli_start import start_command


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.option("--variant", "name", type=click.Choice(sorted(BUILT)))
@click.option("--stand-still", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(name: str | None, stand_still: Path | None, arguments: tuple[str, ...]) -> None:
    """Run one replica whose protocol is wrong in one rule, or that can be made to stand still, or both."""
    command = start_command(
        None if name is None else BUILT[name].rules,
        None if stand_still is None else lambda: StandingFiles(stand_still),
    )
    command.main(args=arguments, prog_name=__spec__.name if name is None else f"{__spec__.name} --variant {name}")


if __name__ == "__main__":
    main()
