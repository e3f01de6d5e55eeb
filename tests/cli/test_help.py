"""What a newcomer meets first on the command line: help, examples, completion, and the right word for a wrong one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nemesis.cli.__main__ import cli as nemesis
from nemesis.cli.__main__ import main as nemesis_main
from nemesis.cli.exit import Exit
from nemesis.cli.run import run as run_command
from nemesis.cli.settings import SettingError, check_settings
from replica.cli.__main__ import main as replica
from replica.cli.help import OTHERS, Command, Group, meant

ROOTS = {"nemesis": nemesis, "replica": replica}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Each command with the words that call it."""
    waiting: list[tuple[str, click.Command]] = list(ROOTS.items())
    while waiting:
        words, command = waiting.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            names = command.list_commands(context)
            waiting += [(f"{words} {name}", found) for name in names if (found := command.get_command(context, name))]
        yield words, command


COMMANDS = dict(commands())


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """How ``nemesis`` ends in this process, and what it says on standard error."""
    with pytest.raises(SystemExit) as exit_:
        nemesis_main(arguments)
    return int(exit_.value.code or 0), capsys.readouterr().err


def examples_of(command: click.Command) -> list[str]:
    """The lines of a command's examples."""
    return [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]


@pytest.mark.parametrize(
    "words", [words for words, command in COMMANDS.items() if not isinstance(command, click.Group)]
)
def test_every_command_has_an_example_that_it_takes(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The help of each command ends with a call of it, and the call is one that it understands."""
    monkeypatch.setenv("REPLICA_BOOTSTRAP", "127.0.0.1:9001")
    monkeypatch.setenv("REPLICA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for place in ("store/append/latest/history", "data/1/orders-0"):
        (tmp_path / place).mkdir(parents=True)
    for file in ("history.edn", "nightly.toml", "data/1/orders-0/00000000000000000000.log"):
        (tmp_path / file).touch()
    (tmp_path / "replica.toml").write_text('listen = "127.0.0.1:9001"')
    examples = examples_of(COMMANDS[words])

    assert examples
    for line in examples:
        call = line.rpartition(" | ")[2]
        assert call.split()[: len(words.split())] == words.split(), line
        COMMANDS[words].make_context(words, shlex.split(call)[len(words.split()) :]).close()


@pytest.mark.parametrize("words", [words for words, command in COMMANDS.items() if isinstance(command, Command)])
def test_every_option_stands_in_one_section(words: str) -> None:
    """Where options stand in sections, none is left over, and no section names what is not there."""
    command = COMMANDS[words]
    assert isinstance(command, Command)
    placed = [name for names in command.sections.values() for name in names]
    options = [parameter.name for parameter in command.params if isinstance(parameter, click.Option)]

    assert sorted(set(placed) & set(options)) == sorted(str(name) for name in options)
    assert len(placed) == len(set(placed))
    assert set(placed) <= {parameter.name for parameter in command.params}


@pytest.mark.parametrize("words", list(ROOTS))
def test_every_command_stands_in_one_section(words: str) -> None:
    """The overview leaves no command out, and tells of each once."""
    group = ROOTS[words]
    assert isinstance(group, Group)
    placed = [name for names in group.sections.values() for name in names]

    assert sorted(placed) == sorted(group.list_commands(click.Context(group)))
    help_text = group.get_help(click.Context(group))
    assert all(f"{heading}:" in help_text for heading in group.sections)
    assert f"{OTHERS}:" in help_text


@pytest.mark.parametrize("words", list(COMMANDS))
def test_no_help_lists_dozens_of_names(words: str) -> None:
    """No line of names without an end: what has many is listed by a command of its own."""
    choices = [
        parameter.type.choices for parameter in COMMANDS[words].params if isinstance(parameter.type, click.Choice)
    ]

    assert all(len(names) <= 12 for names in choices)


@pytest.mark.parametrize("words", list(COMMANDS))
def test_an_option_means_the_same_everywhere(words: str) -> None:
    """--output is where a result is written, --format in which form something is shown or read."""
    for parameter in COMMANDS[words].params:
        if "--output" in parameter.opts:
            assert isinstance(parameter.type, click.Path), words
        if "--format" in parameter.opts:
            assert isinstance(parameter.type, click.Choice), words
        if "--time-limit" in parameter.opts:
            assert isinstance(parameter.type, click.FloatRange), words
            assert (parameter.type.min, parameter.type.max) == (1, 86_400), words


@pytest.mark.parametrize(
    ("arguments", "likely"),
    [
        (["chekc"], "check"),
        (["run", "--nemsis", "kill"], "--nemesis"),
        (["run", "--nemesis", "partiton,kill"], "partition"),
        (["run", "--variant", "vote-not-persited"], "vote-not-persisted"),
        (["run", "--schedule", "power-los"], "power-loss"),
        (["run", "--system", "ectd"], "etcd"),
        (["sim", "--variant", "unfenced"], "unfenced-fetch"),
        (["check", __file__, "--model", "kafak"], "kafka"),
        (["story", "figure8"], "figure-8"),
    ],
)
def test_a_typo_meets_the_right_word(arguments: list[str], likely: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever has a name, a wrong one is told with the one that is like it."""
    code, told = ended(capsys, *arguments)

    assert code == Exit.BAD_ARGUMENTS
    assert likely in told.split("id you mean", 1)[1]


def test_a_typo_in_a_marker_meets_the_right_word() -> None:
    """The settings of a test are spelled as the options are."""
    with pytest.raises(SettingError, match=r"there is no setting 'fautls' \(did you mean faults\?\)"):
        check_settings({"fautls": ["kill"]})
    with pytest.raises(SettingError, match=r"did you mean partition\?"):
        check_settings({"faults": ["partiton"]})


def test_nothing_is_suggested_that_is_not_like_it() -> None:
    """A word that is like none of the others is told without a suggestion."""
    assert meant("zebra", ["kill", "pause"]) == ""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("nemesis run --vari", "--variant"),
        ("nemesis sim --variant vote-not", "vote-not-persisted"),
        ("nemesis run --nemesis kill,pau", "kill,pause"),
        ("nemesis expl", "explain"),
        ("replica topic desc", "describe"),
        ("replica produce --comp", "--compression"),
        ("replica config ch", "check"),
        ("replica config show --fetch-time", "--fetch-timeout-ms"),
        ("replica start --config no-such.toml --log-flush o", "os"),
    ],
)
def test_a_shell_completes_commands_options_and_names(
    words: str, found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What bash would ask is answered with what may stand there, and with nothing on standard error."""
    command, count = words.split(maxsplit=1)[0], len(words.split()) - 1
    asked = {"COMP_WORDS": words, "COMP_CWORD": f"{count}", f"_{command.upper()}_COMPLETE": "bash_complete"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        nemesis_main() if command == "nemesis" else replica(prog_name=command)

    answered = capsys.readouterr()
    assert ended.value.code == 0
    assert f"plain,{found}" in answered.out.splitlines()
    assert answered.err == ""


def test_a_time_that_is_too_short_is_told_with_the_least(capsys: pytest.CaptureFixture[str]) -> None:
    """Where faults are drawn, the help and the refusal name the same bound."""
    code, told = ended(capsys, "run", "--time-limit", "5", "--nemesis", "kill")
    (limit,) = (option for option in run_command.params if option.name == "time_limit")
    assert isinstance(limit, click.Option)

    assert code == Exit.BAD_ARGUMENTS
    assert "5 s is too short for faults to bite and heal: give 6 or more" in told
    assert "6 or more where faults are drawn" in (limit.help or "")
