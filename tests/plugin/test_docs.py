"""The page on chaos tests in CI: what it shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nemesis.cli.soak.document import count_of, read_sweep
from tests.plugin.test_plugin import ALONE, CONFTEST

pytest_plugins = ["pytester"]


@pytest.fixture
def page(pytestconfig: pytest.Config) -> str:
    """The page's text."""
    return (pytestconfig.rootpath / "docs" / "ci.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """What stands on the page in that language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_first_example_is_a_test_that_passes_and_one_that_fails(
    page: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied into an empty project, with made-up runs that end as the page says, it does what the page says."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST.format(verdicts="'valid', 'invalid'"))
    pytester.makepyfile(blocks(page, "python")[0])
    done = pytester.runpytest_inprocess(*ALONE)
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["E *ViolationError: verdict: invalid: at least one promise was broken"])


def test_the_example_of_a_cluster_is_a_test(
    page: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is collected under strict markers, with its fixture."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(blocks(page, "python")[1])
    done = pytester.runpytest_inprocess(*ALONE, "--setup-plan", "--strict-markers")
    done.stdout.fnmatch_lines(["*SETUP    F cluster*", "*test_a_write_survives_its_leader*"])


def test_the_example_of_a_sweep_is_one(page: str, tmp_path: Path) -> None:
    """It is read, and has as many runs as its lists make."""
    (tmp_path / "nightly.toml").write_text(blocks(page, "toml")[0])
    sweep = read_sweep(tmp_path / "nightly.toml")
    assert (sweep.name, count_of(sweep)) == ("nightly", 30)


def test_every_option_is_on_the_page(page: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """No option of the plugin goes without a word."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    told = pytester.runpytest_inprocess(*ALONE, "--help").stdout.str()
    options = set(re.findall(r"--nemesis-[a-z-]+", told))
    assert len(options) == 5
    assert {option for option in options if f"`{option}" not in page} == set()
