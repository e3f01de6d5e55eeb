"""What the beginning of a run may be told of: nothing that its end takes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from benchmarks.synth.build import build, kinds_of
from benchmarks.synth.log_plants import RUN as PLANTED
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.checks import BY_NAME, CHECKS, Severity
from nemesis.checks.check import Row
from nemesis.pipeline.streaming import Told, final
from tests.checks.histories import append, poll, told
from tests.checks.simulation import Run, simulate
from tests.pipeline.prefixes import Tables, tables_from, tables_in

ONLY_THE_END_TELLS = {
    *("lost-write", "unseen", "hole"),
    *("duplicate-sequence", "out-of-order-sequence", "diverged-log", "incomplete-isr", "isr-not-restored"),
}
NO_VIOLATION = {"int-send-skip", "missing-evidence", "malformed-operation"}
OF_OBJECTS = {"nonlinearizable", "wrong-order"}
CIRCLES = {f"{name}{order}" for name in ("G0", "G1c") for order in ("", "-process", "-realtime")}
OF_TRANSACTIONS_ONLY = {"precommitted-read", "int-nonmonotonic-send", "int-send-skip"}
RENAMED = {"phantom-read"}
"""What later operations may make known by another name, in the histories that are made up here."""


def synthetic(folder: Path, seed: int, **anomalies: int) -> Tables:
    """A small run with these anomalies, each in a topic-partition of its own."""
    counts = {name.replace("_", "-"): count for name, count in anomalies.items()}
    plan = Plan(
        model=SynthModel.KAFKA, operations=16, keys=2, processes=4, unknown_rate=0.15, anomalies=counts, seed=seed
    )
    build(plan, folder)
    return tables_in(folder)


def of(*operations: Row, events: Iterable[Row] = ()) -> Tables:
    """A run without logs."""
    return tables_from(
        Run(operations=[dict(row) for row in operations], logs=[], events=[*map(dict, events)], gapless=False)
    )


def names(rows: Iterable[Row]) -> list[str]:
    """The kinds of these anomalies, in order."""
    return [row["anomaly"] for row in rows]


def told_early(tables: Tables) -> list[list[str]]:
    """What is new in each prefix."""
    known = Told()
    return [names(known.new(rows)) for rows in tables.prefixes()]


def assert_nothing_is_taken_back(tables: Tables) -> set[str]:
    """Whatever is told of a prefix, the whole shows it, or what the table says instead; returns the kinds told."""
    whole = [row for row in tables.judged() if row["severity"] == Severity.VIOLATION]
    shown = {(row["topic_partition"], row["anomaly"]) for row in whole}
    known = {BY_NAME[row["anomaly"]].identify(row) for row in whole if '"more"' not in row["evidence"]}
    kinds: set[str] = set()
    for rows in tables.prefixes():
        for row in final(rows):
            check = BY_NAME[row["anomaly"]]
            kinds.add(check.name)
            assert shown & {(row["topic_partition"], implied) for implied in check.implies}, row["detail"]
            assert check.name in RENAMED or check.identify(row) in known, row["detail"]
    return kinds


def test_every_kind_is_classified() -> None:
    """Of each kind of anomaly it is said what its being in a prefix proves: at least itself, or nothing."""
    assert all(check.name in check.implies for check in CHECKS if check.implies)
    assert {check.name for check in CHECKS if not check.implies} == (
        ONLY_THE_END_TELLS | NO_VIOLATION | CIRCLES | OF_OBJECTS
    )
    assert all(BY_NAME[other].implies for check in CHECKS for other in check.implies), "only violations are implied"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(PLANTED))
def test_no_prefix_tells_what_the_whole_does_not(kind: str, tmp_path: Path) -> None:
    """Of a run with one planted anomaly, whatever any prefix tells stands in the judgement of the whole."""
    tables = synthetic(tmp_path / "run", len(kind), **{kind: 1})
    kinds = assert_nothing_is_taken_back(tables)
    assert (kind in kinds) == bool(BY_NAME[kind].implies), "what is final is told, all other is not"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_told_of_a_clean_run(seed: int, tmp_path: Path) -> None:
    """No prefix of a run that keeps every promise stops it."""
    assert {name for new in told_early(synthetic(tmp_path / "run", seed)) for name in new} == set()


@pytest.mark.slow
def test_lies_are_never_told_and_taken_back() -> None:
    """The same of random runs with lies in them, clean ones among them."""
    kinds: set[str] = set()
    for seed in range(10):
        found = assert_nothing_is_taken_back(tables_from(simulate(seed, seed % 5)))
        assert seed % 5 or not found, "a clean run"
        kinds |= found
    assert len(kinds) >= 8


def test_every_kind_of_a_run_can_be_planted() -> None:
    """No kind is left out above but those that only transactions show, or what is damaged, or no log at all."""
    planted = set(kinds_of(SynthModel.KAFKA, Path("run")))
    assert {check.name for check in CHECKS} - planted == (
        OF_TRANSACTIONS_ONLY | CIRCLES | OF_OBJECTS | {"missing-evidence"}
    )


@pytest.mark.slow
def test_a_value_that_is_written_after_it_was_read() -> None:
    """A phantom is told at once, and is another violation in the whole when somebody writes the value later."""
    read = [append((0, 1), 5, 0), poll((2, 3), 0, (0, 5), (1, 7), process=1)]
    for later, become in (
        (append((4, 5), 7, 1, process=2), {"realtime-reorder"}),
        (append((4, 5), 7, 3, process=2), {"duplicate"}),
        (append((4, 5), 7, type="fail", process=2), {"aborted-read"}),
        (append((4, 5), 7, type="info", process=2), {"realtime-reorder"}),
        (append((4, None), 7, type="info", process=2), {"realtime-reorder"}),
        (append((4, 5), 8, 2, process=2), {"phantom-read"}),
    ):
        tables = of(*read, later)
        assert told_early(tables)[4] == ["phantom-read"]
        assert become <= set(names(tables.judged()))
        assert_nothing_is_taken_back(tables)


def test_a_value_that_is_written_again_after_its_write_failed() -> None:
    """An aborted read is told at once, and is another violation in the whole when the value is written after all."""
    read = [append((0, 1), 7, type="fail"), poll((2, 3), 0, (0, 7), process=1)]
    for later in (append((4, 5), 7, 0), append((4, 5), 7, 1), append((4, None), 7, type="info")):
        tables = of(*read, later)
        assert told_early(tables)[4] == ["aborted-read"]
        assert "aborted-read" not in names(tables.judged())
        assert set(names(tables.judged())) & BY_NAME["aborted-read"].implies


NEAR_MISSES: dict[str, Callable[[], Tables]] = {
    "a send that has not ended was read": lambda: of(
        append((0, 5), 7, 0), poll((1, 2), 0, (0, 7), process=1), append((3, None), 8, type="info", process=2)
    ),
    "acknowledged, and not read yet": lambda: of(append((0, 1), 7, 0), poll((2, 3), 0, (0, 7), process=1)),
    "nothing is read any more": lambda: of(append((0, 1), 7, 0)),
    "a leader of each epoch": lambda: of(
        append((0, 1), 7, 0),
        events=[told(1, "became-leader", 1, epoch=1), told(2, "became-leader", 2, epoch=2)],
    ),
    "a follower's high watermark falls": lambda: of(
        append((0, 1), 7, 0),
        events=[
            told(2, "high-watermark", 1, epoch=1, offset=9, detail="follower"),
            told(2, "high-watermark", 2, epoch=1, offset=4, detail="follower"),
        ],
    ),
    "an ISR is not whole again, says the end": lambda: of(
        append((0, 1), 7, 0),
        events=[told(1, "final-isr", 2, offset=1, detail='{"isr":[1],"replicas":[1,2],"restored":false,"after_s":45}')],
    ),
}


@pytest.mark.parametrize("miss", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_near_misses(miss: Callable[[], Tables]) -> None:
    """What may still come out well, or what only the end can tell, is told of no prefix."""
    assert {name for new in told_early(miss()) for name in new} == set()


def test_a_loss_that_a_later_read_takes_back() -> None:
    """A read passes over an acknowledged value, and a later one shows it: the skip is told, a lost write never."""
    operations = [
        append((0, 1), 7, 0),
        append((2, 3), 8, 1),
        poll((4, 5), 0, (1, 8), process=1),
        poll((6, 7), 0, (0, 7), (1, 8), process=2),
    ]
    whole = names(of(*operations).judged())
    assert "lost-write" in names(of(*operations[:3]).judged())
    assert "lost-write" not in whole
    assert [name for new in told_early(of(*operations)) for name in new] == ["poll-skip"]
    assert "poll-skip" in whole


@pytest.mark.slow
def test_what_has_not_ended_convicts_nobody() -> None:
    """A send that somebody saw at a wrong place may still fail: it is told when it has ended."""
    known = [append((0, 1), 5, 0), append((2, 3), 6, 1)]
    seen = [poll((5, 6), 0, (0, 9), process=1)]
    for ending, become in (("fail", "aborted-read"), ("info", "realtime-reorder")):
        late = append((4, 7), 9, type=ending, process=2)
        tables = of(*known, late, *seen)
        news = told_early(tables)
        assert "realtime-reorder" in names(list(tables.prefixes())[7]), "the checks take it for what it looks like"
        assert news[7] == ["inconsistent-offsets"], "a read and an acknowledgement contradict each other"
        assert become in news[8]
        assert_nothing_is_taken_back(tables)


def test_each_anomaly_is_told_once() -> None:
    """More witnesses of an anomaly do not make it another one."""
    operations = [append((0, 1), 7, 0), *(poll((2 * i, 2 * i + 1), 0, (0, 7 + i), process=i) for i in range(1, 5))]
    told_kinds = [name for new in told_early(of(*operations)) for name in new]
    assert told_kinds.count("inconsistent-offsets") == 1
