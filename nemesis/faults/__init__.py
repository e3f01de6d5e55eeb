"""Faults: what can be done to a cluster, how it is undone, and to whom.

The way through: ``links`` (the names of directed links) -> ``shapes`` (partitions as sets of cut links) -> ``targets``
(whom a fault hits, decided when it strikes) -> ``crash_points`` and ``dials`` (where a replica can be killed, and how
clocks are set) -> ``needs`` and ``look`` (what faults need of a cluster, and how they are drawn in a report) ->
``fault`` (all that a fault says of itself) -> ``breakable`` (what faults ask of a system) -> ``family`` (what each
family of faults can do: aim, for which a system is asked whom a target means, strike, and heal) -> ``partitions``,
``impairments``, ``processes``, ``disks``, ``damage``, ``timekeeping``, ``bursts``, ``memory``, ``standing``,
``rolling``, ``voters``, ``replaced_disks`` and ``moves`` (the families: each declares its faults and does them; the
last four go on by themselves) and ``simulated`` (what the simulator alone can do) -> ``catalogue`` (all of them, and
the tables that follow).
"""

from __future__ import annotations
