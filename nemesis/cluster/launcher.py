"""Become another program that dies with the harness, however the harness dies.

Run as a script: ``launcher.py PARENT_PID PROGRAM ARGUMENT...``. Linux sends SIGKILL to the process when the thread that
started it ends (``PR_SET_PDEATHSIG``, which survives exec); elsewhere only an orderly end takes the processes along. A
script of its own because a function that runs between fork and exec may deadlock in a process with gRPC's threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_ORPHAN = 255


def main() -> None:
    """Tie this process to its parent and become the program."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(EXIT_ORPHAN)  # The parent died before the kernel was told.
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
