"""Systems that are not ours, under the same faults, workloads and checks.

The way through: ``foreign`` (what every such system has in common: a process for each node of a host, and nothing that
only our replicas can tell) -> ``loopback`` (the host for them that needs no privileges) -> ``etcd``, ``redis``,
``kafka`` (each a ``system`` and a ``client``) -> ``catalogue`` (which there are, what each can be used for, and what is
missing to run it). The libraries that their clients need are imported where one of them is used, and nowhere else.
"""

from __future__ import annotations
