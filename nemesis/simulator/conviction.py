"""How many seeds it takes until each wrong protocol is convicted, and the page that says so.

Owns the measurement and its JSON document, and the table made of that. Seeds are tried in their order from 1, and every
conviction begins a new count: so one pass gives many independent trials, and their median means something. A variant
that goes unconvicted for ``seeds_max`` seeds in a row is given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any, assert_never

from nemesis.simulator.corpus import run_seed
from nemesis.simulator.run import TIME_LIMIT_S, SimOptions
from nemesis.simulator.sweep import Lost, Workers
from nemesis.variants.catalogue import ALL, BUILT
from nemesis.variants.mutant import Equivalent, Variant
from nemesis.verdict import Verdict

TRIALS = 11
SEEDS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Conviction:
    """What became of one variant: ``trials`` has for each conviction how many seeds it took since the one before.

    ``seeds`` were run in all. ``violations`` counts of what it was convicted, the most frequent first. ``errors`` are
    seeds at which the harness failed; they convict nobody.
    """

    variant: str
    seeds: int
    trials: Sequence[int]
    violations: Mapping[str, int]
    errors: int = 0
    command: str | None = None

    @property
    def median(self) -> float | None:
        """The median number of seeds to a conviction."""
        return median(self.trials) if self.trials else None


def convict(
    variant: str,
    workers: Workers,
    *,
    trials: int = TRIALS,
    seeds_max: int = SEEDS_MAX,
    time_limit_s: float = TIME_LIMIT_S,
    on_seed: Callable[[], object] = lambda: None,
) -> Conviction:
    """Try seeds until there are ``trials`` convictions, or ``seeds_max`` seeds in a row without one.

    The worlds are those of the kind that the variant is tried in.
    """
    options = SimOptions(seed=0, world=BUILT[variant].world, time_limit_s=time_limit_s, variant=variant)
    work = partial(run_seed, options, False)
    gaps: list[int] = []
    violations: Counter[str] = Counter()
    seeds, errors, command = 0, 0, None
    with closing(workers.in_order(work, count(1))) as results:
        while len(gaps) < trials and seeds - sum(gaps) < seeds_max:
            seeds, result = next(results)
            on_seed()
            if isinstance(result, Lost):
                errors += 1
            elif result.row.verdict == Verdict.INVALID:
                gaps.append(seeds - sum(gaps))
                violations[str(result.row.violation)] += 1
                command = command or result.row.command
    return Conviction(
        variant=variant,
        seeds=seeds,
        trials=tuple(gaps),
        violations=dict(violations.most_common()),
        errors=errors,
        command=command,
    )


def document(convictions: Sequence[Conviction], *, seeds_max: int, time_limit_s: float) -> dict[str, Any]:
    """The measurement as JSON holds it."""
    rows = [{**asdict(one), "median": one.median} for one in convictions]
    return {"seeds_max": seeds_max, "time_limit_s": time_limit_s, "variants": rows}


PAGE = """# Wrong protocols, and how soon the simulator convicts them

`make variants` writes this page (`nemesis convict`). Change nothing here by hand.

A harness that never convicts proves nothing. So each known way of getting replication wrong is kept as a *variant*: the
right protocol with one wrong decision, or with a few where the others would make one good. The letter says where it
comes from: M from model-checked specifications of Kafka, R from Kafka's bug tracker, P from the classic mistakes, H our
own. A mistake that changes nothing here is listed with the reason, and is not built.

The simulator takes seeds in order, {time_limit_s:g} virtual seconds each. Its worlds are of one quorum log, of a whole
cluster, or of state machines (`group`). Nothing is directed at the variant. Some variants need something, such as
retention or slow disks: every seed's world has it then, and is else as it would be. *Median* and *most* count the seeds
from one conviction to the next, over so many *convictions*. A variant is given up after {seeds_max} seeds without one.
The command repeats the first conviction.

{summary}

| | variant | what is wrong | breaks | worlds | convicted of | convictions | median | most | repeat with |
|---|---|---|---|---|---|---|---|---|---|
{rows}

## Mistakes of reads, leases, snapshots and voters, by what they are called elsewhere

These show only in certain orders of events, which a live cluster meets by luck. So the simulator convicts them, by the
commands above. *Median* is of seeds.

| mistake | variant | convicted of | median |
|---|---|---|---|
{mistakes}

Ongaro's lost commit is also told as a story, step by step (`tests/variants/test_voter_convictions.py`): two leaders
remove one voter each, and go on with majorities that have nobody in common. There `change-before-own-epoch` is
convicted of `leader-completeness`.
"""

MISTAKES = (
    ("read from a leader without a read index", "read-without-read-index"),
    ("read index confirmed by a fetch that was sent before the read", "read-index-of-an-old-fetch"),
    ("lease read under a paused clock", "lease-read-under-a-paused-clock"),
    ("session table left out of the snapshot", "sessions-not-in-snapshot"),
    ("state machine told of its leadership before it has applied", "leads-before-applying"),
    ("snapshot id off by one", "snapshot-one-off"),
)
"""Mistakes by the words in which they are known, and the variant that makes each."""


def page(measured: Mapping[str, Any]) -> str:
    """The measurement as a page in Markdown: every mutant there is, built or not."""
    by_name = {row["variant"]: row for row in measured["variants"]}
    rows = "\n".join(_row(mutant, by_name.get(mutant.name)) for mutant in ALL)
    mistakes = "\n".join(_mistake(what, name, by_name.get(name)) for what, name in MISTAKES)
    return PAGE.format(summary=_summary(list(by_name.values())), rows=rows, mistakes=mistakes, **measured)


def _mistake(what: str, name: str, row: Mapping[str, Any] | None) -> str:
    """One row of the second table, without code marks: that is how the rows of the first are told from it."""
    told = ["not measured", "", ""] if row is None else _measured(row)
    return f"| {what} | {name} | {told[0]} | {told[2]} |"


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    convicted = [row for row in rows if row["trials"]]
    built = sum(isinstance(mutant, Variant) for mutant in ALL)
    text = f"Of {len(ALL)} variants {built} are built. Convicted: {len(convicted)} of {built}."
    if not convicted:
        return text
    middle = median(row["median"] for row in convicted)
    most = max(max(row["trials"]) for row in convicted)
    return f"{text} The median of their medians is {middle:g} seed{'' if middle == 1 else 's'}; the most is {most}."


def _row(mutant: Variant | Equivalent, row: Mapping[str, Any] | None) -> str:
    cells = [mutant.id, f"`{mutant.name}`", f"{mutant.summary} ({mutant.origin})", mutant.breaks.value]
    match mutant:
        case Variant(world=world, needs=needs):
            cells.append("; ".join([world.value, *(need.value for need in needs)]))
            cells += ["not measured", *[""] * 4] if row is None else _measured(row)
        case Equivalent():
            cells += ["", f"not built, nothing would show: {mutant.reason}", *[""] * 4]
        case _:
            assert_never(mutant)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _measured(row: Mapping[str, Any]) -> list[str]:
    if not row["trials"]:
        return [f"**not convicted** in {row['seeds']} seeds", "0", "", "", ""]
    names = ", ".join(f"{name} ({times})" for name, times in row["violations"].items())
    return [names, f"{len(row['trials'])}", f"{row['median']:g}", f"{max(row['trials'])}", f"`{row['command']}`"]
