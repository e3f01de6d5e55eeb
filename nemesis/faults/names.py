"""What faults and their healings are called in a history.

Owns the words only, and which of them tell that something was done to the system; the report reads the kind of a fault
from the first of them.
"""

from __future__ import annotations

from nemesis.faults.clocks import HEALER as CLOCK_HEALER
from nemesis.faults.crash_points import CrashPoint
from nemesis.faults.network import HEALER, Between, NetworkFault
from nemesis.faults.shapes import Shape
from nemesis.faults.values import FAULTS, ChangeVoters, Clog, Course, Fault, KillAt, Partition, Reassign, VoterChange


def name_of(fault: Fault) -> str:
    """The name of doing it, in the history; its first word says the kind."""
    if isinstance(fault, ChangeVoters):
        return f"{fault.kind}-{fault.change}"
    if isinstance(fault, Reassign):
        return f"{fault.kind}-{fault.course}"
    if isinstance(fault, KillAt):
        return f"{fault.kind}-{fault.point}"
    if isinstance(fault, NetworkFault):
        return f"network-{fault.kind}-{fault.between}"
    return f"{fault.kind}-{fault.shape}" if isinstance(fault, Partition | Clog) else fault.kind


def healer_of(fault: Fault) -> str:
    """The name of undoing it."""
    return f"{fault.healer}-{name_of(fault)}" if fault.healer in ("heal", HEALER, CLOCK_HEALER) else fault.healer


def _names(fault: type[Fault]) -> frozenset[str]:
    """All that ``name_of`` says of faults of one class."""
    if issubclass(fault, NetworkFault):
        return frozenset(f"network-{fault.kind}-{between}" for between in Between)
    words = {Partition: Shape, Clog: Shape, ChangeVoters: VoterChange, Reassign: Course, KillAt: CrashPoint}
    return frozenset(f"{fault.kind}-{word}" for word in words[fault]) if fault in words else frozenset({fault.kind})


FAULT_NAMES = frozenset[str]().union(*map(_names, FAULTS.values()))
"""What the injection of a fault is called, whatever fault it is."""
DEEDS = frozenset[str]().union(*(getattr(fault, "steps", None) or _names(fault) for fault in FAULTS.values()))
"""The operations which, when they did not fail, have done something to the system."""
