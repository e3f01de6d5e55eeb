"""The runs of a sweep, one after the other.

Owns what is kept of each, and when to stop. How a run is made is a port (``Execute``). A run that comes to no verdict
is *unknown*, whatever kept it from one; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nemesis.ci.cases import Case, case_of, undecided
from nemesis.ci.command import Execute
from nemesis.ci.judged import UNKNOWN, VALID, JudgedRun, NotJudgedError, make_small
from nemesis.cli.settings import LOCALLY, record_and_judge
from nemesis.cli.soak.document import Cell

COUNTED = {
    "leader_elections": "leader elections",
    "controller_elections": "controller elections",
    "truncations": "truncations",
    "isr_shrinks": "ISR shrinks",
    "isr_expands": "ISR expands",
    "leader_changes": "leader changes",
    "snapshots_installed": "snapshots installed",
    "membership_changes": "membership changes",
    "partitions_moved": "partitions moved",
}
"""What befell the replicas of a run, by the names of its counts, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How one run of the sweep ended; ``run`` is absent where there is no verdict, and ``error`` says why.

    ``unseen`` says what a valid run has not shown and had to: it proves less than it should, and counts as unknown.
    """

    cell: Cell
    seconds: float
    run: JudgedRun | None = None
    error: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def case(self) -> Case:
        """The run as continuous integration counts it."""
        if self.run is None:
            return undecided(group=self.cell.combination, name=self.cell.name, reason=self.error, seconds=self.seconds)
        case = case_of(self.run, group=self.cell.combination, name=self.cell.name, seconds=self.seconds)
        if not self.unseen:
            return case
        return replace(case, verdict=UNKNOWN, message="; ".join(self.unseen), text="\n".join([*self.unseen, case.text]))

    @property
    def told(self) -> str:
        """The run as a line: its verdict, its time, and what befell its replicas."""
        stats = {} if self.run is None else self.run.stats
        counts = [f"{stats[name]} {words}" for name, words in COUNTED.items() if stats.get(name)]
        bit = [] if self.run is None or self.run.faults_bit else ["the faults did not bite"]
        return "; ".join([f"{self.cell.name}: {self.case.verdict} ({self.seconds:.0f} s)", *bit, ", ".join(counts)])

    def to_json(self) -> dict[str, Any]:
        """The row of the sweep's document."""
        run = self.run
        return {
            "combination": self.cell.combination,
            "seed": self.cell.seed,
            "settings": dict(self.cell.settings),
            "verdict": self.case.verdict,
            "reasons": [self.error] if run is None else [*run.reasons, *self.unseen],
            "warnings": [] if run is None else list(run.warnings),
            "stats": {} if run is None else dict(run.stats),
            "faults_bit": run is not None and run.faults_bit,
            "seconds": round(self.seconds, 3),
            "run": None if run is None else str(run.folder),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What runs are made with: the options that say who judges, where they are stored, whether all are kept whole.

    ``must_see`` are names of ``COUNTED`` that no run may have at 0.
    """

    store: Path
    execute: Execute
    judge: Sequence[str] = LOCALLY
    keep_all: bool = False
    must_see: Sequence[str] = ()

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
            run = record_and_judge(cell.settings, store=self.store, execute=self.execute, judge=self.judge)
        except NotJudgedError as error:
            return Played(cell=cell, seconds=time.monotonic() - begin_s, error=str(error))
        missing = unseen(run.stats, self.must_see) if run.is_valid else ()
        if run.is_valid and not missing and not self.keep_all:
            make_small(run.folder)
        return Played(cell=cell, seconds=time.monotonic() - begin_s, run=run, unseen=missing)


def unseen(stats: Mapping[str, int], must_see: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each count of ``must_see`` that is 0."""
    return tuple(f"this proves less than it should: {COUNTED[name]}: 0" for name in must_see if not stats.get(name))
