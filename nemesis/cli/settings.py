"""The settings of a run by name, and the words of ``nemesis run`` that they are.

Owns the translation and what is refused before anything is started. The names are those of the command's options, with
``faults`` for ``--nemesis``; so whatever the command learns can be set here as well.

One run of ``nemesis run`` in a process of its own, to its verdict, for whoever needs many: a test, or a sweep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import click

from nemesis.ci.command import Execute, Finished
from nemesis.ci.judged import JudgedRun, NotJudgedError, judged_run
from nemesis.cli.exit import VERDICT_EXITS, Exit

FAULTS = "faults"
NO_FAULTS = "none"
OVERHEAD_S_MAX = 300.0
"""Beyond the time of the workload and that for agreeing: starting, reading and dumping logs, judging, reporting."""
FINAL_TIME_LIMIT_S_DEFAULT = 45.0
NOT_SETTINGS = frozenset({"nemesis", "store", "engine", "master", "junit"})
"""Options that say where and by whom, not what; and the one that has another name here."""
NOT_OF_MANY = NOT_SETTINGS - {"nemesis"} | {"seed"}
"""Options that many runs have no use for in common."""


class SettingError(ValueError):
    """A setting that does not exist, or a value that it cannot have; ``name`` says which."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


def names() -> tuple[str, ...]:
    """The names of all settings."""
    from nemesis.cli.run import run

    options = [parameter.name for parameter in run.params if parameter.name]
    return (FAULTS, *(name for name in options if name not in NOT_SETTINGS))


def setting_options() -> list[click.Parameter]:
    """The options of ``run``, but ``--seed``, for another command: an option that is not given is ``None`` there, and
    one that is given stays as it was written."""
    from nemesis.cli.run import run

    options = [copy(option) for option in run.params if option.name not in NOT_OF_MANY]
    for option in options:
        option.callback, option.default = None, None
    return options


def settings_given(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among the parameters of such a command, by their names here."""
    named = {FAULTS if name == "nemesis" else name: value for name, value in given.items() if value is not None}
    return {name: named[name] for name in names() if name in named}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Look at each setting by itself. Raises SettingError; whether they go together, the command says."""
    known = names()
    for name in settings:
        if name not in known:
            from replica.cli.help import meant

            likely = meant(name, known)
            raise SettingError(f"there is no setting {name!r}{likely}: give some of {', '.join(known)}", name)
    for name, value in settings.items():
        try:
            _parse(words_of({name: value}))
        except click.UsageError as error:
            raise SettingError(f"{name} = {value!r}: {error.format_message()}", name) from None


def _parse(words: Sequence[str]) -> None:
    from nemesis.cli.run import run

    run.make_context("run", list(words)).close()


def words_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of ``nemesis run``. What is ``None`` is left to the command; a list is joined by commas."""
    return tuple(word for name, value in settings.items() if value is not None for word in _option(name, value))


def _option(name: str, value: Any) -> tuple[str, ...]:
    option = "nemesis" if name == FAULTS else name.replace("_", "-")
    if value is False and _is_off_without(name):
        return ()
    if isinstance(value, bool):
        return (f"--{'' if value else 'no-'}{option}",)
    return (f"--{option}", _text(name, value))


def _is_off_without(name: str) -> bool:
    """Whether the option is a flag that has no opposite, so that to leave it away is to say no."""
    from nemesis.cli.run import run

    found = [option for option in run.params if option.name == name]
    return any(isinstance(option, click.Option) and option.is_flag and not option.secondary_opts for option in found)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return str(value)
    return ",".join(map(str, value)) or (NO_FAULTS if name == FAULTS else "")


def at_most_s(settings: Mapping[str, Any]) -> float:
    """How long a run may take in all: after that, it hangs."""
    agreeing_s = settings.get("final_time_limit") or FINAL_TIME_LIMIT_S_DEFAULT
    return _workload_s(settings) + float(agreeing_s) + OVERHEAD_S_MAX


def _workload_s(settings: Mapping[str, Any]) -> float:
    """How long the workload goes on: as long as was asked for, else as long as the schedule."""
    from nemesis.cli.run import TIME_LIMIT_S_DEFAULT, directed_schedule, run

    given = settings.get("time_limit")
    if given is not None:
        return float(given)
    if draws_its_faults(settings):
        return TIME_LIMIT_S_DEFAULT
    wanted = {name: settings[name] for name in ("schedule", "variant") if settings.get(name) is not None}
    try:
        with run.make_context("run", list(words_of(wanted))) as context:
            return directed_schedule(context.params).time_limit_s
    except click.UsageError:
        # The command refuses it at once, with the reason.
        return TIME_LIMIT_S_DEFAULT


def draws_its_faults(settings: Mapping[str, Any]) -> bool:
    """Whether the schedule is drawn from the seed, and lasts as long as it is told to; else it is a directed one."""
    if settings.get(FAULTS) is not None:
        return True
    return settings.get("schedule") is None and settings.get("variant") is None


RUN_LINE = "run: "
RECORDING = re.compile("^recording (.+): schedule ", re.MULTILINE)
LOCALLY = ("--engine", "local")
ERROR_LINES_MAX = 12


def record_and_judge(
    settings: Mapping[str, Any], *, store: Path, execute: Execute, judge: Sequence[str] = LOCALLY
) -> JudgedRun:
    """Run ``nemesis run`` with these settings to its verdict; ``judge`` are the options that say what judges.

    What was recorded of a run that broke down can convict, and no more. Raises NotJudgedError when there is no verdict.
    """
    words = (*words_of(settings), *judge, "--store", str(store))
    try:
        finished = execute(("run", *words), at_most_s(settings))
        if _has_verdict(finished):
            return _judged(finished)
        recorded = RECORDING.search(finished.err)
        checked = execute(("check", recorded[1], *judge), OVERHEAD_S_MAX) if recorded else finished
    except TimeoutError as error:
        raise NotJudgedError(str(error)) from None
    if checked.exit_code == Exit.INVALID and _has_verdict(checked):
        return _judged(checked)
    last = "\n".join(finished.err.rstrip().splitlines()[-ERROR_LINES_MAX:])
    raise NotJudgedError(f"nemesis run ended with {finished.exit_code} and without a verdict:\n{last}")


def _has_verdict(finished: Finished) -> bool:
    return finished.exit_code in VERDICT_EXITS.values() and bool(_folders(finished))


def _folders(finished: Finished) -> list[str]:
    return [line.removeprefix(RUN_LINE) for line in finished.out.splitlines() if line.startswith(RUN_LINE)]


def _judged(finished: Finished) -> JudgedRun:
    run = judged_run(Path(_folders(finished)[-1]))
    if VERDICT_EXITS.get(run.verdict) != finished.exit_code:
        raise NotJudgedError(f"nemesis ended with {finished.exit_code}, and {run.folder} says {run.verdict}")
    return run
