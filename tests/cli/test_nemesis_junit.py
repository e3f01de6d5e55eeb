"""``--junit`` of ``nemesis check``: whatever is judged, a CI system can read how it ended."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.synth.build import build
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.ci.cases import at_most, plain_case
from nemesis.cli.exit import Exit
from tests.ci.runs import write_run
from tests.cli.test_nemesis_cli import code_of, stored_run
from tests.formats.histories import ALL_SAMPLES

LOCAL = ("--engine", "local")


def cases_in(junit: Path) -> dict[str, str]:
    """How each case of the file ended, by its name: the element that says so, or ``passed``."""
    found = {}
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        tags = [child.tag for child in case if child.tag != "properties"]
        found[str(case.get("name"))] = tags[0] if tags else "passed"
    return found


@pytest.mark.parametrize(
    ("read", "closed", "code", "ended"),
    [
        ((7,), True, Exit.VALID, "passed"),
        ((), True, Exit.INVALID, "failure"),
        ((7,), False, Exit.UNKNOWN, "error"),
    ],
)
def test_a_foreign_run_has_a_case(read: tuple[int, ...], closed: bool, code: Exit, ended: str, tmp_path: Path) -> None:
    """A folder that this harness did not record is called by its name, and ends as its verdict says."""
    run, junit = stored_run(tmp_path / "run", read=read, closed=closed), tmp_path / "reports" / "junit.xml"

    assert code_of("check", run, *LOCAL, "--junit", junit) == code
    assert cases_in(junit) == {str(run): ended}


@pytest.mark.parametrize("text", ["", '{"seed": 3}', "[]"])
def test_a_document_that_makes_no_sense_costs_no_case(text: str, tmp_path: Path) -> None:
    """What a run says of how it was made is not what its verdict is made of."""
    run, junit = stored_run(tmp_path / "run", read=()), tmp_path / "junit.xml"
    (run / "test.json").write_text(text)

    assert code_of("check", run, *LOCAL, "--junit", junit) == Exit.INVALID
    assert cases_in(junit) == {str(run): "failure"}


def test_a_run_of_this_harness_is_called_by_what_repeats_it(tmp_path: Path) -> None:
    """Workload, schedule and seed, with the command in the text of its failure."""
    run, junit = stored_run(tmp_path / "run", read=()), tmp_path / "junit.xml"
    made = write_run(tmp_path / "made", "invalid", argv=("nemesis", "run", "--seed", "7"))
    (made / "test.json").rename(run / "test.json")

    assert code_of("check", run, *LOCAL, "--junit", junit) == Exit.INVALID
    assert cases_in(junit) == {"append, random, seed 7": "failure"}
    assert "again: nemesis run --seed 7" in junit.read_text()


def test_each_of_several_runs_has_a_case(tmp_path: Path) -> None:
    """One file for one job."""
    good, bad = stored_run(tmp_path / "good", read=[7]), stored_run(tmp_path / "bad", read=[])

    assert code_of("check", good, bad, *LOCAL, "--junit", tmp_path / "junit.xml") == Exit.INVALID
    assert cases_in(tmp_path / "junit.xml") == {str(good): "passed", str(bad): "failure"}


def test_a_run_that_is_given_twice_has_one_case(tmp_path: Path) -> None:
    """All of a store's folders are its runs, and the link to the latest of them."""
    good, bad = stored_run(tmp_path / "good", read=[7]), stored_run(tmp_path / "bad", read=[])
    latest = tmp_path / "latest"
    latest.symlink_to(good.name)

    assert code_of("check", bad, good, latest, *LOCAL, "--junit", tmp_path / "junit.xml") == Exit.INVALID
    assert cases_in(tmp_path / "junit.xml") == {str(good): "passed", str(bad): "failure"}


def test_a_history_has_a_case(tmp_path: Path) -> None:
    """One file, judged by a model: its name, and the keys that are wrong."""
    sample = next(sample for sample in ALL_SAMPLES if sample.verdict == "invalid" and not sample.failed_cas_is_read)
    words = ("check", sample.path, "--model", sample.model, "--format", sample.format.value)

    assert code_of(*words, "--junit", tmp_path / "junit.xml") == Exit.INVALID
    assert cases_in(tmp_path / "junit.xml") == {str(sample.path): "failure"}


@pytest.mark.parametrize("model", ["register", "kafka"])
def test_each_history_of_a_corpus_has_a_case(model: str, tmp_path: Path) -> None:
    """Files that are judged in one job are told of one by one, also those that cannot be read."""
    corpus, junit = tmp_path / "corpus", tmp_path / "junit.xml"
    corpus.mkdir()
    build(Plan(model=SynthModel(model), operations=60, anomalies={}), corpus / "good.jsonl")
    (corpus / "broken.jsonl").write_text("{")

    assert code_of("check", corpus, "--model", model, *LOCAL, "--junit", junit) == Exit.UNKNOWN
    assert cases_in(junit) == {str(corpus / "good.jsonl"): "passed", str(corpus / "broken.jsonl"): "error"}


def test_a_workload_has_a_case(tmp_path: Path) -> None:
    """The history of a Kafka workload, by itself."""
    history, junit = tmp_path / "h.jsonl", tmp_path / "junit.xml"
    build(Plan(model=SynthModel.KAFKA, operations=60, anomalies={}), history)

    assert code_of("check", history, "--model", "kafka", "--junit", junit) == Exit.VALID
    assert cases_in(junit) == {str(history): "passed"}


def test_a_corpus_of_many_is_bounded_and_hides_no_failure() -> None:
    """The worst are told one by one, and the case of all others has the worst verdict of those."""
    words = ["valid", "invalid", "valid", "unknown", "unknown"]
    cases = [plain_case(name=str(number), verdict=word, said=()) for number, word in enumerate(words)]

    told = at_most(cases, 2)
    assert [(case.name, case.verdict) for case in told] == [
        ("1", "invalid"),
        ("3", "unknown"),
        ("all others", "unknown"),
    ]
    assert at_most(cases, 5) == cases


def test_github_is_told_where_it_runs_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An annotation for the run that is not valid, and a table in the step's summary."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    assert code_of("check", stored_run(tmp_path / "run", read=[]), *LOCAL) == Exit.INVALID
    assert "::error title=nemesis%3A invalid" in capsys.readouterr().err
    assert "❌ nemesis: invalid" in (tmp_path / "summary.md").read_text()


def test_a_file_that_cannot_be_written_costs_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option is at fault, and that is said when all else is done."""
    run = stored_run(tmp_path / "run", read=[])

    assert code_of("check", run, *LOCAL, "--junit", "/dev/null/junit.xml") == Exit.BAD_ARGUMENTS
    said = capsys.readouterr()
    assert "verdict: invalid" in said.out
    assert "--junit" in said.err
    assert json.loads((run / "results.json").read_text())["verdict"] == "invalid"


def test_what_only_watches_writes_no_file(tmp_path: Path) -> None:
    """``--follow`` leaves no trace."""
    run = stored_run(tmp_path / "run", read=[])
    assert code_of("check", run, "--follow", *LOCAL, "--junit", tmp_path / "junit.xml") == Exit.BAD_ARGUMENTS
