"""What clients do while faults happen, and what is read when all is over.

The way through: ``workload`` (what every workload says of itself, and when its next operation is due) ->
``append`` (processes that append and poll), or ``encoding`` (how operations on objects are recorded) -> ``objects``
(processes that use the objects of a state machine) -> ``register``, ``collection``, ``counter``, ``bank``, ``lock``,
``queue`` (each declares a workload and does it) -> ``catalogue`` (all of them, and the tables that follow); ``ending``
(what replicas say meanwhile; convergence, dumps, reports).
"""

from __future__ import annotations
