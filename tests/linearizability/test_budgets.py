"""Hard histories: whatever the object, a budget ends the search, in bounded time and memory, with *unknown*."""

from __future__ import annotations

import tracemalloc
from ctypes import CDLL
from pathlib import Path
from random import Random
from signal import ITIMER_REAL, SIGALRM, default_int_handler, setitimer, signal
from time import monotonic

import pytest

from nemesis.linearizability.accelerator import SWITCH, NativeRuns
from nemesis.linearizability.judgement import CONFIGURATIONS, CONFIGURATIONS_PER_EVENT, Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.verdict import Verdict
from tests.linearizability.histories import Shape, random_history
from tests.linearizability.native import needs_compiler
from tests.linearizability.test_accelerator import encoded, many_pending
from tests.linearizability.written import sequence

PENDING = 24
BUDGET = Budget(configurations=20_000, frontier=2_000)
MEMORY_MAX = 64 * 2**20


def at_once(asked: list[str], last: str) -> str:
    """Everything in ``asked`` by a process of its own, all of it pending until all have begun; then ``last``."""
    begun = "; ".join(f"{k} {what}" for k, what in enumerate(asked))
    ended = "; ".join(f"{k} ok {k if what == 'dequeue' else ''}" for k, what in enumerate(asked))
    return f"{begun}; {ended}; {last}"


def unseen(asked: list[str], last: str) -> str:
    """Everything in ``asked`` without an end; then ``last``."""
    return "; ".join(f"{k} {what}" for k, what in enumerate(asked)) + f"; {last}"


HARD = {
    "queue": ("queue", at_once([f"enqueue {k}" for k in range(PENDING)], "a dequeue; a ok 99")),
    "queue, unknown": ("queue", unseen([f"enqueue {k}" for k in range(PENDING)], "a dequeue; a ok 99")),
    "set": ("set", at_once([f"add {k}" for k in range(PENDING)], "a read; a ok (99,)")),
    "set, unknown": ("set", unseen([f"add {k}" for k in range(PENDING)], "a read; a ok (99,)")),
    "counter": ("counter", unseen([f"add {2**k}" for k in range(PENDING)], "a read; a ok -1")),
    "kv": ("kv", at_once([f"put {k}" for k in range(PENDING)], "a get-versioned; a ok (1, 99)")),
    "kv, unknown": ("kv", unseen([f"increment {2**k}" for k in range(PENDING)], "a get; a ok -1")),
    "lock": ("lock", unseen(["acquire"] * PENDING + ["release"] * PENDING, "a acquire; a ok; b release; b ok")),
    "multi-register": (
        "multi-register",
        unseen([f"txn (('w', {k}, 1), ('w', 'x', {k}))" for k in range(PENDING)], "a txn (('r', 'x', None),); a ok "
               "(('r', 'x', 99),)"),
    ),
    "register": ("cas-register", many_pending(PENDING, values=6)),
    "list": ("list", unseen(["append 1", "append 1"] * PENDING, "a read; a ok (1, 2)")),
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_a_budget_ends_every_search(name: str) -> None:
    """What is too hard is unknown, or decided by luck, after so many configurations and with so little memory."""
    model, events = HARD[name]
    history = sequence(events)
    tracemalloc.start()

    (judgement,) = judge(history, load_model(model), BUDGET, accelerated=False)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert judgement.verdict in {Verdict.UNKNOWN, Verdict.INVALID}
    assert judgement.configurations <= 2 * (BUDGET.configurations or 0)
    assert peak < MEMORY_MAX


@pytest.mark.parametrize("model", ["mutex", "lock", "queue", "set", "counter", "kv", "cas-register", "multi-register"])
def test_long_histories_of_many_processes_end(model: str) -> None:
    """Of no object a history of many processes, some of whose operations are unknown, takes more than its budget."""
    shape = Shape(operations=300, processes=25, values=5, unknown=0.05, failed=0, spoiled=0, begin=0.6)
    history = random_history(model, Random(f"hard {model}"), shape)

    judgements = judge(history, load_model(model), BUDGET, accelerated=False)

    assert all(judgement.verdict in {Verdict.UNKNOWN, Verdict.VALID} for judgement in judgements)
    assert all(judgement.configurations <= 2 * (BUDGET.configurations or 0) for judgement in judgements)


@pytest.mark.parametrize(("values", "unknown", "processes"), [(5, 0.0, 25), (5, 0.01, 15), (3, 0.03, 10)])
def test_contended_registers_are_decided(values: int, unknown: float, processes: int) -> None:
    """Many processes, few values and time-outs are no reason to give up."""
    shape = Shape(
        operations=400, processes=processes, values=values, unknown=unknown, failed=0, spoiled=0, begin=0.5, late=0.7
    )
    history = random_history("cas-register", Random(f"contended {processes}"), shape)

    (judgement,) = judge(history, load_model("cas-register"), Budget(configurations=50_000))

    assert (judgement.verdict, judgement.kernel) == (Verdict.VALID, "register-search")


def test_a_long_history_has_a_share_for_each_event() -> None:
    """The default grows with the history; what is asked for does not."""
    assert Budget().limit(10) == CONFIGURATIONS
    assert Budget().limit(CONFIGURATIONS) == CONFIGURATIONS_PER_EVENT * CONFIGURATIONS
    assert Budget(configurations=7).limit(CONFIGURATIONS) == 7


@needs_compiler
def test_a_search_in_c_can_be_interrupted(native: CDLL) -> None:
    """What would take minutes ends when somebody wants it to, and holds nothing any more."""
    history = encoded(many_pending(60, values=12))
    runs = NativeRuns(history, native)
    before = signal(SIGALRM, default_int_handler)
    began = monotonic()
    setitimer(ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            runs.thrifty(stop=len(history.events), width=1, enough=8, room=1 << 40, held_max=200_000)
    finally:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, before)
    assert monotonic() - began < 60


@needs_compiler
def test_the_budget_is_the_same_in_c(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too hard is unknown in both, after as many configurations."""
    monkeypatch.setenv(SWITCH, str(library_path))
    model, events = HARD["register"]
    history = sequence(events)
    assert judge(history, load_model(model), BUDGET) == judge(history, load_model(model), BUDGET, accelerated=False)
