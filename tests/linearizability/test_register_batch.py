"""Registers of many objects in one call: what is proved there is what judging each of them says."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from nemesis.linearizability.accelerator import SWITCH
from nemesis.linearizability.forms import Form
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import ModelError
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.operations import Operation
from nemesis.linearizability.register_batch import MEANINGS_MAX, OPERATIONS_MIN, TooManyMeaningsError, proofs
from nemesis.verdict import Verdict
from tests.linearizability.fuzz import model_of
from tests.linearizability.histories import random_history, random_shape
from tests.linearizability.native import needs_compiler
from tests.linearizability.written import sequence

OBJECTS = 300
TIGHT = Budget(configurations=8, frontier=3)
WORKLOADS = ("register", "cas-register", "cas-register-wild", "kv", "kv-simple")
ONCE = "0 write 1; 0 ok; 1 read; 1 ok 1"


class Suspicious(CasRegister):
    """A register that looks at more than its name says."""

    def form(self, operation: Operation) -> Form | None:
        """Not of everybody."""
        if operation.process == "1":
            raise ModelError("process 1 is not trusted")
        return super().form(operation)


def many(workload: str, seed: str) -> list[Operation]:
    """Small histories of many objects, some right and some not, one object after the other."""
    found: list[Operation] = []
    for number in range(OBJECTS):
        random = Random(f"batch {workload} {seed} {number}")
        history = random_history(workload, random, random_shape(random))
        random.shuffle(history)
        found += [replace(operation, key=number) for operation in history]
    return found


def repeated(events: str) -> list[Operation]:
    """The same history of so many objects that they are judged together."""
    history = sequence(events)
    return [replace(op, key=key) for key in range(OPERATIONS_MIN // len(history) + 1) for op in history]


def verdicts(operations: Sequence[Operation], model: CasRegister) -> set[Verdict]:
    """What is said of the objects."""
    return {judgement.verdict for judgement in judge(operations, model)}


@needs_compiler
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("strict_cas", [False, True])
def test_what_is_proved_is_what_is_judged(workload: str, strict_cas: bool, native: CDLL) -> None:
    """An object that is proved right is valid when it is judged alone, by the same kernel with the same effort."""
    model = model_of(workload, strict_cas=strict_cas)
    history = many(workload, "proofs")

    proved = proofs(model.partition(history), model, Budget(), native)

    judged = {judgement.key: judgement for judgement in judge(history, model, accelerated=False)}
    assert len(proved) > OBJECTS // 10
    for key, proof in proved.items():
        of_key = judged[key]
        assert of_key.verdict is Verdict.VALID
        assert (of_key.operations, of_key.configurations) == (proof.operations, 0 if proof.unique else proof.visited)
        assert of_key.kernel == ("zones" if proof.unique else "register-search")


@needs_compiler
def test_what_is_undecided_is_not_proved(native: CDLL) -> None:
    """Where the budget runs out nothing is said, so that the object is unknown however it is judged."""
    model = CasRegister()
    history = many("cas-register", "undecided")

    proved = proofs(model.partition(history), model, TIGHT, native)

    judged = {judgement.key: judgement.verdict for judgement in judge(history, model, TIGHT, accelerated=False)}
    assert Verdict.UNKNOWN in judged.values()
    assert len(proved) > OBJECTS // 10
    assert {judged[key] for key in proved} == {Verdict.VALID}


@needs_compiler
@pytest.mark.parametrize("workload", WORKLOADS)
def test_judgements_of_many_are_equal(workload: str, library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right or wrong, in whatever order the operations stand, nobody sees that objects were judged together."""
    monkeypatch.setenv(SWITCH, str(library_path))
    model = model_of(workload, strict_cas=False)
    history = many(workload, "judged")
    assert len(history) >= OPERATIONS_MIN
    assert judge(history, model) == judge(history, model, accelerated=False)


@needs_compiler
def test_false_is_not_taken_for_zero(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compare-and-set that returned false is refused, though one that returned 0 stands before it."""
    monkeypatch.setenv(SWITCH, str(library_path))
    zero = "0 write 1; 0 ok; 0 cas (1, 2); 0 ok 0"
    false = sequence(zero.replace("ok 0", "ok False"))
    history = [*repeated(zero), *(replace(operation, key="false") for operation in false)]
    judgements = {judgement.key: judgement.verdict for judgement in judge(history, CasRegister())}
    assert judgements.pop("false") is Verdict.UNKNOWN
    assert set(judgements.values()) == {Verdict.VALID}


@needs_compiler
def test_a_model_made_from_another_is_asked_about_each(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subclass may look at the process, so it is asked again for operations that look alike."""
    monkeypatch.setenv(SWITCH, str(library_path))
    assert verdicts(repeated(ONCE), CasRegister()) == {Verdict.VALID}
    assert verdicts(repeated(ONCE), Suspicious()) == {Verdict.UNKNOWN}


@needs_compiler
def test_what_hardly_repeats_is_left_alone(native: CDLL) -> None:
    """Operations that all differ are not remembered without end."""
    (write, _) = sequence(ONCE)
    history = [replace(write, argument=k, invoked=2 * k, returned=2 * k + 1) for k in range(MEANINGS_MAX + 1)]
    with pytest.raises(TooManyMeaningsError):
        proofs({None: history}, CasRegister(), Budget(), native)
    assert len(proofs({None: history[:-1]}, CasRegister(), Budget(), native)) == 1


def test_what_cannot_be_compared_convicts_its_own_key_only() -> None:
    """A value that has no hash makes its key unknown, and no other."""
    (write, read) = sequence(ONCE)
    unhashable: object = [1]
    odd = [replace(write, key="odd", argument=unhashable), replace(read, key="odd")]
    judgements = {judgement.key: judgement.verdict for judgement in judge([*repeated(ONCE), *odd], CasRegister())}
    assert judgements.pop("odd") is Verdict.UNKNOWN
    assert set(judgements.values()) == {Verdict.VALID}
