"""The fixture ``chaos``: a cluster under a workload and faults, and its verdict as the test's.

Owns what fails a test and in which words. How a run is made is a port (``Execute``), so that this can be tested without
a cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nemesis.ci.cases import properties_of, properties_without_verdict
from nemesis.ci.command import Execute
from nemesis.ci.judged import UNKNOWN, JudgedRun, NotJudgedError
from nemesis.ci.keeping import make_small
from nemesis.ci.words import told
from nemesis.cli.one_run import record_and_judge
from nemesis.plugin.asked import GivenOptions, settled


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
