"""The page of a history shows what contradicts itself, how far an order goes, and nothing that a value could start."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.report.conviction import BARS_MAX, STEPS_SHOWN_MAX, Conviction, conviction_of, write_conviction_page
from tests.linearizability.written import sequence
from tests.report.test_report_page import HOSTILE, Page

STALE = "0 write 1; 0 ok; 9 write 5; 0 write 2; 0 ok; 1 read; 1 ok 1; 2 read; 2 ok 2"


def shown(history: str, model: str = "register") -> Conviction:
    """What is shown of a history that was written by hand."""
    operations, chosen = sequence(history), load_model(model)
    (judgement,) = judge(operations, chosen)
    return conviction_of(judgement, operations, chosen, "the object")


def test_an_order_goes_as_far_as_it_can_and_what_follows_says_why_it_cannot() -> None:
    """Every step has the state after it, and of what has begun each operation says why it is not the next."""
    found = shown(STALE)
    assert [(line.line, line.text, line.says) for line in found.order] == [
        (1, "write 1 -> ok", "1"),
        (4, "write 2 -> ok", "2"),
    ]
    assert [(line.line, line.says) for line in found.next] == [
        (6, "cannot be: the state is 2"),
        (3, "would make it 5, where read -> 1 cannot be either"),
    ]
    assert found.reason == "the read of 1 began after 2 had replaced it: stale read"


def test_an_answer_that_others_contradict_stands_where_they_saw_it_take_effect() -> None:
    """An operation that others saw before it returned is a step of the order, and its answer does not fit there."""
    found = shown("0 enqueue 1; 0 ok; 1 dequeue; 2 enqueue 2; 2 ok; 3 dequeue; 3 ok 2; 1 ok None", "queue")
    assert [(line.line, line.says) for line in found.order] == [(1, "(1,)"), (4, "(1, 2)"), (3, "(2,)"), (6, "()")]
    assert [(line.line, line.says) for line in found.next] == [
        (3, "took effect in step 3, for others saw it; what it returned cannot be there: the state was (1, 2)")
    ]


def test_a_long_order_ends_with_the_state_where_it_gets_stuck() -> None:
    """Of a history of many thousand operations the order is that of all before the contradiction, not of a few."""
    writes = "; ".join(f"0 write {number}; 0 ok" for number in range(5000))
    found = shown(f"{writes}; 1 read; 1 ok 17")
    assert (found.order_begins, len(found.order), found.order_is_of_told) == (
        5000 - STEPS_SHOWN_MAX,
        STEPS_SHOWN_MAX,
        False,
    )
    assert (found.order[-1].text, found.order[-1].says) == ("write 4999 -> ok", "4999")


def test_bars_stand_in_the_lanes_of_their_processes() -> None:
    """A bar reaches from its invocation to its return, one that never returned to the end; no two overlap in a row."""
    found = shown(STALE)
    assert [(bar.process, bar.role, bar.begin, bar.end, bar.step) for bar in found.bars] == [
        ('"0"', "told", 0, 2, 1),
        ('"9"', "other", 2, 7, None),
        ('"0"', "told", 3, 5, 2),
        ('"1"', "last", 5, 7, None),
    ]
    assert found.columns == 7
    taken = [(bar.row, column) for bar in found.bars for column in range(bar.begin, bar.end)]
    assert len(set(taken)) == len(taken)
    points = [bar.point for bar in sorted(found.bars, key=lambda bar: bar.step or 0) if bar.point is not None]
    assert points == sorted(points)


def test_a_process_that_goes_on_beside_an_unknown_operation_has_another_row() -> None:
    """Foreign histories know such processes: what they do stays in their lane, and is drawn over nothing else."""
    found = shown("0 write 1; 0 info; 0 write 2; 0 ok; 0 write 3; 0 ok; 1 read; 1 ok 2")
    assert [(lane.process, lane.row, lane.rows) for lane in found.lanes] == [('"0"', 0, 2), ('"1"', 2, 1)]


def test_a_long_history_is_drawn_where_it_contradicts_itself() -> None:
    """What is told is always drawn; of the rest so many as a page can bear, and the others are counted."""
    others = "; ".join(f"0 write {number}; 0 ok" for number in range(10, 10 + 4 * BARS_MAX))
    found = shown(f"3 write 1; 3 ok; {others}; 1 read; 1 ok 1")
    assert len(found.bars) == BARS_MAX
    assert found.left_out == 4 * BARS_MAX + 2 - BARS_MAX
    assert {line.line for line in found.told} <= {bar.line for bar in found.bars}


@pytest.mark.parametrize("model", ["register", "cas-register"])
def test_what_was_recorded_cannot_start_anything(tmp_path: Path, model: str) -> None:
    """Values and keys are texts on the page, whatever they hold; and it asks nobody for anything."""
    operations, chosen = sequence(f"0 write {HOSTILE!r}; 0 ok; 1 read; 1 ok 7"), load_model(model)
    target = tmp_path / "page.html"
    write_conviction_page(target, HOSTILE, chosen, judge(operations, chosen), {None: operations})
    page = Page(target.read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert HOSTILE in page.text
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert "default-src 'none'" in target.read_text(encoding="utf-8")
