"""The programs that set up networks, run in a namespace of the harness: ``ip``, ``nft``, ``tc``, ``ss``, ``nsenter``.

Owns how they are found and called. A namespace is an open file of the harness, absent for the harness's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from nemesis.errors import NodeFailedError

CALL_S_MAX = 10.0
SYSTEM_PATH = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/bin", "/bin"))
"""Where these are, also where the path of an ordinary user does not lead."""
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "nft": "nftables", "nsenter": "util-linux"}


class ToolError(NodeFailedError):
    """A program is not there, or has refused; the message has its words."""


def tool(name: str) -> str:
    """The path of a program. Raises ToolError, which says what to install."""
    found = shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise ToolError(f"the program {name} is not there: install {PACKAGES[name]}")
    return found


def inside_of(namespace: int | None) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words before a command that is to run in a namespace, and the open files that they need."""
    if namespace is None:
        return (), ()
    return (tool("nsenter"), f"--net=/proc/self/fd/{namespace}", "--"), (namespace,)


def run_tool(words: Sequence[str], script: str = "", *, namespace: int | None = None, files: Sequence[int] = ()) -> str:
    """Run a program to its end; what it printed. Raises ToolError if it does not end well."""
    before, needed = inside_of(namespace)
    command = [*before, tool(words[0]), *words[1:]]
    try:
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            timeout=CALL_S_MAX,
            pass_fds=(*needed, *files),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        raise ToolError(f"{' '.join(words)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
