"""What click makes of words, without doing anything: the command is found, and its options and arguments are read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import click

from nemesis.cli.__main__ import cli
from replica.cli.__main__ import main

PROGRAMS: dict[str, click.Command] = {"nemesis": cli, "replica": main}
SAMPLES = {
    "HOST:PORT": "127.0.0.1:9101",
    "data/$id": "data/1",
    "$id": "1",
    "127.0.0.1:900$id": "127.0.0.1:9001",
    "$voters": "1=127.0.0.1:9101=4ZfTzZVrQq6sK3yJ0nX9Bw",
    "$lease": "1",
    "forgetful:Forgetful": "highwater",
}
"""What stands for something of the reader's, and what is read in its place."""


def check_words(words: Sequence[str]) -> None:
    """Read a whole command. Raises click.UsageError for what is wrong; files need not exist."""
    program, *given = (SAMPLES.get(word, word) for word in words)
    with suppress(click.exceptions.Exit):  # An option that prints a list has ended the command.
        _check(PROGRAMS[program], program, given, None)


def _check(command: click.Command, name: str, given: list[str], parent: click.Context | None) -> None:
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    options, left, _ = command.make_parser(context).parse_args(list(given))
    for parameter in command.get_params(context):
        _read(parameter, context, options)
    if isinstance(command, click.Group):
        if left:
            found, below, rest = command.resolve_command(context, left)
            assert below is not None, f"{found} is no command of {name}"
            _check(below, found or "", rest, context)
    elif left:
        raise click.UsageError(f"{name} takes no {left}", context)


def _read(parameter: click.Parameter, context: click.Context, options: dict[str, object]) -> None:
    value, _ = parameter.consume_value(context, options)
    if isinstance(parameter.type, click.Path | click.File):
        if parameter.required and not value:
            raise click.MissingParameter(ctx=context, param=parameter)
        return
    assert parameter.name is not None
    context.params[parameter.name] = parameter.process_value(context, value)
