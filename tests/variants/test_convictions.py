"""The harness convicts each wrong protocol by name, and acquits the right one under the same faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemesis.cli.__main__ import main
from nemesis.report.data import read_run
from nemesis.variants.catalogue import DIRECTED_VARIANTS
from nemesis.variants.mutant import DirectedVariant
from tests.depth import at_night, convicted, is_night
from tests.variants.causes import CAUSES

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]

FAST = ("--election-timeout-ms", "400", "--fetch-timeout-ms", "800", "--fetch-max-wait-ms", "100")
FEW = () if is_night() else ("--concurrency", "10", "--rate", "50")
"""The load of the right protocol, and of wrong ones that a few records convict as well; at night there is all of it."""
NEED_MANY = frozenset({"follower-restart"})
"""Schedules by which a wrong one is convicted only if records are on their way all the time."""
RUNS, LEAST = 5, 4
"""How many runs of a variant there are in the night, and how many of them convict it of all that it is known for."""
BY_DAY = "isolated-leader"
"""The schedule under which the right protocol is acquitted before a commit: the one that convicts most wrong ones."""
SCHEDULES = [
    pytest.param(name, marks=() if name == BY_DAY else at_night("as under the schedule of an isolated leader"))
    for name in sorted({variant.schedule.name for variant in DIRECTED_VARIANTS.values()})
]


def run(store: Path, *arguments: str, seed: int = 1) -> tuple[object, dict[str, object]]:
    """Run ``nemesis run`` in this process; returns its exit code and its results."""
    with pytest.raises(SystemExit) as ended:
        main(["run", "--seed", str(seed), "--store", str(store), "--engine", "local", *FAST, *arguments])
    return ended.value.code, json.loads((store / "append" / "latest" / "results.json").read_text())


def convicted_of(variant: DirectedVariant, store: Path, seed: int) -> set[str]:
    """What a run of a variant is convicted of, by the exit code that says so; the story of each names its cause."""
    # Logs that are wrong need not come to agree, and who waits for it waits for nothing.
    load = () if variant.schedule.name in NEED_MANY else FEW
    code, results = run(store, "--variant", variant.name, *load, "--final-time-limit", "20", seed=seed)
    anomalies = results["anomalies"]
    assert isinstance(anomalies, list)
    named = {row["anomaly"] for row in anomalies if row["severity"] == "violation"}
    assert (code == 1) == (results["verdict"] == "invalid") == bool(named)
    told = read_run(store / "append" / "latest").judgement
    return named if any(cause.is_named(told) for cause in CAUSES[variant.name]) else set()


@pytest.mark.parametrize("variant", DIRECTED_VARIANTS.values(), ids=DIRECTED_VARIANTS)
def test_a_wrong_protocol_is_convicted_by_name(variant: DirectedVariant, tmp_path: Path) -> None:
    """Under its directed schedule a variant is invalid, and the anomalies it is known for are among the violations.

    One run is one conviction; in the night so many runs are counted.
    """

    def is_convicted(seed: int) -> bool:
        return convicted_of(variant, tmp_path / f"{seed}", seed) >= set(variant.convicted_of)

    convicted(is_convicted, first_seed=1, of=RUNS, least=LEAST)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_right_protocol_is_valid_under_the_same_schedule(schedule: str, tmp_path: Path) -> None:
    """What convicts a variant is the variant and not the schedule: there the right protocol loses nothing, and leaves
    no hole in a log.

    Where the machine is too busy for the replicas to agree in time, that is unknown, and has another try.
    """
    code, results = run(tmp_path, "--schedule", schedule, *FEW)
    if results["verdict"] == "unknown":
        code, results = run(tmp_path, "--schedule", schedule, *FEW, seed=2)

    assert (code, results["verdict"], results["anomalies"]) == (0, "valid", [])
    assert results["faults_bit"] is True
    checks = results["checks"]
    assert isinstance(checks, dict)
    assert checks["hole"]["kept"] == "kept"
