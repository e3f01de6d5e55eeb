"""Markdown from values. Owns the form of a table and of a piece of code in a cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"[<*_]")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, with an empty line behind it."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines) + "\n\n"


def code(text: object) -> str:
    """A word as code; nothing for nothing."""
    word = str(text)
    fence = "``" if "`" in word else "`"
    return f"{fence}{word}{fence}" if word else ""


def codes(words: Iterable[object]) -> str:
    """Words as code, with commas between them."""
    return ", ".join(code(word) for word in words)


def prose(text: str) -> str:
    """A docstring or a comment as Markdown: nothing but code stands out, whatever stars, underscores and angles it has.

    Code is between the backticks of Markdown, or the double ones of reStructuredText.
    """
    pieces = " ".join(text.split()).replace("``", "`").split("`")
    return "`".join(piece if number % 2 else _SPECIAL.sub(r"\\\g<0>", piece) for number, piece in enumerate(pieces))


def linked(text: str) -> str:
    """The words of a declaration, whose links are those of ``docs/nemesis.md``, for a page in ``reference/``."""
    text = text.replace("[below](#", "[Breaking a cluster](nemesis.md#")
    return re.sub(r"\]\((?=[a-z-]+\.md)", "](../", text)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(" ".join(cell.split())) for cell in cells) + " |"


def _cell(text: str) -> str:
    """Without bars that would end it; those in code do not."""
    pieces = text.split("`")
    return "`".join(piece if number % 2 else piece.replace("|", "\\|") for number, piece in enumerate(pieces))
