"""Clusters under test: what a system must offer, and three real replica processes that offer it.

The way through: ``system`` (the protocol through which a run reaches any system) -> ``link_proxy`` (one directed link
that can be cut) -> ``links`` (all of them) -> ``launcher`` (a process that dies with the harness) -> ``processes`` (one
replica process) -> ``topic_client`` (the workload's client over ours) -> ``control`` (the harness's own look at
replicas) -> ``local_options`` and ``local`` (the cluster) -> ``log_lines`` (what replicas wrote, as events of the run).
"""

from __future__ import annotations
