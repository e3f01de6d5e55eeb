"""JUnit files, annotations and summaries: each reader finds every run, and nothing in a run breaks the form."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from nemesis.ci.cases import Case, case_of, undecided
from nemesis.ci.telling import ROWS_MAX, annotated, append_summary, junit_of, summary_of, tell_ci, tell_ci_of_runs
from tests.ci.runs import fake_run, write_run

ON_GITHUB = {"GITHUB_ACTIONS": "true"}


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    """One case of each verdict."""
    return [case_of(fake_run(tmp_path / word, word), seconds=1.5) for word in ("valid", "invalid", "unknown")]


def test_each_verdict_has_an_element_of_its_own(cases: list[Case]) -> None:
    """Invalid is a failure, unknown an error, valid neither; the counts say so, and properties name seed and folder."""
    suite = ElementTree.fromstring(junit_of(cases)).find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "time")] == ["3", "1", "1", "4.500"]
    valid, invalid, unknown = suite.findall("testcase")
    assert [child.tag for child in valid] == ["properties"]
    failure, error = invalid.find("failure"), unknown.find("error")
    assert failure is not None
    assert failure.get("message") == "lost-write: 3; diverged-log: 1"
    assert "value 23 was acknowledged" in str(failure.text)
    assert error is not None
    assert error.get("type") == "unknown"
    properties = {child.get("name"): child.get("value") for child in invalid.iter("property")}
    assert (properties["nemesis_seed"], properties["nemesis_verdict"]) == ("7", "invalid")
    assert str(properties["nemesis_store"]).endswith("/invalid")


def test_no_text_breaks_the_xml() -> None:
    """Control characters, brackets and quotes of an error come out as text."""
    case = undecided(group="g", name='a<b>&"\x00', reason="died\x1b[31m: ]]>\ud800")
    element = ElementTree.fromstring(junit_of([case])).find("testsuite/testcase/error")
    assert element is not None
    assert element.text == "died?[31m: ]]>?"


def test_a_run_is_one_call_away_from_its_junit_file(tmp_path: Path) -> None:
    """The folder of a judged run is enough; folders on the way to the file are made."""
    target = tmp_path / "reports" / "junit.xml"
    tell_ci_of_runs([write_run(tmp_path / "run", "invalid")], junit=target)
    assert ElementTree.parse(target).getroot().get("failures") == "1"
    assert [path.name for path in target.parent.iterdir()] == ["junit.xml"]


def test_only_what_is_not_valid_is_annotated(cases: list[Case]) -> None:
    """One line each, whatever its text has; elsewhere than at GitHub, none."""
    lines = list(annotated(cases, ON_GITHUB))
    assert len(lines) == 2
    assert lines[0].startswith("::error title=nemesis%3A invalid%3A append%2C random%2C seed 7::verdict: invalid")
    assert "%0A" in lines[0]
    assert not any("\n" in line for line in lines)
    assert list(annotated(cases, {})) == []


def test_an_annotation_names_the_test() -> None:
    """File and line stand where GitHub looks for them, and a percent sign is escaped once."""
    case = Case(group="g", name="t", verdict="invalid", message="50% lost", file="tests/test_a.py", line=3)
    expected = "::error file=tests/test_a.py,line=3,title=nemesis%3A invalid%3A t::50%25 lost"
    assert list(annotated([case], ON_GITHUB)) == [expected]


def test_the_summary_shows_the_worst_first(cases: list[Case]) -> None:
    """The table begins with the conviction, and what was found stands below it."""
    lines = summary_of(cases, name="nightly").splitlines()
    assert lines[0] == "### ❌ nightly: invalid (1 valid, 1 unknown, 1 invalid)"
    assert [line.split("|")[2].strip() for line in lines[4:7]] == ["❌ invalid", "❓ unknown", "✅ valid"]
    assert any("value 23 was acknowledged" in line for line in lines)


def test_a_cell_stays_a_cell() -> None:
    """Neither bars nor line breaks nor elements break the table, and a fence is longer than those in its text."""
    case = Case(group="g", name="<b>|x", verdict="invalid", message="a|b\nc", text="````\nlong\n```")
    lines = summary_of([case]).splitlines()
    assert lines[4] == "| &lt;b>&#124;x | ❌ invalid | a&#124;b c |  |"
    assert lines.count("`````") == 2


def test_what_a_test_expected_is_no_failure() -> None:
    """A conviction that the test wanted is neither annotated nor counted as one."""
    case = Case(group="g", name="t", verdict="invalid", message="lost-write: 1", is_expected=True)
    assert list(annotated([case], ON_GITHUB)) == []
    assert summary_of([case]).startswith("### ✅ nemesis: valid")
    assert 'failures="0"' in junit_of([case])


def test_a_summary_has_an_end() -> None:
    """Of very many runs the first rows are shown, and how many more there are."""
    case = Case(group="g", name="t", verdict="valid", message="")
    assert "| 5 more | | | |" in summary_of([case] * (ROWS_MAX + 5))


def test_the_summary_is_appended_where_github_names_a_file(
    cases: list[Case], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What other steps wrote stays; without the variable nothing is written, and nothing goes to standard output."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    tell_ci(cases, environment=ON_GITHUB | {"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.read_text().startswith("before\n### ❌ nemesis")
    append_summary(cases, {})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("::error") == 2
