"""What clients do while faults happen, and what is read when all is over.

The way through: ``pace`` (when the next operation is due) -> ``workload`` (what every workload says of itself) ->
``append`` (processes that append and poll), or ``encoding`` (how operations on objects are recorded) -> ``objects``
(processes that use the objects of a state machine) -> ``register``, ``collection``, ``counter``, ``bank``, ``lock``,
``queue`` (each declares a workload and does it) -> ``catalogue`` (all of them, and the tables that follow); ``sampler``
(what replicas say meanwhile) -> ``ending`` (convergence, dumps, reports).
"""

from __future__ import annotations
