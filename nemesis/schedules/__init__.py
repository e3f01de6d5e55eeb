"""Schedules: which faults are done when, and the doing of them.

The way through: ``schedule`` (steps, as data) -> ``directed`` (those that were written by hand) and ``drawn`` (those
from dice) -> ``injector`` (does the steps: gives each fault to its family, and records what was really done).
"""

from __future__ import annotations
