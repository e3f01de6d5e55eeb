"""The dashboard and the alert rules speak of metrics that exist, with labels that they have; rules fire in time."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from docs.reference.settings import metrics_served

FOLDER = Path(__file__).parents[2] / "deploy" / "observability"
RULES, DASHBOARD = FOLDER / "alerts.yaml", FOLDER / "dashboard.json"
OF_PROMETHEUS = frozenset({"job", "instance"})
"""Labels that whoever scrapes puts on each metric."""
NAME = re.compile(r"\b(?:replica|process)_\w+\b")
MATCHED = re.compile(r"\b((?:replica|process)_\w+)\{([^}]*)\}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on|without)\s*\(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


def samples_served() -> Mapping[str, frozenset[str]]:
    """Each name that stands on a page, with the labels behind it."""
    served: dict[str, frozenset[str]] = {}
    for metric, labels in metrics_served():
        has = frozenset(labels)
        match metric.type:
            case "counter":
                served[f"{metric.name}_total"] = has
            case "histogram":
                served |= {f"{metric.name}_{what}": has for what in ("sum", "count")}
                served[f"{metric.name}_bucket"] = has | {"le"}
            case _:
                served[metric.name] = has
    return served


def rules() -> Iterator[tuple[str, str]]:
    """The expression of each alert, and what is told when it fires. Nothing here knows more of YAML than that."""
    for rule in RULES.read_text(encoding="utf-8").split("- alert: ")[1:]:
        (expression,) = re.findall(r"^\s+expr: (.+)$", rule, re.MULTILINE)
        (summary,) = re.findall(r"^\s+summary: (.+)$", rule, re.MULTILINE)
        yield expression, summary.replace("{{ $value }}", "")


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard that show something."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """The expression of each line of the dashboard, and its legend."""
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def complaints(expression: str, told: str) -> list[str]:
    """What an expression names that is not there; ``told`` shows labels of what it finds."""
    served = samples_served()
    names = set(NAME.findall(expression))
    unknown = [name for name in names if name not in served]
    wrong = [
        f"{name} has no label {label}"
        for name, matchers in MATCHED.findall(expression)
        for label in MATCHER.findall(re.sub(r'"[^"]*"', '""', matchers))
        if label not in served.get(name, frozenset()) | OF_PROMETHEUS
    ]
    there = OF_PROMETHEUS.union(*(served.get(name, frozenset()) for name in names))
    grouped = [label.strip() for labels in GROUPED.findall(expression) for label in labels.split(",")]
    wrong += [f"nothing here has a label {label}" for label in grouped if label not in there]
    kept = set(grouped) if re.match(r"(?:\w+\()*(?:[\d.]+, )?(?:sum|max) by", expression) else there
    wrong += [f"no label {label} is left to show" for label in SHOWN.findall(told) if label not in kept]
    return unknown + wrong


@pytest.mark.parametrize("found", [rules, queries])
def test_only_metrics_and_labels_that_exist_are_named(found: Any) -> None:
    """Every name of an expression is on a replica's page; what it matches, groups by and shows are labels of it."""
    looked_at = list(found())
    assert {expression: wrong for expression, told in looked_at if (wrong := complaints(expression, told))} == {}
    assert len(looked_at) > 15


@pytest.mark.parametrize(
    ("expression", "told", "complaint"),
    [
        ("sum(replica_no_such_total)", "", "replica_no_such_total"),
        ("replica_steps", "", "replica_steps"),
        ('replica_role{rolle="leader"}', "", "replica_role has no label rolle"),
        ("sum by (broker) (replica_ready)", "", "nothing here has a label broker"),
        ("sum by (topic) (replica_has_leader)", "{{ $labels.partition }}", "no label partition is left to show"),
        ("replica_ready", "{{topic}}", "no label topic is left to show"),
    ],
)
def test_what_does_not_exist_is_found(expression: str, told: str, complaint: str) -> None:
    """A metric, a counter without its ending, or a label that is not there, wherever it stands."""
    assert complaints(expression, told) == [complaint]


def test_the_dashboard_is_one() -> None:
    """Panels have numbers and places of their own, none covers another, and each says what it shows."""
    places: set[tuple[int, int]] = set()
    numbers = [panel["id"] for panel in panels()]
    assert len(numbers) == len(set(numbers))
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        at = panel["gridPos"]
        covered = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not covered & places, panel["title"]
        assert at["x"] + at["w"] <= 24
        places |= covered


def test_every_alert_is_tested() -> None:
    """The tests of the rules make each alert fire."""
    tests = (FOLDER / "alerts_test.yaml").read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    firing = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", tests))
    assert set(alerts) == firing
    assert len(alerts) == len(set(alerts))


@pytest.mark.parametrize(
    "check",
    [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml"), ("check", "config", "prometheus.yaml")],
    ids=" ".join,
)
def test_prometheus_takes_the_files(check: tuple[str, ...]) -> None:
    """Rules and configuration are read by promtool, and the rules' own tests pass."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    ended = subprocess.run([promtool, *check], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
