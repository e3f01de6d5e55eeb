"""Workers: results in the order of the work, errors told and survived, and nothing left running."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from functools import partial

import pytest

from nemesis.simulator.corpus import run_seed
from nemesis.simulator.run import SimOptions
from nemesis.simulator.sweep import AHEAD_MAX, Lost, Workers
from nemesis.simulator.tally import Tally
from nemesis.verdict import Verdict

HUNG = "hung"
SLOW = 5_000_000
"""A number that takes longer than all others together."""


def work(item: object) -> int:
    """Square a number; end the process at a negative one, fail at a word, and never be done with one of them."""
    if item == SLOW:
        sum(range(SLOW))
    if item == HUNG:
        multiprocessing.Event().wait()
    if isinstance(item, str):
        raise ValueError(f"{item} is no number")
    assert isinstance(item, int)
    if item < 0:
        os._exit(-item)
    return item * item


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Two processes for all tests that leave them as they were."""
    with Workers(2) as two:
        yield two


def error_of(result: object) -> str:
    """What a lost piece of work says."""
    assert isinstance(result, Lost), result
    return result.error


def test_results_have_the_order_of_the_work(workers: Workers) -> None:
    """Far more items than workers, and than are kept waiting, come back in order, each with its own result."""
    items = range(2 * AHEAD_MAX)

    assert list(workers.in_order(work, items)) == [(item, item * item) for item in items]


def test_an_error_is_told_with_its_item(workers: Workers) -> None:
    """Work that raises is lost with its traceback, and what comes after it is done."""
    results = dict(workers.in_order(work, ["seven", 8]))

    assert "ValueError: seven is no number" in error_of(results["seven"])
    assert results[8] == 64


@pytest.mark.slow
def test_a_dead_worker_is_told_with_its_item(workers: Workers) -> None:
    """A process that ends under its work loses that piece only, says how it ended, and is replaced."""
    results = dict(workers.in_order(work, [1, -3, 2, -4, 3, 4, 5]))

    assert (error_of(results.pop(-3)), error_of(results.pop(-4))) == (
        "its worker process ended with 3",
        "its worker process ended with 4",
    )
    assert results == {item: item * item for item in range(1, 6)}


@pytest.mark.slow
def test_a_worker_that_never_answers_is_given_up() -> None:
    """Patience has an end: the piece of work is lost, its process is gone, and the rest is done."""
    with Workers(2) as impatient:
        # Both have begun, which takes longer than their work, before patience gets short.
        list(impatient.in_order(work, [0, 1]))
        impatient.answer_s_max = 2.0
        results = dict(impatient.in_order(work, [HUNG, 2, 3]))

    assert error_of(results.pop(HUNG)) == "no result within 2 s"
    assert results == {2: 4, 3: 9}


def test_whoever_has_seen_enough_may_go_on_to_the_next(workers: Workers) -> None:
    """Closing early leaves no result behind that the next piece of work could be taken for."""
    first = workers.in_order(work, [2, SLOW, 3])
    assert next(first) == (2, 4)
    first.close()

    assert list(workers.in_order(work, range(5, 10))) == [(item, item * item) for item in range(5, 10)]


@pytest.mark.slow
def test_no_worker_is_left_behind() -> None:
    """With an exception in the middle of the sweep as without, the end of the block is the end of the processes."""
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), Workers(2) as two:
        results = two.in_order(work, range(1000))
        next(results)
        raise KeyboardInterrupt

    assert set(multiprocessing.active_children()) == before


def test_one_job_needs_no_process() -> None:
    """A single worker is this process, with the same words for what goes wrong."""
    with Workers(1) as one:
        results = dict(one.in_order(work, ["seven", 8]))

    assert "ValueError: seven is no number" in error_of(results["seven"])
    assert results[8] == 64


@pytest.mark.parametrize("jobs", [0, 513])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: int) -> None:
    """There is at least one worker, and an end to how many."""
    with pytest.raises(ValueError, match="jobs"):
        Workers(jobs)


def tally_of(workers: Workers, options: SimOptions, seeds: range) -> Tally:
    """Simulate these seeds and sum them up."""
    tally = Tally()
    for seed, result in workers.in_order(partial(run_seed, options, False), seeds):
        assert not isinstance(result, Lost), f"seed {seed}: {result}"
        tally.add(result.row)
    return tally


def test_the_right_protocol_is_valid(workers: Workers) -> None:
    """A sample of the long sweep: every seed is valid, and what is rare happens in it."""
    tally = tally_of(workers, SimOptions(seed=0), range(1, 25))

    assert [row.command for row in tally.failures] == []
    assert tally.runs == tally.endings[Verdict.VALID] == 24
    assert {"split-vote", "resignation", "divergence-truncated", "power-loss"} <= tally.runs_with.keys()
    assert tally.acknowledged > 24


def test_a_wrong_protocol_is_convicted(workers: Workers) -> None:
    """A leader that acknowledges what no other replica has is found out in each of a few seeds."""
    tally = tally_of(workers, SimOptions(seed=0, variant="ack-before-replication", time_limit_s=20), range(1, 5))

    assert tally.endings == {Verdict.INVALID: 4}
    assert tally.violations == {"acknowledged-is-committed": 4}
    assert tally.failures[0].command == "nemesis sim --seed 1 --variant ack-before-replication --time-limit 20"
