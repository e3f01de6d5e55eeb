"""A file that is written whole or not at all, in a folder that may come from elsewhere.

Owns the way: a new file beside it takes its place in one step. A link that somebody left there is not followed, and
what no encoding has is written as its escape.
"""

from __future__ import annotations

from pathlib import Path


def write_whole(folder: Path, name: str, text: str) -> Path:
    """Write ``text`` into this file of a folder, and return where it is; raises OSError."""
    path, unfinished = folder / name, folder / f".{name}.unfinished"
    unfinished.unlink(missing_ok=True)
    unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
    unfinished.replace(path)
    return path
