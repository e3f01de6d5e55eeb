"""The ``nemesis`` command.

Owns the list of subcommands; what they do is in the files beside this one. A subcommand's file is imported when that is
asked for, and whatever is heavy (gRPC, Arrow, Spark) inside the commands: judging a small file takes no longer than
that. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from nemesis.cli.exit import exit_code_of
from replica.cli.help import Group, Sections, example

COMMANDS = {
    "check": "check",
    "convict": "convict",
    "demo": "run",
    "doctor": "doctor",
    "drift": "drift",
    "explain": "explain",
    "export": "export",
    "gc": "gc",
    "history": "history",
    "index": "index",
    "list-variants": "check",
    "run": "run",
    "serve": "serve",
    "shrink": "shrink",
    "sim": "sim",
    "soak": "soak.command",
    "story": "story",
}
"""The file beside this one that each subcommand is in."""
COMPLETION = "_NEMESIS_COMPLETE"
"""Where click is told by a shell what it wants to know."""
SECTIONS: Sections = {
    "Break a cluster, and judge it": ("run", "demo", "soak", "doctor"),
    "Look at what was recorded": ("check", "drift", "explain", "history", "serve", "export", "index", "gc"),
    "Simulate": ("sim", "shrink", "story", "convict", "list-variants"),
}


class Commands(Group):
    """The subcommands, of which only that one is loaded that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The one of that name, if there is one."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"nemesis.cli.{COMMANDS[cmd_name]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command), f"{cmd_name} is {command!r}"
        return command


@click.group(
    cls=Commands,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=example("nemesis run --nemesis partition,kill,pause --time-limit 30 --seed 7", "nemesis demo"),
)
@click.version_option(package_name="highwater-log")
def cli() -> None:
    """Break a replicated log on purpose, record everything, and judge whether every promise was kept.

    Exit codes: 0 valid, 1 invalid, 2 unknown, 3 unsupported here, 254 bad arguments, 255 internal error,
    130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    # Broken connections are what a run is about: gRPC's core need not tell of each. It reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if COMPLETION in os.environ:  # A shell asks what may follow: click answers, and ends the process.
        cli.main(prog_name="nemesis")
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What stands in test.json as the command is what was given here, not whatever started this process.
    words = ["nemesis", *given]
    sys.exit(exit_code_of(lambda: cli.main(args=given, prog_name="nemesis", standalone_mode=False, obj=words)))


if __name__ == "__main__":
    main()
