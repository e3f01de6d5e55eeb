"""A group: a state machine on a quorum log, and the questions and commands that clients have for it.

Read in this order: ``state`` (all that a group knows), ``leading`` (when the machine leads), ``proposing`` (a command
into the log), ``applying`` (what is committed into the machine, its outcome to who waits), ``reading`` (a question:
what it waits for, and its answer), ``read_index`` (how far to have applied: by a round of the leader, or by asking it),
``leasing`` (or without asking anybody, for a while), ``snapshotting`` (what of snapshots is a group's own),
``balancing`` (who should lead), ``invariants`` (what must hold after every step), ``group`` (requests and reports in,
effects out).
"""

from __future__ import annotations

from replica.core.group.group import Group

__all__ = ["Group"]
