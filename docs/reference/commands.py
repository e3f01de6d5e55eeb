"""The commands and their options, as click knows them.

Owns the walk through a command's subcommands, and what a page tells of each option. ``--help`` is the same text.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from docs.reference.tables import code, prose, table
from nemesis.cli.__main__ import cli as nemesis
from nemesis.cli.exit import Exit
from replica.cli.__main__ import main as replica

PROGRAMS = {"nemesis": nemesis, "replica": replica}


def page_of(program: str) -> str:
    """All that there is of one program."""
    parts = [_section(path, command) for path, command in commands_of(program)]
    return f"# `{program}`\n\n" + "".join(parts) + (_exit_codes() if program == "nemesis" else "")


def commands_of(program: str) -> Iterator[tuple[str, click.Command]]:
    """Every command of a program with its full name, a group before what is in it."""
    yield from _below(program, PROGRAMS[program])


def options_of(command: click.Command) -> Iterator[click.Option]:
    """The options that a command shows, beside ``--help``."""
    context = click.Context(command)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden and "--help" not in parameter.opts:
            yield parameter


def _below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _below(f"{path} {name}", found)


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    options = [_option(option, context) for option in options_of(command)]
    text = "" if " " not in path else f"## {path}\n\n"
    text += _text(command.help) + f"    {usage}\n\n"
    if options:
        text += table(("option", "what it does"), options)
    return text + _text(command.epilog)


def _text(help_text: str | None) -> str:
    """Paragraphs; one that begins with a backspace or is indented keeps its lines, as on the terminal."""
    paragraphs = [part for part in cleandoc(help_text or "").partition("\f")[0].split("\n\n") if part.strip()]
    return "".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    if text.startswith(("\b", " ")):
        lines = [line for line in text.splitlines() if line.strip("\b ")]
        return "\n".join(f"    {line}" for line in lines) + "\n\n"
    return prose(text) + "\n\n"


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    _, said = option.get_help_record(context) or ("", "")
    words = "".join(f"<br>{code(name)}" for name in option.secondary_opts)
    value = "" if option.is_flag or option.count else " " + _value(option, context)
    return code(", ".join(option.opts) + value) + words, prose(said)


def _value(option: click.Option, context: click.Context) -> str:
    if isinstance(option.type, click.Choice) and option.metavar is None and len(option.type.choices) > 12:
        return "NAME"
    return option.make_metavar(context)


def _exit_codes() -> str:
    rows = [(code(member.value), member.name.lower().replace("_", " ")) for member in Exit]
    return "## Exit codes\n\n" + table(("code", "meaning"), rows)
