"""Start a replica that a harness has its hands on: ``python -m nemesis.variants.server [OPTION...]``.

Owns four options: ``--variant NAME`` for one wrong rule, ``--stand-still FILE`` for a replica that stands still at a
named point when it finds the order to in that file, ``--disk FOLDER`` for one on a disk that can be broken, whose parts
are in that folder, and ``--clocks FILE`` for one whose clocks go by the settings in that file. All others are those of
``replica start``, read by the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from nemesis.disks.files import AccountedFiles
from nemesis.disks.place import place_in
from nemesis.variants.catalogue import BUILT
from nemesis.variants.clocks import DialledClocks
from nemesis.variants.standstill import StandingFiles
from replica.cli.start import start_command
from replica.cli.tls import tls_options
from replica.storage.files import Files


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.option("--variant", "name", type=click.Choice(sorted(BUILT)))
@click.option("--stand-still", type=click.Path(path_type=Path))
@click.option("--disk", type=click.Path(path_type=Path))
@click.option("--clocks", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@tls_options
def main(
    name: str | None, stand_still: Path | None, disk: Path | None, clocks: Path | None, arguments: tuple[str, ...]
) -> None:
    """Run a replica that is wrong in one rule, can stand still, or whose disk can be broken or clocks be set."""
    command = start_command(
        None if name is None else BUILT[name].rules,
        _files(stand_still, disk),
        None if clocks is None else lambda: DialledClocks(clocks),
    )
    told = __spec__.name if name is None else f"{__spec__.name} --variant {name}"
    # The files of TLS, options of what stands before a command, are handed down from one context to the next.
    command.main(args=arguments, prog_name=told, parent=click.get_current_context())


class StandingAccountedFiles(StandingFiles, AccountedFiles):
    """Files that stand still around calls of which an account is kept."""

    def __init__(self, order_path: Path, disk: Path) -> None:
        AccountedFiles.__init__(self, place_in(disk))
        StandingFiles.__init__(self, order_path)


def _files(stand_still: Path | None, disk: Path | None) -> Callable[[], Files] | None:
    match stand_still, disk:
        case None, None:
            return None
        case Path() as order_path, None:
            return lambda: StandingFiles(order_path)
        case None, Path() as folder:
            return lambda: AccountedFiles(place_in(folder))
        case Path() as order_path, Path() as folder:
            return lambda: StandingAccountedFiles(order_path, folder)
        case _:
            raise AssertionError((stand_still, disk))


if __name__ == "__main__":
    main()
