"""Recorded histories with known verdicts: of etcd under Jepsen, made by hand, and hard ones.

They are no part of the project: where the directory beside the checkout is missing, these tests are skipped.
"""

from __future__ import annotations

import pytest

from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.verdict import Verdict
from tests.linearizability.recorded import DIRECTORY, Recorded, recorded

COUNTS = {"etcd": 52, "adversarial": 79, "perf": 3}

needs_recordings = pytest.mark.skipif(not DIRECTORY.is_dir(), reason=f"there are no recorded histories at {DIRECTORY}")


def verdict_of(history: Recorded) -> Verdict:
    """The joint verdict on all keys; a counterexample stands beside each that is invalid."""
    options = {"failed_cas_is_read": True} if history.strict_cas else {}
    judgements = judge(history.operations(), load_model(history.model, **options))
    for judgement in judgements:
        assert (judgement.counterexample is not None) is (judgement.verdict is Verdict.INVALID), judgement
    return Verdict.worst(judgement.verdict for judgement in judgements)


@needs_recordings
@pytest.mark.parametrize("kind", COUNTS)
def test_recorded_histories_get_their_known_verdict(kind: str) -> None:
    """Every recorded history is judged as everybody judges it."""
    histories = recorded(kind)
    assert len(histories) == COUNTS[kind]
    known = {history.name: Verdict.VALID if history.linearizable else Verdict.INVALID for history in histories}
    assert {history.name: verdict_of(history) for history in histories} == known
