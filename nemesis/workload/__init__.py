"""What clients do while faults happen, and what is read when all is over.

The way through: ``recorder`` (events with their order and time) -> ``pace`` (when the next operation is due) ->
``append`` (processes that append and poll), ``sampler`` (what replicas say meanwhile) -> ``ending`` (convergence, final
reads, dumps, reports).
"""

from __future__ import annotations
