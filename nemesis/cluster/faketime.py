"""Wall clocks of programs that are not ours, by libfaketime, which is loaded into them.

Owns the settings of the library, and where it is looked for. It answers in the kernel's place, and reads a file each
time that somebody asks for the time, so that a running program jumps when the file changes. The monotonic clock is left
alone. Programs that ask the kernel without the C library, as those in Go do, do not notice any of this. Source: the
README of libfaketime 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FAKETIME_AT = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib64/faketime/libfaketime.so.1")
OFFSET_NAME = "faketime"


def why_no_faketime() -> str | None:
    """Why the library cannot be used here; absent if it can."""
    return None if _library() else "libfaketime is not there (Debian: apt-get install libfaketime)"


def faked_by(offset_file: Path) -> Mapping[str, str]:
    """The environment of a program whose wall clock goes by a file; the library must be there."""
    library = _library()
    assert library is not None, "the fault was found supported"
    return {
        # A program's own allocator of memory (jemalloc, in Redis) asks for the time while the library starts, and it
        # asks for memory: round and round. With the C library before it, that one allocates.
        "LD_PRELOAD": f"{library}:libc.so.6",
        "FAKETIME_TIMESTAMP_FILE": str(offset_file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # What files bear is none of this: the disk has its own idea of the time.
        "NO_FAKE_STAT": "1",
    }


def set_offset(offset_file: Path, wall_ms: int) -> None:
    """Let the program's wall clock be so far ahead of the true time, or behind it; it sees the file whole."""
    temporary = offset_file.with_name(f"{offset_file.name}.new")
    temporary.write_text(f"{wall_ms / 1000:+.3f}\n", encoding="ascii")
    temporary.replace(offset_file)


def _library() -> Path | None:
    found = (path for pattern in FAKETIME_AT for path in Path("/").glob(pattern.lstrip("/")))
    return next(found, None)
