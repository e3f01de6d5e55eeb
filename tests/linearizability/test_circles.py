"""Zones: circles of compare-and-sets, in histories that are large."""

from __future__ import annotations

from nemesis.linearizability.forms import RegisterForm
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.zones import violation_of
from nemesis.verdict import Verdict
from tests.linearizability.written import sequence

LENGTH = 3000
LOOKS_EACH = 20
"""How often each operation may be looked at: a few times, however long the chain is that it stands in."""


class Counted(list[RegisterForm]):
    """Forms that count how often one of them is asked for."""

    looks = 0

    def __getitem__(self, place: int) -> RegisterForm:  # type: ignore[override]  # nobody asks for slices
        self.looks += 1
        return super().__getitem__(place)


def test_a_circle_beside_a_long_chain_is_found_at_once() -> None:
    """A chain that ends in no circle is walked along once, not once from each of its members."""
    chain = "".join(f"; 0 cas ({k}, {k + 1}); 0 ok" for k in range(1, LENGTH))
    circle = "1 cas (-1, -2); 0 cas (-2, -1); 0 ok; 1 ok; "
    history = sequence(circle + "0 write 1; 0 ok" + chain)
    model = load_model("cas-register")

    (judgement,) = judge(history, model)
    forms = Counted(form for form in map(model.form, history) if isinstance(form, RegisterForm))
    violation = violation_of(history, forms, model.register_initial())

    assert (judgement.verdict, judgement.kernel) == (Verdict.INVALID, "zones")
    assert judgement.counterexample is not None
    # The one that returned needs a value that only the other can have set, which needs what it sets itself.
    assert [operation.argument for operation in judgement.counterexample.operations] == [(-2, -1)]
    assert violation is not None
    assert len(violation.operations) == 2
    assert LENGTH < forms.looks < LOOKS_EACH * len(history)
