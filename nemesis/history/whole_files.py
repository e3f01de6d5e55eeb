"""A file that is written whole or not at all, in a folder that may come from elsewhere.

Owns the way: a new file beside it takes its place in one step. A link that somebody left there is not followed, and
what no encoding has is written as its escape.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> Path:
    """Write ``text`` to ``path``, and return that; raises OSError."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("x", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    os.replace(unfinished, path)
    return path
