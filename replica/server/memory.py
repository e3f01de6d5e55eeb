"""How a replica's process keeps its memory: what is needed again at once is not given back to the kernel.

Owns the settings of the allocator and of the garbage collector. Source: glibc's ``mallopt``.
"""

from __future__ import annotations

import ctypes
import gc
import resource
from pathlib import Path

STATM = Path("/proc/self/statm")

YOUNG_OBJECTS_MAX = 10_000
"""How many objects are made until garbage in circles is looked for. Python's default of 700 is reached several times in
a large request; circles are few, but a call that gRPC has aborted is one."""
KEPT_BYTES_MAX = 64 << 20
"""How much free memory is kept for the next messages. To give it back after each, and have it filled with zeros again
page by page, took a tenth of all processor time in bulk."""
ALLOCATED_APART_BYTES_MIN = 16 << 20
"""What is larger than almost all messages is given back at once, as glibc does with all above 128 KiB at first."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_free_memory() -> None:
    """Have the C library keep memory for messages. Others than glibc keep to their own ways."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, ALLOCATED_APART_BYTES_MIN)


def give_back_free_memory() -> None:
    """Have the C library give all free memory back to the kernel, if it is glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def resident_bytes() -> int:
    """The memory that this process has now; 0 where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def freeze_what_is_there() -> None:
    """Let the garbage collector leave alone what a replica has loaded, and look less often at what comes and goes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 20)
