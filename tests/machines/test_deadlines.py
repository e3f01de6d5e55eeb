"""The order of many deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replica.deadlines import Deadlines
from replica.ids import TopicPartition

NAMES = [TopicPartition("topic", number) for number in range(4)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), st.integers(0, 20))),
            st.integers(0, 20),
        ),
        max_size=40,
    )
)
def test_deadlines_behave_as_a_table_would(moves: list[tuple[TopicPartition, int | None] | int]) -> None:
    """Whatever is set and taken in whatever order, the earliest and the due ones are those of a plain table."""
    deadlines, table = Deadlines[TopicPartition](), dict[TopicPartition, int]()
    for move in moves:
        if isinstance(move, int):
            due = sorted(name for name, deadline_ms in table.items() if deadline_ms <= move)
            assert sorted(deadlines.take_due(move)) == due
            table = {name: deadline_ms for name, deadline_ms in table.items() if name not in due}
        else:
            name, deadline_ms = move
            deadlines.set(name, deadline_ms)
            table.pop(name, None)
            if deadline_ms is not None:
                table[name] = deadline_ms
        assert deadlines.earliest_ms == min(table.values(), default=None)
