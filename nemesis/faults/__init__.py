"""Faults: what can be done to a cluster, how it is undone, and to whom.

The way through: ``links`` (the names of directed links) -> ``shapes`` (partitions as sets of cut links) -> ``targets``
(whom a fault hits, decided when it strikes) -> ``network`` and ``crash_points`` (what can be done to bytes on their
way, and where a replica can be killed) -> ``clocks`` and ``dials`` (what can be done to clocks, and how they are set)
-> ``values`` (faults as data, each with the word that heals it) -> ``names`` (what the history calls them) ->
``casting`` (asks a system whom a target means) -> ``family`` (what each family of faults can do) -> ``attempts`` (a
change that is asked for, and its outcome) -> ``partitions``, ``impairments``, ``processes``, ``disks``, ``damage``,
``timekeeping``, ``bursts``, ``memory``, ``standing``, ``rolling``, ``voters`` and ``moves`` (the families; the last
four go on by themselves) -> ``injector`` (gives each fault to its family, and records what was really done).
"""

from __future__ import annotations
