"""Zones: circles of compare-and-sets, in histories that are large."""

from __future__ import annotations

from time import process_time

from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.verdict import Verdict
from tests.linearizability.written import sequence

LENGTH = 3000
CPU_SECONDS_MAX = 5.0


def test_a_circle_beside_a_long_chain_is_found_at_once() -> None:
    """A chain that ends in no circle is walked along once, not once from each of its members."""
    chain = "".join(f"; 0 cas ({k}, {k + 1}); 0 ok" for k in range(1, LENGTH))
    circle = "1 cas (-1, -2); 0 cas (-2, -1); 0 ok; 1 ok; "
    history = sequence(circle + "0 write 1; 0 ok" + chain)
    began = process_time()

    (judgement,) = judge(history, load_model("cas-register"))

    assert (judgement.verdict, judgement.kernel) == (Verdict.INVALID, "zones")
    assert judgement.counterexample is not None
    # The one that returned needs a value that only the other can have set, which needs what it sets itself.
    assert [operation.argument for operation in judgement.counterexample.operations] == [(-2, -1)]
    assert process_time() - began < CPU_SECONDS_MAX
