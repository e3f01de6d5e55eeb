"""Which runs are shown: what the fields of the search form ask for.

Owns the names of the fields and what each compares. Values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from nemesis.serve.summary import Summary

TEXT_MAX = 200
PAGE_RUNS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What must be so of a run; what is empty asks for nothing. ``q`` are words, each of which must stand somewhere."""

    q: str = ""
    verdict: str = ""
    workload: str = ""
    system: str = ""
    fault: str = ""
    commit: str = ""

    @property
    def asked(self) -> Mapping[str, str]:
        """What is asked for, by the name of its field."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in told.items() if value}

    def of(self, runs: Iterable[Summary]) -> list[Summary]:
        """Those that it chooses, in the same order."""
        return [run for run in runs if self._takes(run)]

    def _takes(self, run: Summary) -> bool:
        wanted = (
            (self.verdict, (run.standing.value,)),
            (self.workload, (run.workload,)),
            (self.system, (run.system,)),
            (self.fault, run.faults),
            (self.commit, (run.commit,)),
        )
        if any(asked and asked not in there for asked, there in wanted):
            return False
        text = _text(run) if self.q else ""
        return all(word in text for word in self.q.lower().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What there is to choose from among some runs, sorted."""

    verdict: Sequence[str]
    workload: Sequence[str]
    system: Sequence[str]
    fault: Sequence[str]


def choice_of(query: Mapping[str, str]) -> Choice:
    """What a query asks for; a name that is no field asks for nothing."""
    return Choice(**{field.name: query.get(field.name, "").strip()[:TEXT_MAX] for field in fields(Choice)})


def values_of(runs: Iterable[Summary]) -> Values:
    """The values of the fields that are chosen from a list."""
    listed = list(runs)
    return Values(
        verdict=sorted({run.standing.value for run in listed}),
        workload=sorted({run.workload for run in listed} - {""}),
        system=sorted({run.system for run in listed} - {""}),
        fault=sorted({fault for run in listed for fault in run.faults}),
    )


def _text(run: Summary) -> str:
    seed = "" if run.seed is None else f"seed {run.seed}"
    parts = (run.name, run.standing, run.combination, run.schedule, seed, run.started_at, run.commit, *run.reasons)
    return " ".join((*parts, *run.command)).lower()
