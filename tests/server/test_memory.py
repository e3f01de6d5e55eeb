"""The memory of messages: what one has taken is there for the next, and is not asked of the kernel again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MESSAGES, MESSAGE_BYTES = 8, 1 << 20
PAGE_BYTES = 4096
SCRIPT = f"""
import resource, sys
from replica.server.memory import keep_free_memory

if sys.argv[1] == "kept":
    keep_free_memory()

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    messages = [bytearray(b"v") * {MESSAGE_BYTES} for _ in range({MESSAGES})]
    del messages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(min(faults() for _ in range(5)))
"""
"""Tells how many pages were asked for by messages like those that were there just before."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep to their own ways")
@pytest.mark.parametrize(("how", "is_kept"), [("kept", True), ("given back", False)])
def test_what_messages_have_taken_is_there_for_the_next(how: str, is_kept: bool) -> None:
    """Eight messages of 1 MiB ask for no page a second time; as glibc is by itself they ask for nearly all again."""
    pages = int(subprocess.run([sys.executable, "-c", SCRIPT, how], check=True, capture_output=True).stdout)

    if is_kept:
        assert pages < 20
    else:
        assert pages > MESSAGES * MESSAGE_BYTES // PAGE_BYTES // 2
