"""The workflows of continuous integration run commands that exist, with options that exist, and known actions only.

The lines are read as they stand: nothing here knows more of YAML than that.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from nemesis.cli.__main__ import cli
from release.interpreters import MINORS

FOLDER = ".github/workflows"
OF_GITHUB = {
    "checkout",
    "setup-python",
    "setup-java",
    "upload-artifact",
    "download-artifact",
    "attest-build-provenance",
}
PUBLISHES = "pypa/gh-action-pypi-publish@release/v1"
"""The one action that is not GitHub's own; its maintainers ask for it by this branch."""
NEEDED = {"lint", "test", "test-nightly", "sim", "release"}
"""What must not be forgotten."""
_TARGETS = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_USED = re.compile(r"\buses:\s*(\S+)")
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}")


@pytest.fixture
def workflows(pytestconfig: pytest.Config) -> str:
    """All of them, one behind the other, without comments; what GitHub puts in is a number."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((pytestconfig.rootpath / FOLDER).glob("*.yml"))]
    assert texts
    return _EXPRESSION.sub("1", re.sub(r"^\s*#.*\n", "", "".join(texts), flags=re.MULTILINE).replace("\\\n", " "))


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each line that runs something of this project: ``make`` or a command of the virtual environment."""
    for line in text.splitlines():
        found = re.search(r"(?<!\S)(make|\.venv/bin/\S+) .*", line)
        if found is not None:
            yield shlex.split(found.group())


def test_lines_are_found() -> None:
    """A command is found behind a key, behind another command and in a block; a word within a name is none."""
    text = "- run: make lint\n- run: env -u A make test\n    .venv/bin/nemesis run --seed 1\n- name: remake it\n"
    assert list(commands_in(text)) == [["make", "lint"], ["make", "test"], [".venv/bin/nemesis", "run", "--seed", "1"]]


def test_the_targets_are_those_of_the_makefile(workflows: str, pytestconfig: pytest.Config) -> None:
    """Nothing else is made, and lint, tests, those of the night and a sweep of the simulator are."""
    targets = set(_TARGETS.findall((pytestconfig.rootpath / "Makefile").read_text(encoding="utf-8")))
    made = {
        word for command, *words in commands_in(workflows) if command == "make" for word in words if "=" not in word
    }
    assert made <= targets
    assert made >= NEEDED


def test_the_commands_take_their_options(workflows: str) -> None:
    """Each is read to its end by the command itself, which refuses what it does not know; a run under faults is one."""
    given = [words[1:] for words in commands_in(workflows) if words[0] != "make"]
    for words in given:
        check_is_known(words)
    assert "run" in {words[0] for words in given}


def check_is_known(words: list[str]) -> None:
    """Read the words as ``nemesis`` does, and run nothing. Raises click.UsageError."""
    name, command, left = cli.resolve_command(click.Context(cli), words)
    assert command is not None
    command.make_context(name, left).close()


@pytest.mark.parametrize("words", [["runs"], ["run", "--no-such"], ["run", "--nemesis", "rain"], ["run", "extra"]])
def test_a_command_that_would_be_refused_is_found(words: list[str]) -> None:
    """A name, an option or a value that is not there any more."""
    with pytest.raises(click.UsageError):
        check_is_known(words)


def test_only_known_actions_are_used(workflows: str) -> None:
    """All are GitHub's own, each of a version, but for the one that publishes."""
    used = set(_USED.findall(workflows)) - {PUBLISHES}
    assert used
    assert {re.sub(r"@v\d+$", "", name) for name in used} <= {f"actions/{name}" for name in OF_GITHUB}
    assert all("@v" in name for name in used)


def test_each_night_has_other_seeds(pytestconfig: pytest.Config) -> None:
    """The tests of the night run every day, from the date on, or from the seed that is asked for."""
    night = (pytestconfig.rootpath / FOLDER / "nightly.yml").read_text(encoding="utf-8")
    assert re.search(r'^    - cron: "\d+ \d+ \* \* \*"$', night, re.MULTILINE)
    assert "NIGHT: ${{ inputs.seed }}" in night
    assert night.rstrip().endswith('make test-nightly SEED="${NIGHT:-$(date +%Y%m%d)}"')


def test_network_namespaces_are_tested(workflows: str, pytestconfig: pytest.Config) -> None:
    """What Ubuntu forbids is allowed before the tests, which say why they skip what; users are told the same."""
    setting = "sudo sysctl --ignore --write kernel.apparmor_restrict_unprivileged_userns=0"
    job = workflows[workflows.index("\n  test:") : workflows.index("\n  pythons:")]
    assert 0 < job.index("iproute2 nftables") < job.index(setting) < job.index("PYTEST_ADDOPTS=-rs make test")
    assert setting in (pytestconfig.rootpath / "docs" / "ci.md").read_text(encoding="utf-8")


@pytest.fixture
def release_jobs(pytestconfig: pytest.Config) -> tuple[str, str]:
    """The two jobs of a release: what builds, and what publishes."""
    text = (pytestconfig.rootpath / FOLDER / "release.yml").read_text(encoding="utf-8")
    before, _, after = text.partition("\n  publish:\n")
    return before, after


def test_what_may_publish_runs_nothing_of_ours(release_jobs: tuple[str, str], workflows: str) -> None:
    """Rights to write are given to one job alone, which takes finished files and does not even check the code out."""
    build, publish = release_jobs
    assert build.count("permissions:") == 1
    assert "\npermissions:\n  contents: read\n" in build
    assert "checkout" not in publish
    assert list(commands_in(publish)) == []
    assert workflows.count(": write") == publish.count(": write") == 3


def test_a_release_is_published_by_its_tag_and_as_it_was_made(release_jobs: tuple[str, str]) -> None:
    """The tag is checked against the version, what is published against the sums, and no password is used."""
    build, publish = release_jobs
    assert 'make release TAG="$TAG"' in build
    assert build.count("\n  push:\n    tags: [") == 1
    assert "    if: github.event_name == 'push'\n" in publish
    order = [publish.index(word) for word in ("sha256sum --check --strict", "attest-build", PUBLISHES, "gh release")]
    assert order == sorted(order)
    assert "secrets." not in build + publish
    assert "password" not in build + publish


def test_a_release_is_tried_on_every_python(release_jobs: tuple[str, str], pytestconfig: pytest.Config) -> None:
    """All Pythons that a release is for are those that the project claims, that build it, and that CI tests on."""
    build, _ = release_jobs
    assert [int(minor) for minor in re.findall(r"^ +3\.(\d+)$", build, re.MULTILINE)] == [*reversed(MINORS)]
    claimed = re.findall(r'Python :: 3\.(\d+)"', (pytestconfig.rootpath / "pyproject.toml").read_text())
    assert [*map(int, claimed)] == [*MINORS]
    ci = (pytestconfig.rootpath / FOLDER / "ci.yml").read_text(encoding="utf-8")
    assert f"matrix: {{python: {json.dumps([f'3.{minor}' for minor in MINORS[1:]])}}}" in ci
