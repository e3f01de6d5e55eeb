"""``nemesis index``: the store as a folder of pages.

Owns the command's options.
"""

from __future__ import annotations

from pathlib import Path

import click

from nemesis.cli.exit import UnsupportedError
from nemesis.cli.run import store_option
from replica.cli.help import example


@click.command(epilog=example("nemesis index --html site"))
@store_option
@click.option(
    "--html",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Write the pages here; begin with its index.html.",
)
@click.option("--without-reports", is_flag=True, help="Leave out the runs' reports, which have scripts.")
def index(store: Path, folder: Path, without_reports: bool) -> None:
    """Write the list of runs and a page for each of them as files that need no server, for CI artifacts."""
    try:
        from nemesis.serve.static_folder import write_static
    except ImportError as error:
        raise UnsupportedError(f"{error.name} is not installed: pip install 'highwater-log[serve]'") from error
    try:
        count = write_static(store, folder, with_reports=not without_reports)
    except NotADirectoryError as error:
        raise click.BadParameter(str(error), param_hint="--store") from None
    except OSError as error:
        raise click.BadParameter(f"the pages cannot be written: {error}", param_hint="--html") from error
    click.echo(f"{count} runs: {folder / 'index.html'}")
