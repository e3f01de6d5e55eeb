"""The runs of a suite, one after the other.

Owns what is kept of each, and when to stop. How a run is made is a port (``Execute``). A run that comes to no verdict
is *unknown*, whatever kept it from one; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemesis.ci.cases import Case, case_of, undecided
from nemesis.ci.command import Execute
from nemesis.ci.judged import VALID, JudgedRun, NotJudgedError
from nemesis.ci.keeping import make_small
from nemesis.cli.one_run import record_and_judge
from nemesis.cli.suite.matrix import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How one run of the suite ended; ``run`` is absent where there is no verdict, and ``error`` says why."""

    cell: Cell
    seconds: float
    run: JudgedRun | None = None
    error: str = ""

    @property
    def case(self) -> Case:
        """The run as continuous integration counts it."""
        if self.run is None:
            return undecided(group=self.cell.combination, name=self.cell.name, reason=self.error, seconds=self.seconds)
        return case_of(self.run, group=self.cell.combination, name=self.cell.name, seconds=self.seconds)

    def to_json(self) -> dict[str, Any]:
        """The row of the suite's document."""
        run = self.run
        return {
            "combination": self.cell.combination,
            "seed": self.cell.seed,
            "settings": dict(self.cell.settings),
            "verdict": self.case.verdict,
            "reasons": [self.error] if run is None else list(run.reasons),
            "warnings": [] if run is None else list(run.warnings),
            "stats": {} if run is None else dict(run.stats),
            "seconds": round(self.seconds, 3),
            "run": None if run is None else str(run.folder),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What runs are made with: the judging ``engine``, where they are stored, whether all are kept whole."""

    store: Path
    execute: Execute
    engine: str = "local"
    keep_all: bool = False

    def run(self, cells: Iterable[Cell], *, until_failure: bool = False) -> Iterator[Played]:
        """Run them; with ``until_failure`` the first that is not valid is the last."""
        for cell in cells:
            played = self._one(cell)
            yield played
            if until_failure and played.case.verdict != VALID:
                return

    def _one(self, cell: Cell) -> Played:
        begin_s = time.monotonic()
        try:
            run = record_and_judge(cell.settings, store=self.store, execute=self.execute, engine=self.engine)
        except NotJudgedError as error:
            return Played(cell=cell, seconds=time.monotonic() - begin_s, error=str(error))
        if run.is_valid and not self.keep_all:
            make_small(run.folder)
        return Played(cell=cell, seconds=time.monotonic() - begin_s, run=run)
