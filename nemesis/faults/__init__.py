"""Faults: what can be done to a cluster, how it is undone, and to whom.

The way through: ``links`` (the names of directed links) -> ``shapes`` (partitions as sets of cut links) -> ``targets``
(whom a fault hits, decided when it strikes) -> ``crash_points`` and ``dials`` (where a replica can be killed, and how
clocks are set) -> ``needs`` and ``look`` (what faults need of a cluster, and how they are drawn in a report) ->
``fault`` (all that a fault says of itself) -> ``breakable`` (what faults ask of a system) -> ``casting`` (asks a system
whom a target means) -> ``family`` (what each family of faults can do: aim, strike, heal) -> ``attempts`` (a change that
is asked for, and its outcome) -> ``partitions``, ``impairments``, ``processes``, ``disks``, ``damage``,
``timekeeping``, ``bursts``, ``memory``, ``standing``, ``rolling``, ``voters``, ``replaced_disks`` and ``moves`` (the
families: each declares its faults and does them; the last four go on by themselves) and ``simulated`` (what the
simulator alone can do) -> ``catalogue`` (all of them, and the tables that follow).
"""

from __future__ import annotations
