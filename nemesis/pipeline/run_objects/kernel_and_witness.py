"""Judge objects: all events of clients of some objects in, anomaly rows out. The kernel that each engine calls.

Owns what becomes of the two judgements of an object. The kernels of ``nemesis.linearizability`` say whether *any* order
explains its history; the witness says whether the order does that the servers claim. Three can follow from that:

- no order explains it: **nonlinearizable**;
- some order does, and not the claimed one, with nothing unknown in it: **wrong-order**;
- the claimed one does, and the kernels found that none can: one of the two is wrong, and the object is *unknown*.

An object that a kernel gave up is valid if the claimed order explains it. Columns in, rows and coverage
out: no engine, no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from nemesis.checks.anomalies import LISTED_MAX, Anomaly, anomaly_row
from nemesis.checks.check import Check, Coverage
from nemesis.checks.objects import NONLINEARIZABLE, WRONG_ORDER
from nemesis.checks.partition import row_groups
from nemesis.checks.run_checks import Findings, Gathering
from nemesis.checks.schemas import Severity
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Outcome
from nemesis.linearizability.witness import objection
from nemesis.pipeline.run_objects.operations import ObjectHistory, object_history
from nemesis.verdict import Verdict
from nemesis.workload.objects import ObjectWorkload

BUDGET = Budget(configurations=200_000)
"""Of each object: a workload keeps its objects small, and what the search gives up the witness may still prove."""
_LINE = re.compile(r"\bline (\d+)")
TEXT_MAX = 400
"""Characters of a reason or a state that one row tells."""


def judge_objects(events: pa.Table, workloads: Mapping[str, type[ObjectWorkload]], budget: Budget = BUDGET) -> Findings:
    """Judge each (run_id, topic_partition) by the model of its run's workload.

    ``events`` has the columns of ``HISTORY_SCHEMA`` and ``run_id``, rows in any order, and all events of clients of
    each object that it has one of. A run that is not in ``workloads`` has no objects.
    """
    gathering = Gathering()
    for key, own in sorted(row_groups(events).items(), key=lambda group: group[0]):
        if key[0] in workloads:
            _judge_object(gathering, key, own, workloads[key[0]], budget)
    return gathering.findings


def _judge_object(
    gathering: Gathering, key: tuple[str, str], events: pa.Table, workload: type[ObjectWorkload], budget: Budget
) -> None:
    model = workload.model
    try:
        history = object_history(events, workload)
        judgements = judge(history.operations, model, budget)
        complaint = _complaint(history, model)
    except Exception as error:  # what is wrong with one object is said of that one
        why = f"the check of an object raised {type(error).__name__}: {error}"
        gathering.cover(*key, NONLINEARIZABLE, Coverage(missed=1, why=why))
        return
    is_order_told = complaint is None or (complaint != NOT_ASKED and not history.unplaced)
    gathering.cover(*key, NONLINEARIZABLE, Coverage(looked=1))
    gathering.cover(*key, WRONG_ORDER, Coverage(looked=int(is_order_told)))
    for judgement in judgements:
        for check, anomaly in found_in(judgement, history, model, complaint):
            gathering.rows.append(anomaly_row(*key, check.name, anomaly))


NOT_ASKED = ""
"""Nobody claims a place for everything that was answered, so that there is no order to look at."""


def _complaint(history: ObjectHistory, model: Model) -> str | None:
    """Why the claimed order explains nothing; None where it does, NOT_ASKED where nobody claims one."""
    told = relevant(history.operations, model)
    if any(operation.line not in history.places for operation in told if operation.outcome is not Outcome.INFO):
        return NOT_ASKED
    return objection(told, model, history.places)


def found_in(
    judgement: KeyJudgement, history: ObjectHistory, model: Model, complaint: str | None
) -> Iterator[tuple[Check, Anomaly]]:
    """What follows from what a kernel says of an object and what the witness says (``complaint`` as above)."""
    facts = {"model": model.name, "kernel": judgement.kernel, "judged": judgement.operations}
    example = judgement.counterexample
    if judgement.verdict is Verdict.INVALID:
        assert example is not None, judgement
        if complaint is None:
            said = f"{judgement.kernel} found no order that explains it, and the order that the servers claim does"
            reason = {"reason": _worded(example.reason)}
            yield NONLINEARIZABLE, _undecided(f"{said}: one of the two checks is wrong", facts | reason)
            return
        claimed = {"claimed_order": _worded(complaint)} if complaint else {}
        yield NONLINEARIZABLE, _nonlinearizable(example, history, model, facts | claimed)
    elif judgement.verdict is Verdict.UNKNOWN and complaint is not None:
        said = f"whether it is linearizable is unknown: {_worded(str(judgement.reason))}"
        yield NONLINEARIZABLE, _undecided(said, facts)
    elif judgement.verdict is Verdict.VALID and complaint and not history.unplaced:
        yield WRONG_ORDER, _wrong_order(complaint, history, facts)


def _wrong_order(complaint: str, history: ObjectHistory, facts: Mapping[str, Any]) -> Anomaly:
    """The operations are those that the witness names."""
    named = set(map(int, _LINE.findall(complaint)))
    involved = [operation for operation in history.operations if operation.line in named]
    return Anomaly(
        detail=f"another order explains it, and not the one that the servers claim: {_worded(complaint)}",
        offsets=[history.places[operation.line] for operation in involved],
        op_indexes=[operation.line for operation in involved],
        evidence={**facts, "operations": list(map(history.described, involved))},
    )


def _nonlinearizable(
    example: Counterexample, history: ObjectHistory, model: Model, facts: Mapping[str, Any]
) -> Anomaly:
    involved = {operation.line: operation for operation in (*example.operations, example.last)}
    asked = [line for line in sorted(involved) if line in history.times_ns]
    return Anomaly(
        detail=_worded(example.reason),
        offsets=[history.places[line] for line in asked if line in history.places],
        op_indexes=asked,
        evidence={
            **facts,
            "operations": [history.described(involved[line]) for line in asked[:LISTED_MAX]],
            "states_before": [_cut(model.describe_state(state)) for state in example.states],
        },
    )


def _undecided(detail: str, facts: Mapping[str, Any]) -> Anomaly:
    return Anomaly(severity=Severity.UNKNOWN, detail=detail, evidence=facts)


def _worded(text: str) -> str:
    """A sentence of a kernel, to whom operations stand in the lines of a file, in the words of runs."""
    return _cut(_LINE.sub(r"operation \1", text))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]} and {len(text) - TEXT_MAX} characters more"
