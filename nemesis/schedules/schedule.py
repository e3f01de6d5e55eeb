"""What will be done to the cluster and when, as data.

Owns the steps and their form in ``schedule.json``. Whom a step hits is decided when it strikes; ``draw`` fixes the dice
for that, so that a schedule fixes the whole. Knows no clock and no cluster, nor where schedules come from: scripts,
files, or dice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, assert_never

from nemesis.faults.catalogue import fault_from_json
from nemesis.faults.fault import Fault
from nemesis.faults.needs import Need
from nemesis.faults.targets import Target

STEPS_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Inject:
    """Do ``fault``; ``fault_id`` is how its healing names it, ``draw`` seeds the choices that are left."""

    fault_id: int
    fault: Fault
    draw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """Undo the fault of that id, for those whom it hit."""

    fault_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Call whoever ``target`` is now ``name``, so that later steps mean the same one by ``@name``."""

    name: str
    target: Target
    draw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLeader:
    """Go on when ``target`` leads the first log, or that of the metadata; at the latest after ``at_most_s``."""

    target: Target
    at_most_s: float
    of_metadata: bool = False


Action = Inject | Heal | Name | AwaitLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action at ``at_s`` seconds of the run, or as soon after that as the step before it is done."""

    at_s: float
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps in order of time. What is not healed by a step is healed at ``time_limit_s``, when the workload ends.

    With ``keeps_distances`` a step that comes late makes all that follow it as late, and the end: what must be so long
    after something is.
    """

    name: str
    time_limit_s: float
    steps: tuple[Step, ...]
    keeps_distances: bool = False

    def __post_init__(self) -> None:
        times = [step.at_s for step in self.steps]
        if times != sorted(times):
            raise ValueError(f"the steps of schedule {self.name!r} are not in order of time: {times}")
        if times and not 0 <= times[0] <= times[-1] <= self.time_limit_s:
            raise ValueError(f"the steps of schedule {self.name!r} are not within 0 to {self.time_limit_s} s: {times}")
        if len(times) > STEPS_MAX:
            raise ValueError(f"schedule {self.name!r} has {len(times)} steps: at most {STEPS_MAX}")

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that it does, in order of time."""
        return tuple(step.action.fault for step in self.steps if isinstance(step.action, Inject))

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs of a cluster."""
        return frozenset(fault.need for fault in self.faults)

    def to_json(self) -> str:
        """``schedule.json``: the same schedule gives the same bytes."""
        steps = [{"at_s": step.at_s, **_action_to_json(step.action)} for step in self.steps]
        distances = {"keeps_distances": True} if self.keeps_distances else {}
        document = {"name": self.name, "time_limit_s": self.time_limit_s, **distances, "steps": steps}
        return json.dumps(document, indent=2) + "\n"


def schedule_from_json(text: str) -> Schedule:
    """Read back what ``to_json`` wrote. Raises ``ValueError`` for anything else."""
    try:
        document = json.loads(text)
        steps = tuple(_step_from_json(step) for step in document["steps"])
        return Schedule(
            name=document["name"],
            time_limit_s=document["time_limit_s"],
            steps=steps,
            keeps_distances=document.get("keeps_distances") is True,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not a schedule, nor any JSON: {error}") from None
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"this is not a schedule: {error!r}") from None


def _action_to_json(action: Action) -> dict[str, Any]:
    match action:
        case Inject():
            fault = action.fault.to_json()
            return {"action": "inject", "fault_id": action.fault_id, "fault": fault, "draw": action.draw}
        case Heal():
            return {"action": "heal", "fault_id": action.fault_id}
        case Name():
            return {"action": "name", "name": action.name, "target": action.target, "draw": action.draw}
        case AwaitLeader():
            waited = {"target": action.target, "at_most_s": action.at_most_s, "of_metadata": action.of_metadata}
            return {"action": "await-leader", **waited}
        case _:
            assert_never(action)


def _step_from_json(document: dict[str, Any]) -> Step:
    return Step(at_s=document["at_s"], action=_action_from_json(document))


def _action_from_json(document: dict[str, Any]) -> Action:
    match document["action"]:
        case "inject":
            fault = fault_from_json(document["fault"])
            return Inject(fault_id=document["fault_id"], fault=fault, draw=document["draw"])
        case "heal":
            return Heal(fault_id=document["fault_id"])
        case "name":
            return Name(name=document["name"], target=document["target"], draw=document["draw"])
        case "await-leader":
            return AwaitLeader(
                target=document["target"],
                at_most_s=document["at_most_s"],
                of_metadata=document.get("of_metadata", False),
            )
        case other:
            raise ValueError(f"{other!r} is no action of a schedule")
