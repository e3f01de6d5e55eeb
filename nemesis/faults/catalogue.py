"""Every fault that there is, by its family, and the tables that follow from what each says of itself.

Owns the list of families. Nothing else lists faults: not the command line, nor the drawing, the judges, the report, the
simulator or the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemesis.faults.bursts import Bursts
from nemesis.faults.certificates import Rotations
from nemesis.faults.damage import DamagedDisks
from nemesis.faults.disks import Disks
from nemesis.faults.family import Family
from nemesis.faults.fault import Fault
from nemesis.faults.impairments import Impairments
from nemesis.faults.memory import MemoryLimits
from nemesis.faults.moves import Moves
from nemesis.faults.needs import Need
from nemesis.faults.partitions import Partitions
from nemesis.faults.processes import Processes
from nemesis.faults.replaced_disks import ReplacedDisks
from nemesis.faults.rolling import Rolling
from nemesis.faults.simulated import SIMULATED
from nemesis.faults.standing import KillsAtPoints
from nemesis.faults.timekeeping import Timekeeping
from nemesis.faults.voters import Voters

FAMILIES: tuple[type[Family[Any]], ...] = (
    *(Partitions, Impairments, Processes, KillsAtPoints),
    *(Disks, DamagedDisks, ReplacedDisks, Timekeeping, Bursts, Rolling, Voters),
    *(Moves, MemoryLimits, Rotations),
)
"""What is done by whom; at the end of a run they finish in this order."""

FAULTS: Mapping[str, type[Fault]] = {
    fault.kind: fault for fault in (*(fault for family in FAMILIES for fault in family.faults), *SIMULATED)
}
"""Every fault by its kind."""


def _place(fault: type[Fault]) -> int:
    return -1 if fault.drawn_as is None else fault.drawn_as


KINDS: Mapping[str, type[Fault]] = {
    fault.kind: fault for fault in sorted(FAULTS.values(), key=_place) if fault.drawn_as is not None
}
"""What ``--nemesis`` chooses from, in the order in which seeds draw."""
USUAL = tuple(word for word, fault in KINDS.items() if fault.is_usual)
"""What is drawn from where nothing is asked for."""
FAULT_NAMES = frozenset(name for fault in FAULTS.values() for name in fault.names())
"""What the injection of a fault is called, whatever fault it is."""
DEEDS = frozenset(name for fault in FAULTS.values() for name in fault.steps or fault.names())
"""The operations which, when they did not fail, have done something to the system."""


def fault_from_json(document: dict[str, Any]) -> Fault:
    """What ``Fault.to_json`` gave. Raises ``ValueError`` for a kind or a field that does not exist."""
    fields = dict(document)
    kind = fields.pop("kind", None)
    if kind not in FAULTS:
        raise ValueError(f"{kind!r} is no fault: give one of {', '.join(FAULTS)}")
    return FAULTS[kind].from_fields(fields)


def needed_by(kinds: Iterable[str]) -> frozenset[Need]:
    """What is needed of a cluster by whatever these may draw."""
    return frozenset(KINDS[word].need for word in kinds)
