"""The kinds of clusters that a run can be made on, by name.

Owns which host each of them is. Importing this imports none of them.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from nemesis.errors import UnsupportedError

if TYPE_CHECKING:
    from nemesis.cluster.host import Host


class ClusterKind(StrEnum):
    """What ``--cluster`` chooses from."""

    LOCAL = "local"
    """Processes of this machine, with a proxy on every link."""
    NETNS = "netns"
    """Processes of this machine in network namespaces of their own, whose links the kernel cuts."""
    CONTAINERS = "containers"
    """Containers, whose links the kernel cuts."""


def new_host(kind: ClusterKind, folder: Path, count: int) -> Host:
    """A host for so many nodes in ``folder``; nothing is made or started before it is opened.

    Raises UnsupportedError where this machine has no such host.
    """
    match kind:
        case ClusterKind.LOCAL:
            from nemesis.cluster.local import LocalHost

            return LocalHost(folder, count)
        case ClusterKind.NETNS:
            from nemesis.cluster.netns import NetnsHost
            from nemesis.cluster.netns_probe import why_no_clusters

            if why_not := why_no_clusters():
                raise UnsupportedError(f"no cluster of the kind {kind} can be had here: {why_not}")
            return NetnsHost(folder, count)
        case ClusterKind.CONTAINERS:
            from nemesis.cluster.containers import ContainersHost

            return ContainersHost(folder, count)
        case _:
            assert_never(kind)
