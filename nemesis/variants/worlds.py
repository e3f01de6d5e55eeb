"""The kinds of worlds that variants are simulated in.

Owns their names; what such a world is like, the simulator says.
"""

from __future__ import annotations

from enum import StrEnum


class WorldKind(StrEnum):
    """What the machines of a world are.

    Voters of one quorum log, brokers and controllers of a cluster, or voters of logs with state machines on them.
    """

    QUORUM = "quorum"
    CLUSTER = "cluster"
    GROUP = "group"
