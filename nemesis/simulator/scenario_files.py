"""The format of scenario files: directives, the prose above them, and the output below them.

Owns reading and writing of that format, which are inverse to one another, so that a file can be rewritten with what its
commands print today and the difference be read. Does not know any command.

A file is a sequence of directives with blank lines between them::

    # Prose, which belongs to the directive below. A line with the sign alone begins a new paragraph.
    command word word key=value
    further input, line by line
    ----
    output, up to the next blank line

Output that has blank lines in it stands between two doubled lines of dashes instead::

    command
    ----
    ----
    output

    and more of it
    ----
    ----

Source: github.com/cockroachdb/datadriven, as in etcd's raft/testdata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

DASHES = "----"
_COMMAND = re.compile(r"[a-z][a-z0-9-]*")
_ARGUMENT = re.compile(r"([a-z][a-z0-9_-]*)=(\S*)")


class ScenarioError(ValueError):
    """A scenario file cannot be understood or performed; the message names the line and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """One command of a scenario, with what a reader is told before and what it is expected to print."""

    prose: str = ""
    command: str
    words: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    output: str = ""
    line_number: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        """The directive line."""
        return " ".join((self.command, *self.words, *(f"{key}={value}" for key, value in self.arguments.items())))


def parse_scenario(text: str) -> tuple[Directive, ...]:
    """Read a scenario file."""
    reader = _Reader(text.splitlines())
    directives: list[Directive] = []
    while (directive := reader.directive()) is not None:
        directives.append(directive)
    return tuple(directives)


def render_scenario(directives: Iterable[Directive]) -> str:
    """Write a scenario file."""
    return "\n".join(_render(directive) for directive in directives)


def _render(directive: Directive) -> str:
    prose = [f"# {line}".rstrip() for line in directive.prose.splitlines()]
    head = [*prose, directive.text, *directive.lines, DASHES]
    output = directive.output.splitlines()
    if "" in output or DASHES in output:
        if (DASHES, DASHES) in pairwise(output):
            raise ScenarioError(f"line {directive.line_number}: the output has two lines {DASHES} in it; print others")
        return "\n".join([*head, DASHES, *output, DASHES, DASHES, ""])
    return "\n".join([*head, *output, ""])


class _Reader:
    """The lines of a file and how far it is read."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = [line.rstrip() for line in lines]
        self._at = 0

    def directive(self) -> Directive | None:
        """The next directive; None at the end."""
        prose = self._prose()
        if self._at == len(self._lines):
            if prose:
                raise ScenarioError(f"line {self._at}: prose without a directive below it; add one, or remove it")
            return None
        line_number = self._at + 1
        command, words, arguments = _directive_line(self._lines[self._at], line_number)
        self._at += 1
        return Directive(
            prose=prose,
            command=command,
            words=words,
            arguments=arguments,
            lines=self._input(line_number),
            output=self._output(),
            line_number=line_number,
        )

    def _prose(self) -> str:
        paragraphs: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line and not line.startswith("#"):
                break
            paragraphs.append(line[1:].removeprefix(" "))
            self._at += 1
        return re.sub(r"\n{3,}", "\n\n", "\n".join(paragraphs)).strip("\n")

    def _input(self, directive_number: int) -> tuple[str, ...]:
        """The lines down to the dashes. A blank one means that the dashes were forgotten."""
        start = self._at
        while self._at < len(self._lines) and self._lines[self._at] not in ("", DASHES):
            self._at += 1
        if self._at == len(self._lines) or not self._lines[self._at]:
            raise ScenarioError(f"line {directive_number}: no {DASHES} below the directive; put it above the output")
        self._at += 1
        return tuple(self._lines[start : self._at - 1])

    def _output(self) -> str:
        if self._lines[self._at : self._at + 1] == [DASHES]:
            return self._fenced_output()
        start = self._at
        while self._at < len(self._lines) and self._lines[self._at]:
            self._at += 1
        return "\n".join(self._lines[start : self._at])

    def _fenced_output(self) -> str:
        start = self._at + 1
        for end in range(start, len(self._lines) - 1):
            if self._lines[end : end + 2] == [DASHES, DASHES]:
                self._at = end + 2
                return "\n".join(self._lines[start:end])
        raise ScenarioError(f"line {start}: no doubled {DASHES} below the output; put it there, or remove this line")


def _directive_line(line: str, number: int) -> tuple[str, tuple[str, ...], dict[str, str]]:
    command, *rest = line.split()
    if _COMMAND.fullmatch(command) is None:
        raise ScenarioError(f"line {number}: {command!r} is no command; begin with one, or with # if this is prose")
    words: list[str] = []
    arguments: dict[str, str] = {}
    for part in rest:
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            words.append(part)
        elif match[1] in arguments:
            raise ScenarioError(f"line {number}: {match[1]}= is given twice; keep one of them")
        else:
            arguments[match[1]] = match[2]
    return command, tuple(words), arguments
