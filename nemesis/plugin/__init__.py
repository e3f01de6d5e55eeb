"""The pytest plugin: real clusters and whole chaos runs as fixtures.

The way through: ``hooks`` (options, the marker, the fixtures, the summary: all that pytest loads) -> ``chaos`` (what
a test asks for; a run under faults, judged: its failure is the test's)
and ``cluster`` (a cluster that a test breaks by hand) over ``host`` (the process that owns that cluster). Loading it
imports neither gRPC nor what judges: a project that has it installed collects its tests as fast as before.
"""

from __future__ import annotations

from nemesis.plugin.chaos import Chaos, UndecidedError, ViolationError
from nemesis.plugin.cluster import Cluster, ClusterError

__all__ = ["Chaos", "Cluster", "ClusterError", "UndecidedError", "ViolationError"]
