"""The ``nemesis`` command.

Owns the list of subcommands; what they do is in the files beside this one. Whatever is heavy (gRPC, Arrow,
Spark) is imported inside the commands. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from nemesis.cli.check import check, export, list_variants
from nemesis.cli.convict import convict
from nemesis.cli.doctor import doctor
from nemesis.cli.exit import exit_code_of
from nemesis.cli.run import demo, run
from nemesis.cli.shrink import shrink
from nemesis.cli.sim import sim
from nemesis.cli.soak import soak
from nemesis.cli.story import story
from nemesis.cli.suite import suite
from nemesis.cli.synth import synth


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="highwater")
def cli() -> None:
    """Break a replicated log on purpose, record everything, and judge whether every promise was kept.

    Exit codes: 0 valid, 1 invalid, 2 unknown, 3 unsupported here, 254 bad arguments, 255 internal error,
    130 interrupted.
    """


cli.add_command(sim)
cli.add_command(shrink)
cli.add_command(convict)
cli.add_command(story)
cli.add_command(run)
cli.add_command(demo)
cli.add_command(soak)
cli.add_command(suite)
cli.add_command(doctor)
cli.add_command(check)
cli.add_command(export)
cli.add_command(list_variants)
cli.add_command(synth)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    # Broken connections are what a run is about: gRPC's core need not tell of each. It reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What stands in test.json as the command is what was given here, not whatever started this process.
    words = ["nemesis", *given]
    sys.exit(exit_code_of(lambda: cli.main(args=given, prog_name="nemesis", standalone_mode=False, obj=words)))


if __name__ == "__main__":
    main()
