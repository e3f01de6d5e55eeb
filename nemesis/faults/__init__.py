"""Faults: what can be done to a cluster, how it is undone, and to whom.

The way through: ``links`` (the names of directed links) -> ``shapes`` (partitions as sets of cut links) -> ``targets``
(whom a fault hits, decided when it strikes) -> ``values`` (faults as data, each with the word that heals it) ->
``rolling`` and ``voters`` (those that go on by themselves) -> ``injector`` (does them to a system and records what was
really done).
"""

from __future__ import annotations
