"""The commands that README and docs show, as words: what a shell would make of each line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

OURS = ("nemesis", "replica")
OTHERS = "cd|cp|docker|docker-compose|export|git|kill|make|pip|printf|pytest|python3?|rm|sh|sleep|sudo"
"""Every other program that a line may begin with."""
KEYWORDS = frozenset({"do", "done", "for", "then", "fi", "sudo", "$"})
STARTS = re.compile(
    rf"(?:\$ )?(?:\.venv/bin/)?(?:(?:{'|'.join(OURS)}) (?=[a-z-])|(?:{OTHERS})(?: |$)|for \w+ in |\w+=\S)"
)
"""How a line of a shell begins. ``replica 1: leader`` and the like is output; so is what stands in columns."""
SKIPPED = frozenset({"python", "toml", "json", "edn", "text"})
"""Languages of fenced blocks that are no shell's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A line with commands: where it stands, what stands there, and the words of each command in it."""

    page: str
    line: int
    text: str

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The words of each command, its program first, by name."""
        return tuple(_commands(self.text))

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {self.text}"


def shown_on(path: Path, root: Path) -> Iterator[Shown]:
    """Every line of a shell on one page, with those that continue it."""
    waiting: list[str] = []
    for number, line in _code_lines(path.read_text(encoding="utf-8")):
        is_continued = bool(waiting)
        if not is_continued and not STARTS.match(line):
            continue
        waiting.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            text = " ".join(waiting).removeprefix("$ ")
            yield Shown(page=path.relative_to(root).as_posix(), line=number - len(waiting) + 1, text=text)
            waiting = []


def pages(root: Path) -> list[Path]:
    """The pages beside the code, and all of docs."""
    return [
        *(root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((root / "docs").rglob("*.md")),
    ]


def _code_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of blocks that may be a shell's, without their indentation."""
    fence: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fence = None if fence is not None else line[3:].strip() or "sh"
        elif fence is not None and fence not in SKIPPED:
            yield number, re.sub(r"^\s*(?:- )?(?:run: )?", "", line)
        elif fence is None and line.startswith("    "):
            yield number, line.strip()


def _commands(text: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    tokens = list(lexer)
    for before, token in pairwise(["", *tokens]):
        if before and set(before) <= set("<>&") and "&&" not in before and before != "&":
            continue  # Where a stream goes.
        if set(token) <= set("();|&"):
            yield from _cleaned(words)
            words = []
        elif set(token) <= set("<>&"):
            words = words[:-1] if words and words[-1].isdecimal() else words
        else:
            words.append(token)
    yield from _cleaned(words)


def _cleaned(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    kept = [word for word in words if word != "..."]
    while kept and (kept[0] in KEYWORDS or re.match(r"[A-Za-z_]\w*=", kept[0])):
        if kept[0] == "for":
            return
        kept = kept[1:]
    if kept:
        yield kept[0].rpartition("/")[2], *kept[1:]
