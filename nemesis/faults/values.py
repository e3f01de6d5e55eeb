"""Faults as data: what is done, to whom, and the word for undoing it.

Owns the closed set of faults and their form in JSON. How they are done is the injector's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from nemesis.faults.links import LinkMode
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Replicas hear each other no more, as ``shape`` says of ``target``; clients still reach all of them."""

    kind: ClassVar[str] = "partition"
    healer: ClassVar[str] = "heal"
    shape: Shape
    target: Target = Role.NOBODY
    mode: LinkMode = LinkMode.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink:
    """One directed link between two replicas."""

    kind: ClassVar[str] = "partition-link"
    healer: ClassVar[str] = "heal"
    source: Target
    destination: Target
    mode: LinkMode = LinkMode.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class CutClients:
    """Clients and ``target`` hear each other no more; the replicas still do."""

    kind: ClassVar[str] = "partition-clients"
    healer: ClassVar[str] = "heal"
    target: Target
    mode: LinkMode = LinkMode.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL. What the process wrote and the kernel has survives; healed by starting it again."""

    kind: ClassVar[str] = "kill"
    healer: ClassVar[str] = "start"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """SIGSTOP: alive, silent, and sure that no time has passed when SIGCONT comes."""

    kind: ClassVar[str] = "pause"
    healer: ClassVar[str] = "resume"
    target: Target


Fault = Partition | CutLink | CutClients | Kill | Pause

_FAULTS: dict[str, type[Fault]] = {fault.kind: fault for fault in (Partition, CutLink, CutClients, Kill, Pause)}
_ENUMS: dict[str, Callable[[Any], Any]] = {"shape": Shape, "mode": LinkMode}


def fault_to_json(fault: Fault) -> dict[str, Any]:
    """The fault as a JSON object: ``kind`` and its fields."""
    return {"kind": fault.kind, **asdict(fault)}


def fault_from_json(document: dict[str, Any]) -> Fault:
    """The reverse. Raises ``ValueError`` for a kind or a field that does not exist."""
    fields = dict(document)
    kind = fields.pop("kind", None)
    if kind not in _FAULTS:
        raise ValueError(f"{kind!r} is no fault: give one of {', '.join(_FAULTS)}")
    typed = {name: _ENUMS[name](value) if name in _ENUMS else value for name, value in fields.items()}
    try:
        return _FAULTS[kind](**typed)
    except TypeError as error:
        raise ValueError(f"{kind} cannot be made of {sorted(fields)}: {error}") from None
