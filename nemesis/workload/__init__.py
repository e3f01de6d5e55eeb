"""What clients do while faults happen, and what is read when all is over.

The way through: ``recorder`` (events with their order and time) -> ``pace`` (when the next operation is due) ->
``append`` (processes that append and poll), or ``objects`` (processes that use the objects of a state machine) with
one of ``uses`` (``register``, ``collection``, ``counter``, ``bank``, ``lock``); ``sampler`` (what replicas say
meanwhile) -> ``ending`` (convergence, final reads, dumps, reports).
"""

from __future__ import annotations
