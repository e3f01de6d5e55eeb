"""The register search in C: equal to the one in Python in everything that it finds, and never needed."""

from __future__ import annotations

import warnings
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from nemesis.linearizability import accelerator
from nemesis.linearizability.accelerator import SLOTS_MAX, SWITCH, UNKNOWN_MAX, NativeRuns, fits, load, runs_over
from nemesis.linearizability.beam import Answer
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation
from nemesis.linearizability.register_events import RegisterEvents
from nemesis.linearizability.register_pending import REUSED
from nemesis.linearizability.register_search import RELAXED_WIDTH, PythonRuns, search
from nemesis.verdict import Verdict
from tests.depth import seeds
from tests.linearizability.fuzz import model_of
from tests.linearizability.histories import Shape, random_history, random_shape
from tests.linearizability.native import compiled_from, differences, differences_of, needs_compiler
from tests.linearizability.recorded import DIRECTORY, recorded
from tests.linearizability.runs import register_events
from tests.linearizability.test_traps import RIGHT, WRONG
from tests.linearizability.written import sequence

HISTORIES = 125
LARGE_HISTORIES = 2
WORKLOADS = ("register", "cas-register", "cas-register-wild", "kv-simple")

SMALL = Budget(configurations=5_000, frontier=1_000)
PLAIN = "0 write 1; 0 ok; 0 write 1; 0 ok; 0 read; 0 ok 1"

OTHERS = [
    ("int register_search_abi(void) { return 4; }", "register_search_walk"),
    (
        "long register_search_abi(void) { return 999; } int register_search_walk, register_search_free;",
        "its interface has version 999, not 4",
    ),
]


def large_history(workload: str, random: Random) -> list[Operation]:
    """A history in which much is pending, values come again, and much is unknown."""
    shape = Shape(
        operations=random.randint(20, 120),
        processes=random.randint(2, 10),
        values=random.choice((2, 3, 4)),
        unknown=random.choice((0, 0.1, 0.4)),
        failed=random.choice((0, 0.1)),
        spoiled=random.choice((0, 1)),
        read=0.2,
        late=0.7,
    )
    return random_history(workload, random, shape)


def encoded(events: str) -> RegisterEvents:
    """The arrays of a history that is written by hand."""
    history = register_events(sequence(events), CasRegister())
    assert history is not None
    return history


def many_unknown(count: int) -> str:
    """So many unknown writes, of two values in turn; each of them is read, and at the end a value that is used up."""
    asked = "; ".join(f"u{number} write {number % 2 + 1}" for number in range(count))
    seen = "; ".join(f"0 read; 0 ok {number % 2 + 1}" for number in range(count + 1))
    return f"{asked}; {seen}"


def many_pending(count: int, values: int = 2) -> str:
    """Compare-and-sets that are all pending at once, so that about half of them may have been, whichever these are."""
    pairs = [(old, (old + step) % values) for step in range(1, values) for old in range(values)]
    asked = "; ".join(f"{process} cas {pairs[process % len(pairs)]}" for process in range(count))
    ended = "; ".join(f"{process} ok" for process in range(count))
    return f"w write 0; w ok; {asked}; {ended}; r read; r ok 50"


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("events", [*RIGHT.values(), *WRONG.values()])
@pytest.mark.parametrize("strict_cas", [False, True])
def test_traps_are_found_alike(events: str, strict_cas: bool, native: CDLL) -> None:
    """Where a search goes wrong that leaves something out, both go the same way, to the last configuration."""
    assert differences_of(sequence(events), CasRegister(failed_cas_is_read=strict_cas), native) == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("workload", WORKLOADS)
def test_random_histories_are_found_alike(workload: str, native: CDLL) -> None:
    """Nothing that chance comes up with tells the two apart."""
    small = [(f"{workload}-{number}", False) for number in seeds(HISTORIES)]
    large = [(f"{workload}-large-{number}", True) for number in seeds(LARGE_HISTORIES)]
    for name, is_large in small + large:
        random = Random(name)
        history = (
            large_history(workload, random) if is_large else random_history(workload, random, random_shape(random, 12))
        )
        found = differences_of(history, model_of(workload, strict_cas=random.random() < 0.4), native)
        assert found == [], name


@needs_compiler
@pytest.mark.skipif(not DIRECTORY.is_dir(), reason=f"there are no recorded histories at {DIRECTORY}")
@pytest.mark.parametrize("kind", ["etcd", "adversarial", "perf"])
def test_recorded_histories_are_found_alike(kind: str, native: CDLL) -> None:
    """What real systems did is found alike."""
    for history in recorded(kind):
        model = load_model(history.model, **({"failed_cas_is_read": True} if history.strict_cas else {}))
        for part in model.partition(history.operations()).values():
            arrays = register_events(part, model)
            if arrays is not None and fits(arrays):
                count = len(arrays.events)
                in_c = search(count, Budget(), NativeRuns(arrays, native))
                assert in_c == search(count, Budget(), PythonRuns(arrays)), history.name


@needs_compiler
@pytest.mark.parametrize("count", [2, 62, 63, 64, 65, 127, 128, 130])
def test_unknown_operations_of_several_words_are_found_alike(count: int, native: CDLL) -> None:
    """Sets that do not fit one word, or just do, are the same sets; and one that is used twice is REUSED."""
    history = encoded(many_unknown(count))
    assert history.unknown == count
    assert differences(history, native) == []
    frontier = NativeRuns(history, native).beam(stop=len(history.events) - 1, width=1, room=9999, held_max=99)
    assert [config[3] for config in frontier.frontier] == [(1 << count) - 1]
    relaxed = NativeRuns(encoded(many_unknown(count) + "; 0 read; 0 ok 9"), native).relaxed(room=9999, held_max=9999)
    assert (relaxed.answer, relaxed.frontier[0][3]) == (Answer.NO, REUSED)


@pytest.mark.slow
@needs_compiler
def test_a_run_that_forgets_configurations_is_found_alike(native: CDLL) -> None:
    """What is too wide for the relaxed run is cut alike, and refutes nothing any more."""
    history = encoded(many_pending(20, values=5))
    in_c = NativeRuns(history, native).relaxed(room=100_000, held_max=100_000)
    assert in_c == PythonRuns(history).relaxed(room=100_000, held_max=100_000)
    assert in_c.answer is Answer.UNDECIDED
    assert in_c.visited > RELAXED_WIDTH


@needs_compiler
def test_a_budget_beyond_all_numbers_is_no_budget(native: CDLL) -> None:
    """What does not fit the library's integers bounds nothing, there as in Python."""
    history = encoded(many_unknown(3))
    boundless = Budget(configurations=1 << 200, frontier=1 << 200)
    in_c = search(len(history.events), boundless, NativeRuns(history, native))
    assert in_c == search(len(history.events), boundless, PythonRuns(history))
    assert in_c.answer is Answer.NO


@needs_compiler
@pytest.mark.parametrize("workload", WORKLOADS)
def test_judgements_are_equal(workload: str, library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sees by a judgement which of the two decided: verdict, evidence, count and name are the same."""
    monkeypatch.setenv(SWITCH, str(library_path))
    model = model_of(workload, strict_cas=False)
    for number in range(30):
        history = large_history(workload, Random(f"{workload}-judged-{number}"))
        assert judge(history, model, SMALL) == judge(history, model, SMALL, accelerated=False)


@needs_compiler
def test_the_library_is_used_unless_it_is_forbidden(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides where it is there; the environment forbids it, and so does the caller."""
    history = encoded(PLAIN)
    monkeypatch.setenv(SWITCH, str(library_path))
    assert isinstance(runs_over(history, accelerated=True), NativeRuns)
    assert isinstance(runs_over(history, accelerated=False), PythonRuns)
    monkeypatch.setenv(SWITCH, "off")
    assert isinstance(runs_over(history, accelerated=True), PythonRuns)


@needs_compiler
@pytest.mark.parametrize(
    "events", [many_pending(SLOTS_MAX + 1), many_unknown(UNKNOWN_MAX + 1)], ids=["slots", "unknown"]
)
def test_what_does_not_fit_is_left_to_python(events: str, library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More pending or unknown operations than the library has bits for are judged without it."""
    monkeypatch.setenv(SWITCH, str(library_path))
    assert isinstance(runs_over(encoded(events), accelerated=True), PythonRuns)


@needs_compiler
@pytest.mark.parametrize(("text", "why"), OTHERS)
def test_another_library_is_refused(text: str, why: str, tmp_path: Path) -> None:
    """A library that lacks something, or is of another version, is not called."""
    with pytest.raises(accelerator.UnusableError, match=why):
        load(compiled_from(text, tmp_path))


def test_a_damaged_library_is_told_once_and_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be loaded leaves a warning that says so, and the same judgement."""
    damaged = tmp_path / "register_search.so"
    damaged.write_bytes(b"\x7fELF, and no more")
    monkeypatch.setenv(SWITCH, str(damaged))
    with pytest.warns(RuntimeWarning, match="is of no use, Python searches instead"):
        (judgement,) = judge(sequence(PLAIN), CasRegister())
    assert (judgement.kernel, judgement.verdict) == ("register-search", Verdict.VALID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judge(sequence(PLAIN), CasRegister()) == [judgement]


@needs_compiler
def test_a_history_out_of_order_is_refused(native: CDLL) -> None:
    """No walk begins over an operation that is over before it has begun."""
    write, read = sequence("0 write 1; 0 ok; 1 read; 1 ok 1")
    history = register_events([replace(write, invoked=5, returned=1), read], CasRegister())
    assert history is not None
    with pytest.raises(ValueError, match="returns where it begins, or before"):
        NativeRuns(history, native).relaxed(room=99, held_max=99)
