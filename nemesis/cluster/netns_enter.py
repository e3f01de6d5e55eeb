"""Move this process into a network of its own, in which it may do what only root may do elsewhere.

Owns the system calls: a network namespace, and where that takes privileges that we do not have a user namespace around
it, in which we are root and nobody else exists. Both are gone when the last process in them is; they have no name that
could be left over. Threads that are already there would stay outside, so this comes before anything starts one.
See namespaces(7), user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

from nemesis.errors import UnsupportedError

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
_entered: list[int] = []
"""The process that has entered: a child that was forked is inside as well, one that was started anew has to say so."""


def enter() -> None:
    """Be alone in a network namespace from now on; nothing if we are. Raises UnsupportedError where that is refused."""
    if is_inside():
        return
    if sys.platform != "linux":
        raise UnsupportedError("network namespaces exist on Linux only")
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise UnsupportedError(f"this process has {threads} threads already, and all but one would stay outside")
    _unshare_network()
    _loopback_up()
    _entered.append(os.getpid())


def is_inside() -> bool:
    """Whether ``enter`` was done in this process."""
    return os.getpid() in _entered


def new_namespace() -> int:
    """A network namespace that nobody is in, as an open file; it lasts until that is closed. Raises OSError.

    To be called in a thread of its own, which is in the namespace from then on, and does nothing else.
    """
    _unshare(CLONE_NEWNET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _unshare_network() -> None:
    try:
        _unshare(CLONE_NEWNET)
        return
    except PermissionError:
        pass
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(CLONE_NEWUSER)
        # The kernel lets us name our group only if we give up the right to take others.
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
        _unshare(CLONE_NEWNET)
    except OSError as error:
        raise UnsupportedError(
            f"this user may not make a user namespace with a network in it ({error.strerror}); the settings "
            f"kernel.unprivileged_userns_clone, user.max_user_namespaces and "
            f"kernel.apparmor_restrict_unprivileged_userns decide on that"
        ) from error


def _loopback_up() -> None:
    """Whatever else this process does, with Spark for one, it does by that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP, b""))


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
