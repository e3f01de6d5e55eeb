"""How much the judges find of what is planted, and whether they find what is not there: recall and precision by kind.

Owns the measurement and its figures in ``store/bench-planted.json``. Histories are made up by ``benchmarks.synth``,
which shares no code with the judges, one with every kind of anomaly for each model, seed and form. An anomaly is found
if its kind is told of its key; whatever else is told is a false positive, unless the manifest says that it follows. The
exit code is 1 if one was missed or one was made up.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.result import write_result
from benchmarks.synth.build import build, kinds_of
from benchmarks.synth.manifest import Planted
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.checks import judge_transactions
from nemesis.formats.kafka_operations import micro_operations
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.reading import read_history_file
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.pipeline import judge_run

Told = set[tuple[str, str, str]]
"""What a judge tells: a key, a kind and its severity; of objects the kind is always *invalid*."""
NOT_LINEARIZABLE = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A history: its model, and the name of its file; without an ending it is a run's folder."""

    model: SynthModel
    name: str

    @property
    def is_run(self) -> bool:
        """Whether it is judged as a run."""
        return "." not in self.name


Judges = Callable[[Form, Path], Told]

FORMS = (
    Form(model=SynthModel.KAFKA, name="run"),
    Form(model=SynthModel.KAFKA, name="workload.edn"),
    Form(model=SynthModel.KAFKA, name="workload.parquet"),
    Form(model=SynthModel.REGISTER, name="register.jsonl"),
    Form(model=SynthModel.CAS_REGISTER, name="cas-register.parquet"),
    Form(model=SynthModel.KV, name="kv.jsonl"),
    Form(model=SynthModel.LOG, name="log.jsonl"),
    Form(model=SynthModel.LIST, name="list.jsonl"),
)


@dataclass(slots=True, kw_only=True)
class Score:
    """What became of one kind; ``false_positives`` are findings of this kind where nothing like it was planted."""

    planted: int = 0
    found: int = 0
    false_positives: int = 0

    @property
    def recall(self) -> float:
        """The share that was found; 1 where nothing was planted."""
        return self.found / self.planted if self.planted else 1.0

    @property
    def precision(self) -> float:
        """The share of findings that were planted; 1 where nothing was found."""
        told = self.found + self.false_positives
        return self.found / told if told else 1.0


def measure(form: Form, plan: Plan, folder: Path, judges: Judges | None = None) -> dict[str, Score]:
    """Make one history up, judge it (``told_of``), and compare: scores by kind."""
    target = folder / form.name
    manifest = build(plan, target)
    told = (judges or told_of)(form, target)
    scores: dict[str, Score] = defaultdict(Score)
    explained: Told = set()
    for planted in manifest.planted:
        kind = planted.anomaly if plan.model is SynthModel.KAFKA else NOT_LINEARIZABLE
        expected = {(str(key), kind, planted.severity) for key in planted.keys}
        scores[planted.anomaly].planted += 1
        scores[planted.anomaly].found += bool(expected & told)
        explained |= expected | set(_consequences(planted))
    for _, kind, _ in told - explained:
        scores[kind].false_positives += 1
    return scores


def _consequences(planted: Planted) -> Iterator[tuple[str, str, str]]:
    for key in planted.keys:
        yield from (
            (str(key), name, severity) for name in planted.implies for severity in ("violation", "unknown", "allowed")
        )


def told_of(form: Form, target: Path) -> Told:
    """What the judges tell of a history."""
    if form.is_run:
        rows: Any = judge_run(target, engine="local").anomalies
        return {(row["topic_partition"], row["anomaly"], row["severity"]) for row in rows}
    if form.model is SynthModel.KAFKA:
        history = read_history_file(target, key_pairs=KeyPairs.NO)
        rows = judge_transactions(micro_operations(history.events, target)).anomalies.to_pylist()
        return {(row["topic_partition"], row["anomaly"], row["severity"]) for row in rows}
    operations = read_history_file(target).operations()
    judgements = judge(operations, load_model(form.model.value))
    severity = {"invalid": "violation", "unknown": "unknown"}
    return {
        (str(judgement.key), NOT_LINEARIZABLE, severity[judgement.verdict.value])
        for judgement in judgements
        if judgement.verdict.value != "valid"
    }


def scores_of(form: Form, seeds: range, operations: int, count: int, folder: Path) -> dict[str, Score]:
    """The scores of one form over all seeds: ``count`` of each kind in each history, and one without any."""
    total: dict[str, Score] = defaultdict(Score)
    widths = kinds_of(form.model, Path(form.name))
    for seed in seeds:
        for counts in (dict.fromkeys(widths, count), {}):
            keys = sum(widths.values()) * count + 10
            plan = Plan(
                model=form.model,
                operations=operations,
                keys=keys,
                processes=5 + seed % 10,
                unknown_rate=(seed % 3) * 0.02,
                anomalies=counts,
                seed=seed,
            )
            within = folder / f"{form.name}-{seed}-{len(counts)}"
            within.mkdir()
            for name, score in measure(form, plan, within).items():
                total[name].planted += score.planted
                total[name].found += score.found
                total[name].false_positives += score.false_positives
    return dict(sorted(total.items()))


def _entry(score: Score) -> dict[str, float]:
    return {**asdict(score), "recall": score.recall, "precision": score.precision}


@click.command()
@click.option("--seeds", default=5, show_default=True, help="Histories with, and as many without, of each form.")
@click.option("--operations", default=20_000, show_default=True, help="Operations of each history.")
@click.option("--count", default=3, show_default=True, help="Anomalies of each kind in each history.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures here as JSON.")
def main(seeds: int, operations: int, count: int, output: Path | None) -> None:
    """Plant, judge and compare."""
    forms: dict[str, Any] = {}
    is_right = True
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            scores = scores_of(form, range(seeds), operations, count, Path(folder))
            forms[f"{form.model} as {form.name}"] = {name: _entry(one) for name, one in scores.items()}
            for name, score in scores.items():
                is_right &= score.recall == 1 and not score.false_positives
                told = f"{score.planted:4} planted, {score.found:4} found, {score.false_positives} false positives"
                click.echo(f"{form.model} as {form.name:22} {name:26} {told}")
    if output is not None:
        write_result(output, seeds=seeds, operations=operations, forms=forms)
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
