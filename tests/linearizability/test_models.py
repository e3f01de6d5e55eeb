"""The models: each object's own rules, one small history each, and how models are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.key_value import KeyValue
from nemesis.linearizability.models.multi_register import MultiRegister
from nemesis.linearizability.models.registry import MODELS, UnknownModelError, load_model, model_names
from nemesis.verdict import Verdict
from tests.linearizability.written import sequence

VALID, INVALID = Verdict.VALID, Verdict.INVALID

HISTORIES = [
    ("register", "0 write 1; 0 ok; 0 read; 0 ok 1", VALID),
    ("register", "0 write 1; 0 ok; 0 read; 0 ok 2", INVALID),
    ("cas-register", "0 cas (None, 1); 0 ok; 0 read; 0 ok 1", VALID),
    ("kv", "0 put 5; 0 ok; 0 get-versioned; 0 ok (5, 1); 0 cas-version (1, 6); 0 ok; 0 get; 0 ok 6", VALID),
    ("kv", "0 put 5; 0 ok; 0 put 5; 0 ok; 0 cas-version (1, 6); 0 ok", INVALID),
    ("kv", "0 put 5; 0 ok; 0 delete; 0 ok; 0 get-versioned; 0 ok (None, 0)", VALID),
    ("kv", "0 increment 2; 0 ok 2; 1 increment 3; 1 ok 5; 0 get; 0 ok 5", VALID),
    ("kv", "0 increment 2; 0 ok 2; 1 increment 3; 1 ok 3", INVALID),
    ("mutex", "0 acquire; 0 ok; 1 release; 1 ok; 1 acquire; 1 ok", VALID),
    ("mutex", "0 acquire; 0 ok; 1 acquire; 1 ok", INVALID),
    ("mutex", "0 acquire; 0 ok; 1 acquire; 0 release; 1 ok; 0 ok", VALID),
    ("lock", "0 acquire; 0 ok; 0 release; 0 ok; 1 acquire; 1 ok", VALID),
    ("lock", "0 acquire; 0 ok; 1 release; 1 ok", INVALID),
    ("lock", "0 acquire; 0 ok; 1 release; 0 release; 2 acquire; 2 ok", VALID),
    ("queue", "0 enqueue 1; 0 ok; 0 enqueue 2; 0 ok; 1 dequeue; 1 ok 1", VALID),
    ("queue", "0 enqueue 1; 0 ok; 0 enqueue 2; 0 ok; 1 dequeue; 1 ok 2", INVALID),
    ("queue", "0 enqueue 1; 0 ok; 1 dequeue; 1 ok", INVALID),
    ("queue", "0 enqueue 1; 0 ok; 1 dequeue; 1 fail 'empty'", INVALID),
    ("queue", "0 enqueue 1; 0 ok; 2 dequeue; 1 dequeue; 1 fail 'empty'", VALID),
    ("set", "0 add 1; 0 ok; 1 add 2; 0 read; 0 ok (2, 1)", VALID),
    ("set", "0 add 1; 0 ok; 0 read; 0 ok ()", INVALID),
    ("set", "0 add 1; 0 ok; 0 read; 0 ok (1, 1)", INVALID),
    ("counter", "0 add 2; 1 add -1; 2 increment 1; 2 ok 2; 0 ok; 1 ok; 0 read; 0 ok 2", VALID),
    ("counter", "0 add 2; 0 ok; 0 read; 0 ok 3", INVALID),
    ("list", "0 append 1; 1 append 2; 0 ok; 1 ok; 0 read; 0 ok (2, 1)", VALID),
    ("list", "0 append 1; 0 ok; 1 append 2; 1 ok; 0 read; 0 ok (2, 1)", INVALID),
    ("list", "0 append 1; 0 ok; 0 append 2; 0 ok; 0 read; 0 ok (1,)", INVALID),
    ("log", "0 append 7; 0 ok 0; 1 fetch (0, 10); 1 ok (7,)", VALID),
    ("log", "0 append 7; 0 ok (0, 7); 1 fetch (0, None); 1 ok (7,)", VALID),
    ("log", "0 append 7; 0 ok (0, 8); 1 fetch (0, None); 1 ok (7,)", INVALID),
    ("log", "0 append 7; 0 ok (None, 8)", INVALID),
    ("log", "0 append 7; 0 ok (None, 7)", VALID),
    ("log", "0 append (1, 2); 0 ok (0, (1, 2))", VALID),
    ("log", "0 append (1, 2); 0 ok (0, 1, 2)", VALID),
    ("log", "0 append (1, 2); 0 ok (0, 1)", VALID),
    ("log", "0 append (1, 2); 0 ok (0, 2)", INVALID),
    ("log", "0 append (1, 2); 0 ok (0, (1, 3))", INVALID),
    ("log", "0 append 7; 0 ok 0; 1 fetch (0, 10); 1 ok ()", INVALID),
    ("log", "0 append 7; 0 ok 0; 1 fetch (0, 10, True); 1 ok ()", VALID),
    ("log", "0 append 7; 0 ok 0; 0 append 8; 0 ok 1; 1 fetch (0, 1); 1 ok (7,)", VALID),
    ("log", "0 append 7; 0 ok 0; 1 append 9; 0 append 8; 0 ok 2", VALID),
    ("log", "0 append 7; 0 ok 0; 0 append 8; 0 ok 2", INVALID),
    ("log", "0 append 7; 0 ok 0; 0 append 8; 0 ok 2; 1 append 9", INVALID),
    ("log", "0 append (1, 2); 0 ok 0; 1 fetch (0, 9); 1 ok (1,)", INVALID),
    ("log", "0 append (1, 2); 0 ok 0; 1 fetch (0, 1); 1 ok (1, 2)", INVALID),
    ("log", "0 append 7; 1 append 8; 1 ok 3; 2 append 9", INVALID),
    ("list", "0 append 1; 1 append 2; 2 read; 2 ok (1,); 2 read; 2 ok (2,); 0 ok; 1 ok", INVALID),
    ("log", "0 append (1, 2); 1 fetch (0, 1); 1 ok (1,); 0 ok 0", VALID),
    ("log", "0 append 1; 0 ok; 1 fetch (0, 9); 1 ok ()", INVALID),
    ("log", "0 append 1; 0 ok; 1 append 2; 1 ok 1", VALID),
    (
        "multi-register",
        "0 txn (('w', 'a', 1), ('w', 'b', 1)); 0 ok (('w', 'a', 1), ('w', 'b', 1)); "
        "1 txn (('r', 'a', None), ('r', 'b', None)); 1 ok (('r', 'a', 1), ('r', 'b', None))",
        INVALID,
    ),
]


@pytest.mark.parametrize(("name", "events", "expected"), HISTORIES)
def test_each_object_answers_by_its_own_rules(name: str, events: str, expected: Verdict) -> None:
    """A history of the object is valid exactly if the object could have answered so."""
    (judgement,) = judge(sequence(events), load_model(name))
    assert judgement.verdict is expected, judgement


def test_every_model_is_found_by_its_name() -> None:
    """What comes with the harness is listed, and made by its name with its options."""
    assert set(MODELS) <= set(model_names())
    assert all(load_model(name).name == name for name in MODELS)
    assert load_model("cas-register", initial=3).initial() == 3


def test_a_model_is_found_by_its_class() -> None:
    """A user's own is named by module and class; what is no model is refused, with the names of those that are."""
    assert isinstance(load_model("nemesis.linearizability.models.key_value:KeyValue"), KeyValue)
    for name in ("nonsense", "nowhere:Model", "nemesis.linearizability.models.key_value:Nothing", "builtins:dict"):
        with pytest.raises(UnknownModelError):
            load_model(name)


def test_registers_that_no_transaction_connects_are_judged_one_by_one() -> None:
    """Transactions partition the registers into objects of their own."""
    events = "0 txn (('w', 'a', 1), ('w', 'b', 1)); 1 txn (('w', 'c', 1),); 2 txn (('r', 'b', None), ('w', 'd', 1))"
    assert sorted(map(len, MultiRegister().partition(sequence(events)).values())) == [1, 2]


def test_keys_are_judged_one_by_one() -> None:
    """What is wrong with one key says nothing of another."""
    good = sequence("0 write 1; 0 ok; 0 read; 0 ok 1")
    bad = [replace(operation, key="b") for operation in sequence("0 write 1; 0 ok; 0 read; 0 ok 2")]
    judgements = judge([*good, *bad], load_model("register"))
    assert [(judgement.key, judgement.verdict) for judgement in judgements] == [(None, VALID), ("b", INVALID)]
