"""A cluster of our replicas, as the table of systems makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.systems.highwater import OFFER


class HighwaterCluster(ReplicaCluster):
    """Replicas on any kind of host."""

    offer = OFFER

    @classmethod
    def on(cls, kind: ClusterKind, folder: Path, options: ReplicaOptions) -> Self:
        """Replicas on a host of that kind."""
        return cls(new_host(kind, folder, options.nodes), options)
