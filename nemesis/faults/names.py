"""What faults and their healings are called in a history.

Owns the words only; the report reads the kind of a fault from the first of them.
"""

from __future__ import annotations

from nemesis.faults.clocks import HEALER as CLOCK_HEALER
from nemesis.faults.network import HEALER, NetworkFault
from nemesis.faults.values import ChangeVoters, Clog, Fault, KillAt, Partition, Reassign


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
