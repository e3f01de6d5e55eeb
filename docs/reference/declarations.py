"""What is declared once and listed here: anomalies, faults, workloads, systems and models."""

from __future__ import annotations

from typing import Any

from docs.reference.comments import comments_of, first_paragraph
from docs.reference.tables import code, codes, linked, prose, table
from nemesis.checks import CHECKS, Check
from nemesis.faults import needs, targets
from nemesis.faults.catalogue import FAULTS, KINDS
from nemesis.faults.fault import TARGETS, Fault, choices, hints
from nemesis.linearizability.models.registry import MODELS
from nemesis.schedules.directed import DIRECTED
from nemesis.systems.catalogue import SYSTEMS
from nemesis.workload.catalogue import WORKLOADS


def anomalies() -> str:
    """Every check as it is declared."""
    head = ("anomaly", "what is promised", "what is looked at", "a prefix proves", "rests on every line")
    return f"""# Anomalies

An anomaly is the breach of a promise. [Checks](../checks.md) explains each with an example. *A prefix proves* what the
whole of a run must show if its beginning shows the anomaly: only such anomalies are told while a run goes on. What
*rests on every line* is undecided where lines of the history are missing or there twice.

{table(head, map(_check, CHECKS))}
"""


def _check(check: Check) -> tuple[str, ...]:
    others = sorted(check.implies - {check.name})
    proves = ", ".join((["the same"] if check.implies else ["nothing"]) + others)
    return check.name, check.promise, check.needs, proves, "yes" if check.rests_on_all else ""


def faults() -> str:
    """Every fault that seeds draw, then those that scripts alone do, then the schedules by hand."""
    scripted = [fault for kind, fault in FAULTS.items() if kind not in KINDS]
    said = comments_of(needs, "Need")
    needed = [(code(need.value), prose(said[need.name])) for need in needs.Need if need.name in said]
    head = ("kind", "what it does", "what its healing does")
    return f"""# Faults

[Breaking a cluster](../nemesis.md#faults) tells how faults are aimed, done and healed. `nemesis doctor` says which of
them this machine can do.

## Kinds that `--nemesis` takes

{table(head, [(code(word), linked(fault.does), linked(fault.undone)) for word, fault in KINDS.items()])}
Without `--nemesis` faults are drawn from {codes(word for word, fault in KINDS.items() if fault.is_usual)}.

## Their fields in `schedule.json`

{table(("kind", "fields", "what it needs of a cluster"), [_fields(fault) for fault in KINDS.values()])}
{table(("need", "meaning"), needed)}
A target is {codes(targets.Role)}, or `@NAME` for whoever a step of the schedule has named.

## Done by scripts alone

{table(("kind", "fields", "what it needs of a cluster"), [_fields(fault) for fault in scripted])}
## Schedules that `--schedule` takes

{codes(DIRECTED)}.
"""


def _fields(fault: type[Fault]) -> tuple[str, ...]:
    told = [f"{code(name)}: {_may_be(fault, name, hint)}" for name, hint in hints(fault).items()]
    return code(fault.kind), "<br>".join(told), code(fault.need.value)


def _may_be(fault: type[Fault], name: str, hint: Any) -> str:
    """What a field may be: one of some words, whom a target means, a number or a truth value."""
    if name in TARGETS:
        return "a target"
    words = choices(fault).get(name)
    return {int: "a whole number", bool: "true or false"}.get(hint, str(hint)) if words is None else ", ".join(words)


def workloads() -> str:
    """Every workload, and the models that judge histories of anybody's."""
    rows = [
        (
            code(name),
            workload.an_object,
            workload.operations,
            linked(workload.judged_as()),
            codes(sorted(workload.verbs)),
        )
        for name, workload in WORKLOADS.items()
    ]
    models = [(code(name), prose(first_paragraph(model.__doc__))) for name, model in MODELS.items()]
    return f"""# Workloads and models

## Workloads that `--workload` takes

{table(("workload", "an object is", "operations", "judged as", "what clients must be able to do"), rows)}
## Models that `nemesis check --model` takes

{table(("model", "what it is"), models)}
`kafka` is no model of one object: it judges histories of [Kafka workloads](../checks.md#histories-of-kafka-workloads).
"""


def systems() -> str:
    """Every system, and which faults cannot strike it."""
    rows = [
        (
            code(name),
            entry.offer.runs,
            entry.offer.needs,
            "all" if len(entry.offer.workloads) == len(WORKLOADS) else codes(entry.offer.workloads),
            entry.offer.expect,
        )
        for name, entry in SYSTEMS.items()
    ]
    lacks = [
        (code(name), code(need.value), codes(word for word, fault in KINDS.items() if fault.need is need), why)
        for name, entry in SYSTEMS.items()
        for need, why in entry.offer.lacks.items()
    ]
    return f"""# Systems

{table(("`--system`", "what runs", "what must be there", "workloads", "what to expect"), rows)}
## Faults that cannot strike them

{table(("system", "it lacks", "so it cannot be struck by", "why"), lacks)}
"""
