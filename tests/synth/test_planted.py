"""What is planted is found, and nothing else: the judges measured on histories that share no code with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.planted import FORMS, Form, Told, measure, told_of
from benchmarks.synth.build import build, kinds_of
from benchmarks.synth.plan import Plan, SynthModel

OPERATIONS = 600


def plan_of(form: Form, count: int, **fields: int | float) -> Plan:
    """A small history with ``count`` of each kind."""
    widths = kinds_of(form.model, Path(form.name))
    counts = dict.fromkeys(widths, count) if count else {}
    keys = sum(widths.values()) * count + 4
    asked = {"operations": OPERATIONS, "seed": 7, "unknown_rate": 0.03} | fields
    return Plan(model=form.model, keys=keys, processes=4, anomalies=counts, **asked)  # type: ignore[arg-type]  # whole numbers, but for the rate


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_everything_that_is_planted_is_found(form: Form, tmp_path: Path) -> None:
    """Of each kind all that was planted is found, with its severity, and nothing that was not planted."""
    scores = measure(form, plan_of(form, 1), tmp_path)
    assert set(scores) == set(kinds_of(form.model, Path(form.name)))
    assert {name: (score.found, score.false_positives) for name, score in scores.items()} == dict.fromkeys(
        scores, (1, 0)
    )


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_what_is_clean_is_clean(form: Form, tmp_path: Path) -> None:
    """Of a history in which nothing was planted no judge tells anything."""
    build(plan_of(form, 0, unknown_rate=0.1), tmp_path / form.name)
    assert told_of(form, tmp_path / form.name) == set()


def test_a_judge_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    """The measurement is red where a judge misses all, and where it convicts what is clean."""
    form = Form(model=SynthModel.LIST, name="list.jsonl")
    for told, recall, made_up in ((set[int](), 0.0, 0), (range(9), 1.0, 4)):
        folder = tmp_path / str(made_up)
        folder.mkdir()
        findings: Told = {(str(key), "invalid", "violation") for key in told}
        scores = measure(form, plan_of(form, 1), folder, lambda _form, _target, findings=findings: findings)  # type: ignore[misc]  # mypy cannot infer a default's type
        assert {score.recall for score in scores.values() if score.planted} == {recall}
        assert sum(score.false_positives for score in scores.values()) == made_up
