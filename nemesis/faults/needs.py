"""What a fault needs of a cluster, and what each cluster says that it has or lacks.

Owns the words. A cluster answers by need and not by fault, so that a new fault asks nobody who does not do it.
"""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """One thing that a cluster can or cannot do."""

    CLIENTS = "clients"
    """Nothing of the cluster: clients of ours that ask."""
    PROCESSES = "processes"
    """Processes that can be killed, stopped, paused and started."""
    CUTS = "cuts"
    """Links that can be cut."""
    LATE_PACKETS = "late-packets"
    LOST_PACKETS = "lost-packets"
    NARROW_LINKS = "narrow-links"
    RESETS = "resets"
    CONVERSATIONS = "conversations"
    """The bytes of each connection, one after the other, in the hands of whoever carries them."""
    STANDING_STILL = "standing-still"
    """Replicas that can be told to stand still at a point of their work."""
    TIMERS = "timers"
    """Nodes of which the clock can be set that timers go by."""
    WALL_CLOCKS = "wall-clocks"
    DISKS = "disks"
    """Disks that can be broken under a replica."""
    VOTERS = "voters"
    """Voters that can be changed."""
    OTHER_DISKS = "other-disks"
    """Disks that can be replaced by empty ones, and the votes on them."""
    MOVES = "moves"
    """Partitions that can be moved."""
    CERTIFICATES = "certificates"
    """Replicas and clients that know each other by certificates, which can be renewed."""
    MEMORY = "memory"
    """A limit of memory for each node."""
    SIMULATOR = "simulator"
    """Messages one by one: no network of processes has those."""


IMPAIRED_LINKS = frozenset({Need.LATE_PACKETS, Need.LOST_PACKETS, Need.NARROW_LINKS, Need.RESETS, Need.CONVERSATIONS})
"""What is asked of links that still work."""
IN_SIMULATOR_ONLY = "it can be done in the simulator only"
