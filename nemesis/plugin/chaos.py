"""The fixture ``chaos``: a cluster under a workload and faults, and its verdict as the test's.

Owns what fails a test and in which words. How a run is made is a port (``Execute``), so that this can be tested without
a cluster.

What a test asks for: its markers, then what it gives when it runs, and above all the command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from nemesis.ci.cases import properties_of, properties_without_verdict, told
from nemesis.ci.command import Execute
from nemesis.ci.judged import UNKNOWN, JudgedRun, NotJudgedError, make_small
from nemesis.cli.settings import FAULTS, SettingError, check_settings, draws_its_faults, record_and_judge


class ViolationError(AssertionError):
    """A promise was broken; ``run`` is the run that shows it."""

    def __init__(self, run: JudgedRun, text: str) -> None:
        super().__init__(text)
        self.run = run


class UndecidedError(AssertionError):
    """The recording of ``run`` does not suffice for a verdict: neither a pass nor a conviction."""

    def __init__(self, run: JudgedRun, text: str) -> None:
        super().__init__(text)
        self.run = run


class Chaos:
    """Runs of one test. ``run`` as often as the test likes; each has a cluster, ports and a folder of its own."""

    def __init__(
        self,
        *,
        test: str,
        store: Path,
        marked: Mapping[str, Any],
        options: GivenOptions,
        execute: Execute,
        note: Callable[[str, object], None],
    ) -> None:
        self._test = test
        self._store = store
        self._marked = marked
        self._options = options
        self._execute = execute
        self._note = note
        self.runs: list[JudgedRun] = []

    def run(self, *, check: bool = True, **settings: Any) -> JudgedRun:
        """Run the workload under faults and judge what was recorded.

        ``settings`` are those of the marker and win over it. With ``check`` anything but *valid* fails the test:
        ViolationError, or UndecidedError for *unknown*. Raises SettingError for what does not exist, NotJudgedError
        when the harness itself has failed.
        """
        __tracebackhide__ = True
        wanted = settled(self._marked, settings, self._options)
        try:
            run = record_and_judge(wanted, store=self._store, execute=self._execute)
        except NotJudgedError as error:
            self._note_all(properties_without_verdict(seed=wanted["seed"], store=self._store, error=str(error)))
            raise
        self.runs.append(run)
        self._note_all(properties_of(run))
        if check and not run.is_valid:
            raise self._failure(run)
        if run.is_valid and not self._options.keep_all:
            make_small(run.folder)
        return run

    def _note_all(self, properties: Mapping[str, str]) -> None:
        for name, value in properties.items():
            self._note(name, value)

    def _failure(self, run: JudgedRun) -> ViolationError | UndecidedError:
        again = f"pytest {shlex.quote(self._test)} --nemesis-seed {run.seed}"
        if self._options.schedule is not None:
            again += f" --nemesis-schedule {shlex.quote(self._options.schedule)}"
        if self._options.time_limit is not None:
            again += f" --nemesis-time-limit {self._options.time_limit:g}"
        kind = UndecidedError if run.verdict == UNKNOWN else ViolationError
        return kind(run, told(run, again))


SEED_BITS = 32
DRAWN_BY = (FAULTS, "time_limit")
"""The settings that a schedule is drawn by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOptions:
    """What the command line of pytest says of all runs. ``keep_all`` keeps valid runs whole as well.

    ``schedule`` is what every run does instead of what it would do: the path of a stored schedule, or a name.
    """

    store: Path
    seed: int | None = None
    time_limit: float | None = None
    schedule: str | None = None
    keep_all: bool = False


def merged(markers: Sequence[tuple[Sequence[Any], Mapping[str, Any]]]) -> dict[str, Any]:
    """The settings of a test's markers, each given by its arguments, the closest one first.

    Raises SettingError for arguments without a name, and for settings that do not exist.
    """
    settings: dict[str, Any] = {}
    for positional, named in reversed(markers):
        if positional:
            raise SettingError(f"the marker nemesis takes settings by name only, and was given {positional[0]!r}")
        settings |= named
    check_settings(settings)
    return settings


def settled(marked: Mapping[str, Any], given: Mapping[str, Any], options: GivenOptions) -> dict[str, Any]:
    """All settings of one run, with its seed. Raises SettingError.

    A time limit of the command line is for schedules that are drawn: a directed one lasts as long as its story. A
    schedule of the command line is done as it stands, whatever faults and time the test asks for.
    """
    settings = {**marked, **given}
    if options.schedule is not None:
        settings = {name: value for name, value in settings.items() if name not in DRAWN_BY}
        settings["schedule"] = options.schedule
    check_settings(settings)
    if options.time_limit is not None and draws_its_faults(settings):
        settings["time_limit"] = options.time_limit
    if options.seed is not None:
        settings["seed"] = options.seed
    if settings.get("seed") is None:
        settings["seed"] = SystemRandom().getrandbits(SEED_BITS)
    return settings
