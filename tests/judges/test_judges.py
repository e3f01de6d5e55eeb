"""A sample of what ``make soak-judges`` does, and that it finds a judge which is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from click.testing import CliRunner

from nemesis.linearizability.models.registry import MODELS
from nemesis.pipeline.corpora.bucket import Task
from tests.depth import seeds
from tests.judges.forms import KINDS
from tests.judges.soak import BATCH, compared, main
from tests.judges.ways import WAYS, Said, Way

HISTORIES = 4
SEED = 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_judging_says_what_the_oracle_says(kind: str) -> None:
    """Alone, in one call, in buckets and in windows, every object of every form gets the verdict that it deserves."""
    found = compared(KINDS[kind], SEED, seeds(HISTORIES))
    assert found.wrong == []
    assert found.unknown.total() == 0
    assert found.is_right


@pytest.mark.slow
def test_the_owner_of_a_lock_may_be_called_nil() -> None:
    """One of these histories is invalid for that reason alone, and the oracle took the lock to be free."""
    assert compared(KINDS["lock/words"], 1, range(5500, 5600)).wrong == []


def test_every_model_is_drawn() -> None:
    """No model is judged that is not fuzzed, and each kind has a name of its own."""
    assert {kind.model for kind in KINDS.values()} == set(MODELS)


def _credulous(rows: pa.Table, task: Task, random: Random) -> Said:
    return dict.fromkeys(range(BATCH), ("valid", None))


def _forgetful(rows: pa.Table, task: Task, random: Random) -> Said:
    said = WAYS["together"](rows, task, random)
    del said[7]
    return said


def _doubting(rows: pa.Table, task: Task, random: Random) -> Said:
    return dict.fromkeys(range(BATCH), ("unknown", "the budget ran out"))


def _of_two_minds(rows: pa.Table, task: Task, random: Random) -> Said:
    return WAYS["together"](rows, task, random) | {5: ("unknown", "the columns contradict a rule, and search does not")}


def _broken(rows: pa.Table, task: Task, random: Random) -> Said:
    raise KeyError("x")


LIARS: dict[str, tuple[Way, str]] = {
    "credulous": (_credulous, "says valid, not invalid"),
    "forgetful": (_forgetful, "--only 7: the way says nothing, not"),
    "of two minds": (_of_two_minds, "--only 5: the way says unknown, not"),
    "broken": (_broken, "says KeyError: 'x', not"),
}


@pytest.mark.parametrize(("way", "words"), LIARS.values(), ids=LIARS)
def test_a_judge_that_is_wrong_is_found(way: Way, words: str) -> None:
    """A wrong verdict, one that is missing and a crash are disagreements, told with the command that repeats them."""
    found = compared(KINDS["log/batches"], SEED, range(BATCH), {"the way": way})
    assert not found.is_right
    assert any(
        words in line and line.startswith("python -m tests.judges.soak --kind log/batches") for line in found.wrong
    )


def test_a_judge_that_never_knows_is_found() -> None:
    """To say *unknown* is no disagreement, and to say it often is an error."""
    found = compared(KINDS["queue/numbers"], SEED, range(BATCH), {"the way": _doubting})
    assert (found.wrong, found.unknown["the way"], found.is_right) == ([], BATCH, False)


@pytest.mark.slow
def test_the_sweep_writes_its_figures(tmp_path: Path) -> None:
    """The file has the counts of each kind; a history that is looked at again is the same."""
    output = tmp_path / "store" / "judges.json"
    asked = ["--kind", "counter", "--histories", "20", "--processes", "1", "--output", str(output)]
    swept = CliRunner().invoke(main, asked)
    assert swept.exit_code == 0, swept.output
    document = json.loads(output.read_text())
    forms = [kind.name for kind in KINDS.values() if kind.model == "counter"]
    assert [kind["form"] for kind in document["kinds"]] == forms
    assert (document["histories"], document["disagreements"], document["unknown"]) == (20 * len(forms), 0, 0)
    assert all(kind["valid"] + kind["invalid"] == 20 == kind["histories"] for kind in document["kinds"])

    again = [CliRunner().invoke(main, ["--kind", "counter/numbers", "--only", "3"]) for _ in range(2)]
    assert [one.exit_code for one in again] == [0, 0]
    assert again[0].output == again[1].output
    assert again[0].output.endswith("nobody disagrees\n")
