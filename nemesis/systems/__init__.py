"""Systems that can be put to the test, all under the same faults, workloads and checks.

The way through: ``offer`` (what a system can be used for and what it needs, as a value) -> ``highwater`` (our own
replicas); ``foreign`` (what all others have in common: a process for each node of a host, and nothing that only our
replicas can tell) -> ``loopback`` (the host for them that needs no privileges) -> ``etcd``, ``redis``, ``kafka`` (each
an offer, a ``system`` and a ``client``) -> ``catalogue`` (which there are, and what is missing to run one). The
libraries that their clients need are imported where one of them is used, and nowhere else.
"""

from __future__ import annotations
