"""Machines by name: those that come with the package, and those that others bring.

Others bring theirs as an entry point of the group ``highwater.state_machines``, whose name is the machine's and whose
object makes one without arguments: a class. A name of the package is never replaced by another's, and a name that two
distributions bring is neither's. Reads what is installed; this is the one module here that does, and nobody but a
process that starts needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from replica.machines.counter import Counter
from replica.machines.description import described
from replica.machines.key_value import KeyValueMachine
from replica.machines.lock import LockMachine
from replica.machines.machine import StateMachine

ENTRY_POINT_GROUP = "highwater.state_machines"

MACHINES: Mapping[str, Callable[[], StateMachine]] = MappingProxyType(
    {"key-value": KeyValueMachine, "counter": Counter, "lock": LockMachine}
)
"""The machines that come with the package."""


class UnknownMachineError(LookupError):
    """There is no machine of this name; the message says which there are."""


class BrokenMachineError(Exception):
    """What is registered under this name is no machine; the message says who brought it and what is wrong."""


def machine_names() -> list[str]:
    """The names of all machines, broken ones included."""
    return sorted({*MACHINES, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def make_machine(name: str) -> StateMachine:
    """Make a fresh machine. Raises UnknownMachineError, BrokenMachineError."""
    own = MACHINES.get(name)
    return _made(_entry_point(name)) if own is None else own()


def _entry_point(name: str) -> EntryPoint:
    points = sorted(set(entry_points(group=ENTRY_POINT_GROUP, name=name)), key=lambda point: point.value)
    if not points:
        raise UnknownMachineError(f"there is no state machine {name!r}; there are {', '.join(machine_names())}")
    if len(points) > 1:
        who = " and ".join(_told(point) for point in points)
        raise BrokenMachineError(f"state machine {name!r} is registered more than once: {who}")
    return points[0]


def _made(point: EntryPoint) -> StateMachine:
    try:
        machine = point.load()()
    except Exception as error:
        raise BrokenMachineError(f"state machine {_told(point)} cannot be made: {error!r}") from error
    if not isinstance(machine, StateMachine):
        lacking = [
            name
            for name in ("advance", "apply", "query", "snapshot", "restore", "traits")
            if not hasattr(machine, name)
        ]
        raise BrokenMachineError(f"state machine {_told(point)} has no {', '.join(lacking)}: no state machine")
    try:
        described(point.name, machine.traits())
    except Exception as error:
        raise BrokenMachineError(f"state machine {_told(point)} has no traits that can be told: {error!r}") from error
    return machine


def _told(point: EntryPoint) -> str:
    brought_by = f" of {point.dist.name}" if point.dist is not None else ""
    return f"{point.name!r} ({point.value}{brought_by})"
