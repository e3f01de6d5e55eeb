"""The end of a node's process that nobody here has brought about, as a report of the run.

Owns which of two it is. A process that ends by itself, by an exit code or a signal of its own making, *died*. SIGKILL
comes from outside only: from the kernel, which wants memory, or from somebody else; so that says nothing of the node.
"""

from __future__ import annotations

import time

from nemesis.cluster.host import Host
from nemesis.cluster.system import Report
from nemesis.history import KILLED_FROM_OUTSIDE

DIED = "died"


def death_of(host: Host, node: int) -> Report | None:
    """How the node's last process has ended, if nobody here had ended it."""
    if not host.died(node):
        return None
    killed_ns = host.killed_ns(node)
    if killed_ns is not None:
        return Report(node=node, monotonic_ns=killed_ns, event=KILLED_FROM_OUTSIDE, detail="SIGKILL")
    return Report(node=node, monotonic_ns=time.monotonic_ns(), event=DIED, detail=f"exit code {host.exit_code(node)}")
