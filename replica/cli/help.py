"""How commands explain themselves: help in sections, an example each, and the right word for a wrong one.

Owns the form. Which sections, examples and words there are is said where a command or an option is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem

Sections = Mapping[str, Collection[str]]
"""Headings in their order, each with the names that stand below it: of commands, or of parameters."""
OTHERS = "Options"
NEAR = 0.6
"""How alike two words must be for one to be a misspelling of the other (``difflib``)."""


def example(*commands: str) -> str:
    """The epilog of a command: how it is called."""
    return "\n".join(["\b", "Example:" if len(commands) == 1 else "Examples:", *(f"  {each}" for each in commands)])


def meant(word: str, known: Collection[str]) -> str:
    """What somebody may have meant who wrote ``word``, in brackets behind it; empty if nothing is like it."""
    begun = [name for name in known if word and name.startswith(word)]
    near = get_close_matches(word, known, n=1, cutoff=NEAR) or begun
    return f" (did you mean {near[0]}?)" if near else ""


class Named(click.ParamType[str]):
    """One of so many names that they are not all listed in the help: ``where`` says how to see them."""

    name = "name"

    def __init__(self, known: Callable[[], Collection[str]], where: str) -> None:
        self._known = known
        self._where = where

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name itself; fails for one that is not known, and says which is like it."""
        known = self._known()
        if value not in known:
            self.fail(f"there is no {value!r}{meant(value, known)}; {self._where}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so."""
        del ctx, param
        return [CompletionItem(name) for name in sorted(self._known()) if name.startswith(incomplete)]


class Command(click.Command):
    """A command whose options stand in sections; those that are in none come last."""

    def __init__(self, *arguments: Any, sections: Sections | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.sections = sections or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        records: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*self.sections, OTHERS)}
        heading_of = {name: heading for heading, names in self.sections.items() for name in names}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                records[heading_of.get(parameter.name or "", OTHERS)].append(record)
        for heading, rows in records.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Group(click.Group):
    """A group whose commands stand in sections, and which knows what a wrong word may have meant."""

    def __init__(self, *arguments: Any, sections: Sections | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.sections = sections or {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, section by section, in the order of the sections."""
        names = self.list_commands(ctx)
        placed = {name for below in self.sections.values() for name in below}
        sections = {**self.sections, "Commands": [name for name in names if name not in placed]}
        width = max(map(len, names), default=0)
        for heading, below in sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in below]
            limit = formatter.width - 6 - width
            rows = [(name, command.get_short_help_str(limit)) for name, command in commands if command is not None]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See ``click``; a command that does not exist is told with the one that is like it."""
        is_known = self.get_command(ctx, args[0]) is not None
        if not is_known and not args[0].startswith("-") and not ctx.resilient_parsing:
            known = self.list_commands(ctx)
            raise click.UsageError(f"there is no command {args[0]!r}{meant(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)
