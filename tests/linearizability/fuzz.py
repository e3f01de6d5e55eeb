"""Compare kernels with the oracle on random histories: ``python -m tests.linearizability.fuzz --model X``.

Prints how many histories there were, how many of them the oracle calls linearizable, how many each kernel decided, and
how many verdicts differ, with the seed that repeats each of those.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

from nemesis.linearizability.counterexample import until
from nemesis.linearizability.judgement import KeyJudgement
from nemesis.linearizability.kernel import KERNELS, judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.violation import InapplicableError
from nemesis.verdict import Verdict
from tests.linearizability.histories import ASK, large_shape, random_history, random_shape
from tests.linearizability.oracle import linearizable
from tests.linearizability.runs import judge_by, verdicts_of_runs


def model_of(workload: str, *, strict_cas: bool) -> Model:
    """The model that judges the histories of a workload."""
    name = ASK[workload][0]
    options = {"failed_cas_is_read": True} if strict_cas and name in {"cas-register", "kv"} else {}
    return load_model(name, **options)


def disagreements(
    history: Sequence[Operation], workload: str, *, strict_cas: bool, decided: Counter[str], large: bool = False
) -> list[str]:
    """What says otherwise than the oracle of this history; ``decided`` counts who decided.

    What is too large for the oracle is judged by the kernels, and they are compared with each other.
    """
    model = model_of(workload, strict_cas=strict_cas)
    said = [("judge", Verdict.worst(judgement.verdict for judgement in judge(history, model)))]
    expected = said[0][1]
    wrong: list[str] = []
    if not large:
        expected = Verdict.VALID if linearizable(history, ASK[workload][0], strict_cas=strict_cas) else Verdict.INVALID
    decided[expected] += 1
    parts = model.partition(history)
    for name in KERNELS:
        try:
            judgements = [judge_by(name, key, part, model) for key, part in parts.items()]
        except InapplicableError:
            continue
        said.append((name, Verdict.worst(judgement.verdict for judgement in judgements)))
        for judgement in judgements:
            if judgement.counterexample is not None and not large:
                part = parts[judgement.key]
                wrong += [f"{name}: {line}" for line in _wrong_evidence(judgement, part, workload, strict_cas)]
    if len(parts) == 1:
        said += verdicts_of_runs(history, model)
    for name, verdict in said:
        decided[name] += verdict is not Verdict.UNKNOWN
        if verdict is not expected and not (large and verdict is Verdict.UNKNOWN):
            wrong.append(f"{name} says {verdict}, not {expected}")
    return wrong


def _wrong_evidence(
    judgement: KeyJudgement, history: Sequence[Operation], workload: str, strict_cas: bool
) -> Iterator[str]:
    """What is wrong with a counterexample: its last return must be the first that cannot be explained."""
    example = judgement.counterexample
    assert example is not None, "only a counterexample is evidence"
    end = example.last.returned
    assert end is not None, f"line {example.last.line} never returned, and convicts"
    model = ASK[workload][0]
    if linearizable(until(history, end), model, strict_cas=strict_cas):
        yield f"the prefix up to {end} is linearizable"
    if example.undecided:
        yield f"{example.undecided} shorter prefixes are undecided"
    elif not linearizable(until(history, end - 1), model, strict_cas=strict_cas):
        yield f"the prefix before {end} is not linearizable"
    if example.last not in example.operations:
        yield "the last operation is not among the conflicting ones"
    if linearizable(example.operations, model, strict_cas=strict_cas):
        yield "the conflicting operations have an order"
    if not example.is_minimal:
        yield "nobody knows whether one of the conflicting operations can be left out"
    for one in (None, *example.operations):
        known = {operation.invoked for operation in example.operations if operation is not one}
        if linearizable(outcomes_known(known, history, end), model, strict_cas=strict_cas) is (one is None):
            yield f"{one} can be left out" if one else "whatever became of the others, there is an order"


def outcomes_known(known: Container[int], history: Iterable[Operation], end: int) -> list[Operation]:
    """The history up to the event at ``end``, of which only the outcomes of what began at ``known`` are known."""
    return until(
        [
            op if op.invoked in known else replace(op, outcome=Outcome.INFO, result=None, returned=None)
            for op in history
        ],
        end,
    )


def fuzz(workload: str, numbers: Iterable[int], seed: int, *, large: bool = False) -> tuple[Counter[str], list[str]]:
    """Who decided how many of the histories of these numbers, and every disagreement."""
    decided: Counter[str] = Counter()
    wrong: list[str] = []
    for number in numbers:
        random = Random(f"{workload}-{seed}-{number}")
        shape = large_shape(random) if large else random_shape(random)
        history = random_history(workload, random, shape)
        strict = random.random() < 0.3
        found = disagreements(history, workload, strict_cas=strict, decided=decided, large=large)
        wrong += [f"--model {workload} --seed {seed} --only {number}: {line}" for line in found]
    return decided, wrong


def main() -> int:
    """The command; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(ASK), required=True)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of the one history to look at")
    parser.add_argument("--large", action="store_true", help="histories too large for the oracle")
    options = parser.parse_args()
    numbers = range(options.histories) if options.only is None else [options.only]
    decided, wrong = fuzz(options.model, numbers, options.seed, large=options.large)
    counts = ", ".join(f"{name} {count}" for name, count in decided.items())
    sys.stdout.write("".join(f"{line}\n" for line in wrong[:20]))
    sys.stdout.write(f"{options.model}: {len(numbers)} histories ({counts}), {len(wrong)} disagreements\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
