"""The programs of other systems on this machine: where they are, and what installs them.

Owns the search. Debian puts servers where an ordinary user's PATH does not look.
"""

from __future__ import annotations

import os
import shutil

from nemesis.errors import UnsupportedError

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
PACKAGES = {
    "etcd": "etcd-server",
    "redis-server": "redis-server",
    "redis-sentinel": "redis-sentinel",
    "sh": "dash",
    "java": "default-jre-headless",
    "mvn": "maven",
}
"""Debian's package of each program."""


def find(program: str) -> str | None:
    """The full path of a program; absent if it is not installed."""
    folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS))
    return shutil.which(program, path=folders)


def full_path(program: str) -> str:
    """The full path of a program. Raises UnsupportedError, which says what to install."""
    path = find(program)
    if path is None:
        raise UnsupportedError(f"{program} is not installed: apt-get install {PACKAGES[program]}")
    return path
