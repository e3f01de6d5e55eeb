"""Every command that README and docs show is one: its options are read, and it is run, or a reason says why not."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs.reference.commands import commands_of
from nemesis.plugin import hooks
from tests.docs.commands import OURS, Shown, pages, shown_on
from tests.docs.parsing import PROGRAMS, check_words

ROOT = Path(__file__).parents[2]
SHOWN = [shown for page in pages(ROOT) for shown in shown_on(page, ROOT)]
INSTALLS = "installs packages, which needs a registry, or changes the machine"
READERS_OWN = "judges runs and histories of the reader's: tests/cli and tests/formats do so with theirs"
NOT_RUN = {
    r"nemesis (run|demo|soak)\b": "a run of a cluster takes long: the quick start's are done, others by tests/cli",
    r"nemesis (check|export|explain|history) (store/|RUN|FOLDER|OPERATIONS|hdfs:|[a-z-]+\.(edn|jsonl))": READERS_OWN,
    r"nemesis check \S+\.(log|porcupine)": "tests/formats compares what it says",
    r"nemesis (serve|index|gc)\b": "shows or prunes the reader's store, or goes on until Ctrl-C: tests/serve do so",
    r"nemesis (doctor|shrink)\b": "takes long: tests/cli and tests/simulator do so",
    r"replica (?!random-id)": "asks a cluster: the quick start's and those of clients.md are done, others by tests/cli",
    r"export |sleep |kill |printf |cd |random_id|,": "goes with the commands beside it",
    r"make |pytest|git diff": "builds, tests or measures the repository: checked to be there",
    r"python[3]? (-m |benchmarks/)": "measures for minutes: checked to be there",
    r"docker |docker-compose ": "needs a container engine; what runs inside is read",
    r"pip |apt-get |sysctl |systemctl |rm |tee |chmod ": INSTALLS,
}
"""By how they begin: commands that are not run here as they stand, and why."""
OF_OTHERS = {"--archives", "--group-", "--secrets"}
"""Options that are named and are not ours: of spark-submit, the beginning of some of ours, and one that is none."""
BOUNDS = {"--seeds": "1-2", "--operations": "2000", "--jobs": "1"}
SHORT = ("--jobs", "1", "--time-limit", "5")
"""What is run instead of what takes long."""


def our_commands() -> list[tuple[str, tuple[str, ...]]]:
    """Those of ours, each with where it stands; what a container runs is one of them."""
    found = [(str(shown), words) for shown in SHOWN for words in shown.commands if words[0] in OURS]
    for shown in SHOWN:
        for words in shown.commands:
            if words[:3] == ("docker", "compose", "exec") and words[4] in OURS:
                found.append((str(shown), words[4:]))
            elif words[:4] == ("docker", "compose", "run", "--rm"):
                found.append((str(shown), ("replica", *words[5:])))
    return found


def examples() -> list[tuple[str, tuple[str, ...]]]:
    """The examples at the end of ``--help``, which the reference shows as well."""
    lines = [
        (path, line.strip())
        for program in OURS
        for path, command in commands_of(program)
        for line in (command.epilog or "").splitlines()
        if line.strip().startswith(f"{program} ")
    ]
    shown = [Shown(page=f"{path} --help", line=0, text=line) for path, line in lines]
    return [(str(each), words) for each in shown for words in each.commands if words[0] in OURS]


def is_run(words: tuple[str, ...]) -> bool:
    """Whether a command is run here."""
    return not any(re.match(pattern, " ".join(words)) for pattern in NOT_RUN)


def bounded(words: tuple[str, ...]) -> list[str]:
    """The same command on less."""
    kept = list(words)
    for option, value in BOUNDS.items():
        if option in kept:
            kept[kept.index(option) + 1] = value
    return [*kept, *SHORT] if kept[:2] == ["nemesis", "sim"] and not {"--list-variants", "--jobs"} & {*kept} else kept


def run_by_page() -> dict[str, list[list[str]]]:
    """What is run of each page, in its order: of commands that are the same on less, the first alone."""
    found: dict[str, list[list[str]]] = {}
    seen: list[list[str]] = []
    for shown in sorted(SHOWN, key=lambda shown: shown.page):
        for words in map(bounded, filter(is_run, shown.commands)):
            if words not in seen:
                seen.append(words)
                found.setdefault(shown.page, []).append(words)
    return found


RUN = run_by_page()


@pytest.mark.parametrize(
    ("where", "words"), [*our_commands(), *examples()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_command_is_one(where: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command exists, takes each option that is shown, and each value is one that the option may have."""
    monkeypatch.setenv("REPLICA_BOOTSTRAP", "127.0.0.1:9092")
    if words[:2] == ("replica", "start") or words[3:5] == ("format", "--initial-voters"):
        monkeypatch.setenv("REPLICA_DATA_DIR", "data")
        monkeypatch.setenv("REPLICA_LISTEN", "127.0.0.1:9101")
    if "docker" in where:
        for name, value in (("DATA_DIR", "data"), ("CLUSTER_ID", "demo"), ("REPLICA_ID", "1")):
            monkeypatch.setenv(f"REPLICA_{name}", value)
    check_words(words)


@pytest.mark.parametrize(
    "words",
    [
        ("nemesis", "judge"),
        ("nemesis", "run", "--times", "3"),
        ("nemesis", "run", "--nemesis", "earthquake"),
        ("nemesis", "sim", "--world", "flat"),
        ("replica", "kv", "cas", "color"),
        ("replica", "topic", "list", "orders"),
    ],
)
def test_what_is_no_command_is_found(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown command, option or value, and an argument too few or too many, are each refused."""
    monkeypatch.setenv("REPLICA_BOOTSTRAP", "127.0.0.1:9092")
    with pytest.raises(click.UsageError):
        check_words(words)


def test_what_is_not_run_has_its_reason() -> None:
    """Each line is run or begins as one of those that are not, and no reason is without a line."""
    texts = [" ".join(words) for shown in SHOWN for words in shown.commands]
    assert [text for text in texts if not text.startswith(OURS) and is_run(tuple(text.split()))] == []
    assert [pattern for pattern in NOT_RUN if not any(re.match(pattern, text) for text in texts)] == []
    assert len({words for _, words in our_commands() if is_run(words)}) > 15


def test_targets_and_modules_are_there() -> None:
    """Each target of make is one, each module or script that Python runs exists, and has the options that are shown."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for shown in SHOWN:
        for words in shown.commands:
            if words[0] == "make":
                assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), shown
            elif words[0] in ("python", "python3") and words[1:3] != ("-m", "venv"):
                _check_script(words, shown)


def _check_script(words: tuple[str, ...], shown: Shown) -> None:
    name = words[2].replace(".", "/") if words[1] == "-m" else words[1].removesuffix(".py")
    sources = [path for path in (ROOT / f"{name}.py", *(ROOT / name).glob("*.py")) if path.exists()]
    assert sources, shown
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert [word for word in words if word.startswith("--") and f'"{word}"' not in text] == [], shown


def test_every_option_that_is_named_exists() -> None:
    """An option in the text, wherever it stands, is one of our commands, of the pytest plugin or of a benchmark."""
    known = {option for name in OURS for option in _options_of(name)} | OF_OTHERS
    known |= set(re.findall(r"\"(--nemesis-[a-z-]+)\"", Path(hooks.__file__).read_text(encoding="utf-8")))
    for path in (ROOT / "benchmarks").rglob("*.py"):
        known |= set(re.findall(r"\"(--[a-z-]+)\"", path.read_text(encoding="utf-8")))
    named = [
        (page.name, option)
        for page in pages(ROOT)
        for code in re.findall(r"`((?:--|nemesis |replica )[^`\n]+)`", page.read_text(encoding="utf-8"))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)
    ]
    assert [each for each in named if each[1] not in known] == []
    assert len(named) > 100


def _options_of(program: str) -> set[str]:
    every = [parameter for _, command in commands_of(program) for parameter in command.params]
    return {name for parameter in every for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_commands_do_what_they_are_for(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On less than the page says, each command ends with a verdict, or without a complaint; in the page's order."""
    monkeypatch.chdir(tmp_path)
    for words in RUN[page]:
        done = CliRunner().invoke(PROGRAMS[words[0]], words[1:], obj=words)
        assert done.exit_code in (0, 1, 2), (words, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), words
