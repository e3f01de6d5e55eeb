"""Whatever befalls a recorded run: where evidence is missing it is not valid, and nothing that is missing convicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from nemesis.checks import Verdict
from nemesis.history import HistoryError
from nemesis.pipeline import Judgement, judge_run
from tests.corruption.base import Recording, clean, diverged, lost, objects, phantom
from tests.corruption.damaged_files import FILES
from tests.corruption.damaged_history import FINAL_READS, HISTORY, OF_OBJECTS, of_lines
from tests.corruption.damaged_logs import LOG_ROWS
from tests.corruption.damaged_reports import DUMPS, EVENT_ROWS
from tests.corruption.damages import HARMLESS, Damage
from tests.depth import seeds

OF_ROWS = (*of_lines(), *HISTORY, *FINAL_READS, *DUMPS, *LOG_ROWS, *EVENT_ROWS)
DAMAGES = {damage.name: (clean, damage) for damage in (*OF_ROWS, *FILES)}
DAMAGES |= {damage.name: (objects, damage) for damage in OF_OBJECTS}
UNDAMAGED = {name: damage for name, (_, damage) in DAMAGES.items() if damage.allowed == HARMLESS}
LINES = {damage.name: damage for damage in of_lines()}


def judged(run: Recording, folder: Path) -> Judgement | None:
    """The judgement of a run; None where none is given."""
    try:
        return judge_run(run.write(folder / "run"), engine="local")
    except HistoryError:
        return None


def test_there_are_many_ways_to_damage_a_run() -> None:
    """No two ways have one name, and there are enough of them."""
    assert len(DAMAGES) == len(OF_ROWS) + len(FILES) + len(OF_OBJECTS) >= 115
    assert {clean, objects} == {make for make, _ in DAMAGES.values()}


@pytest.mark.parametrize(("make", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_is_not_taken_for_what_it_is_not(
    make: Callable[[], Recording], damage: Damage, tmp_path: Path
) -> None:
    """A clean run that was damaged gets one of the verdicts that the damage leaves possible, and is told what lacks."""
    found = judged(damage(make()), tmp_path)
    verdict = "refused" if found is None else found.verdict.value
    reasons = () if found is None else found.reasons
    assert verdict in damage.allowed, reasons
    assert any(damage.words in reason for reason in reasons or (damage.words,)), reasons


@pytest.mark.parametrize(
    ("make", "verdict"),
    [(clean, "valid"), (objects, "valid"), (lost, "invalid"), (diverged, "invalid"), (phantom, "invalid")],
)
def test_what_is_whole_is_judged(make: Callable[[], Recording], verdict: str, tmp_path: Path) -> None:
    """The runs that are damaged are valid and invalid as long as nothing has befallen them."""
    found = judged(make(), tmp_path)
    assert found is not None
    assert (found.verdict.value, found.warnings) == (verdict, ())


@pytest.mark.parametrize("damage", UNDAMAGED.values(), ids=UNDAMAGED)
@pytest.mark.parametrize("make", [lost, phantom])
def test_what_is_harmless_excuses_nobody(make: Callable[[], Recording], damage: Damage, tmp_path: Path) -> None:
    """A conviction survives what takes nothing away."""
    found = judged(damage(make()), tmp_path)
    assert found is not None
    assert found.verdict is Verdict.INVALID


@pytest.mark.parametrize("damage", LINES.values(), ids=LINES)
def test_a_missing_line_excuses_nobody(damage: Damage, tmp_path: Path) -> None:
    """What the lines that are there show by themselves still convicts; a value that nobody wrote is then no proof."""
    loss, reading = judged(damage(lost()), tmp_path / "lost"), judged(damage(phantom()), tmp_path / "phantom")
    assert loss is not None
    assert reading is not None
    assert (loss.verdict, reading.verdict) == (Verdict.INVALID, Verdict.UNKNOWN)


@pytest.mark.parametrize("seed", seeds(20))
def test_whatever_is_missing_decides_nothing(seed: int, tmp_path: Path) -> None:
    """Rows that are missing anywhere make a clean run unknown, whether or not the mark of its end counts them.

    Of events that mark alone counts all; without it, those that are missing may leave a run valid, and convict nobody.
    """
    random = Random(seed)
    run = (clean, objects)[seed % 2]()
    damaged = random.sample(["history", "logs", "events"], random.choice((1, 2)))
    for rows in (getattr(run, name) for name in damaged):
        for _ in range(random.choice((1, 2, 5))):
            begin = random.randrange(max(len(rows) - 1, 1))
            del rows[begin : begin + random.choice((1, 1, 2, 8))]
    is_counted = random.random() < 0.8
    if is_counted:
        run.count()
    found = judged(run, tmp_path)
    assert found is not None
    allowed = {Verdict.UNKNOWN} | ({Verdict.VALID} if is_counted and damaged == ["events"] else set())
    assert found.verdict in allowed, found.reasons
