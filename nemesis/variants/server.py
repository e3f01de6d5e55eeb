"""Start a replica with one wrong rule: ``python -m nemesis.variants.server --variant NAME OPTION...``.

Owns the one option; all others are those of ``replica start``, read by the same code.
"""

from __future__ import annotations

import click

from nemesis.variants.catalogue import BUILT
from replica.cli_start import start_command


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.option("--variant", "name", type=click.Choice(sorted(BUILT)), required=True)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(name: str, arguments: tuple[str, ...]) -> None:
    """Run one replica whose protocol is wrong in one rule."""
    start_command(BUILT[name].rules).main(args=arguments, prog_name=f"{__spec__.name} --variant {name}")


if __name__ == "__main__":
    main()
