"""Nemesis: break a replicated log on purpose, record everything, and judge whether every promise was kept.

The way of a fault, room by room: ``schedules`` (a seed becomes timed steps) -> ``runner`` (a run from its folder to its
verdict) over ``cluster`` (real processes and the links between them, all of which can be broken; ``systems`` that are
not ours as well) with ``faults`` (what is done to them, and to their ``disks``) while ``workload`` appends and polls ->
``history`` (what happened, on disk) -> ``checks`` and ``pipeline`` (operations, anomalies, ``verdict``) -> ``report``
(one page). ``variants`` are protocols with one wrong rule, by which the harness shows that it would notice. ``cli`` is
the way in; ``plugin`` (of pytest) is another, and ``ci`` tells of runs. No stage reads further back than the one before
it: judging and reporting need the folder of a run, never a running cluster.
"""

from __future__ import annotations
