"""Transactions are judged as loops over their definitions judge them, and each anomaly of theirs by hand-made ones."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from nemesis.checks import judge_transactions
from nemesis.checks.anomalies import ROWS_MAX
from nemesis.checks.cycles import ROUNDS_MAX
from nemesis.checks.precedence import Kind, Precedence, components, graph_of, way
from tests.checks.brute_transactions import CIRCLES, BruteTransactions, identity, shortest
from tests.checks.histories import Row, names
from tests.checks.transactions import Op, clean, lying, polls, send, table_of, taking, txn
from tests.depth import seeds

SEEDS = 20
CIRCLE_NAMES = {name for name, _ in CIRCLES}


def judged(ops: list[Op]) -> list[Row]:
    """The anomaly rows of a history of transactions."""
    return list(judge_transactions(table_of(ops)).anomalies.to_pylist())


@pytest.mark.parametrize("lies", [1, 2, 4])
@pytest.mark.parametrize("block", range(3))
def test_agrees_with_brute_force(block: int, lies: int) -> None:
    """Kind, severity and place of everything found are those that loops over the definitions find; so are circles."""
    for seed in seeds(3 * SEEDS)[block::3]:
        ops = lying(seed, lies)
        rows, brute = judged(ops), BruteTransactions(ops)
        found = {identity(row) for row in rows if row["anomaly"] not in CIRCLE_NAMES}
        assert found == set(brute.found()), f"lying({seed}, {lies})"
        check_circles([row for row in rows if row["anomaly"] in CIRCLE_NAMES], brute)


def check_circles(rows: list[Row], brute: BruteTransactions) -> None:
    """Each circle is one, has no simpler name, and none is left; one of a kind is as small as there are any."""
    edges = brute.edges()
    for (name, severity), kinds in CIRCLES.items():
        smallest = shortest({pair for kind in kinds for pair in edges[kind]})
        shown = [
            json.loads(row["evidence"])["circle"]
            for row in rows
            if (row["anomaly"], row["severity"]) == (name, severity)
        ]
        assert min(map(len, shown), default=0) == smallest, name
        for circle in shown:
            check_circle(circle, edges, kinds)
        for step in (step for circle in shown for step in circle):
            if step["kind"] in ("ww", "wr"):
                edges[step["kind"]].discard((step["before"], step["after"]))
        assert not shortest({pair for kind in kinds for pair in edges[kind]}), name


def check_circle(circle: list[dict[str, Any]], edges: dict[str, set[tuple[int, int]]], kinds: tuple[str, ...]) -> None:
    """Every step is an edge of a kind that the circle may have, and the last one leads to the first."""
    assert all((step["before"], step["after"]) in edges[step["kind"]] and step["kind"] in kinds for step in circle)
    assert [step["after"] for step in circle] == [step["before"] for step in circle[1:] + circle[:1]]
    assert {"ww", "wr"} & set(kinds) <= {step["kind"] for step in circle}
    assert kinds[-1] in {step["kind"] for step in circle}


def test_clean_histories_are_never_convicted() -> None:
    """Without a lie nothing is violated, and what is allowed is only what Kafka's transactions may do."""
    for seed in seeds(20):
        found = {(row["anomaly"], row["severity"]) for row in judged(clean(seed))}
        assert {severity for _, severity in found} <= {"unknown", "allowed"}, f"clean({seed}): {found}"
        assert {name for name, _ in found} <= {"unseen", "int-send-skip", "poll-skip", "nonmonotonic-poll"}


@pytest.mark.slow
def test_lies_show_every_anomaly() -> None:
    """The random histories are not blind: each kind that they can show is shown."""
    shown: Counter[str] = Counter()
    for seed in range(150):
        shown.update({(row["anomaly"] + ":" + row["severity"]) for row in judged(lying(seed, 3))})
    expected = {f"{name}:violation" for name in VIOLATIONS} | {"int-send-skip:allowed", "unseen:unknown", "G0:allowed"}
    expected |= {"poll-skip:allowed", "nonmonotonic-poll:allowed"}
    expected |= {f"{name}:{severity}" for name, severity in CIRCLES} - {"G1c-process:allowed", "G1c-realtime:allowed"}
    assert {name for name in expected if shown[name] < 1} == set()


VIOLATIONS = (
    "inconsistent-offsets",
    "duplicate",
    "phantom-read",
    "aborted-read",
    "precommitted-read",
    "lost-write",
    "poll-skip",
    "nonmonotonic-poll",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "realtime-reorder",
    "G1c",
)

SENT = txn((0, 1), send(1, 10, 0), send(1, 11, 1), send(1, 12, 2))
ALL = txn((90, 91), polls(k1=[(0, 10), (1, 11), (2, 12)]), process=9)
KEPT = txn((4, 5), polls(k1=[(0, 10)]), process=9)
GIVEN = taking("assign", (8, 9), 1)
BEGUN = txn((4, 5), polls(k1=[(0, 10)]))
BOTH = txn((20, 21), polls(k1=[(0, 10)], k2=[(0, 20)]), process=9)
LOOKED = txn((1, 6), polls(k2=[(0, 20)]), process=1)
READING = [txn((0, 9), send(2, 20, 0), polls(k1=[(0, 10)])), txn((1, 2), polls(k2=[(0, 20)]), process=1)]
WROTE = txn((1, 4), send(1, 11, 1), process=1)
WRITING = [txn((0, 9), send(1, 10, 0), send(2, 21, 1)), txn((1, 2), send(1, 11, 1), process=1)]
MIXED = [txn((0, 9), send(1, 10, 0), send(2, 21, 1)), txn((1, 2), polls(k1=[(0, 10)]), process=1)]
READ = txn((20, 21), polls(k1=[(0, 10), (1, 11)], k2=[(0, 20), (1, 21)]), process=9)
MIXED_READ = txn((20, 21), polls(k1=[(0, 10)], k2=[(0, 20), (1, 21)]), process=9)

CASES: dict[str, tuple[list[Op], list[str]]] = {
    "precommitted-read": ([txn((0, 1), send(1, 10, 0), polls(k1=[(0, 10)]))], ["precommitted-read"]),
    "precommitted-read: before it was sent": (
        [txn((0, 1), polls(k1=[(0, 10)]), send(1, 10, 0))],
        ["precommitted-read"],
    ),
    "no precommitted-read: by the next operation": ([SENT, ALL], []),
    "no precommitted-read: of another log": (
        [txn((0, 3), send(1, 10, 0), polls(k2=[(0, 10)])), txn((1, 2), send(2, 10, 0), process=1), KEPT],
        [],
    ),
    "poll-skip": ([SENT, ALL, BEGUN, txn((6, 7), polls(k1=[(2, 12)]))], ["poll-skip"]),
    "poll-skip: allowed to a group": (
        [SENT, ALL, taking("subscribe", (2, 3), 1), BEGUN, txn((6, 7), polls(k1=[(2, 12)]))],
        ["poll-skip"],
    ),
    "poll-skip: the log is kept": (
        [SENT, ALL, BEGUN, taking("assign", (6, 7), 1, 2), txn((8, 9), polls(k1=[(2, 12)]))],
        ["poll-skip"],
    ),
    "no poll-skip: the log was given up": (
        [SENT, ALL, BEGUN, taking("assign", (6, 7), 2), GIVEN, txn((10, 11), polls(k1=[(2, 12)]))],
        [],
    ),
    "no poll-skip: it sought": (
        [SENT, ALL, BEGUN, taking("assign", (6, 7), 1, seek=True), txn((8, 9), polls(k1=[(2, 12)]))],
        [],
    ),
    "poll-skip: the assign failed": (
        [SENT, ALL, BEGUN, taking("assign", (6, 7), 2, type="fail"), txn((8, 9), polls(k1=[(2, 12)]))],
        ["poll-skip"],
    ),
    "nonmonotonic-poll": ([SENT, ALL, BEGUN, txn((6, 7), polls(k1=[(0, 10)]))], ["nonmonotonic-poll"]),
    "no nonmonotonic-poll: it sought": (
        [SENT, ALL, BEGUN, taking("assign", (6, 7), 1, seek=True), txn((8, 9), polls(k1=[(0, 10)]))],
        [],
    ),
    "no nonmonotonic-poll: the one before failed": (
        [SENT, ALL, txn((4, 5), polls(k1=[(0, 10)]), type="fail"), txn((6, 7), polls(k1=[(0, 10)]))],
        [],
    ),
    "no nonmonotonic-poll: a group had the log before": (
        [
            SENT,
            ALL,
            taking("subscribe", (2, 3), 1),
            BEGUN,
            taking("assign", (6, 7), 1),
            txn((8, 9), polls(k1=[(0, 10)])),
        ],
        [],
    ),
    "no poll-skip: a group had the log before": (
        [
            SENT,
            ALL,
            taking("subscribe", (2, 3), 1),
            BEGUN,
            taking("assign", (6, 7), 1),
            txn((8, 9), polls(k1=[(2, 12)])),
        ],
        [],
    ),
    "no nonmonotonic-poll: a group had the log in between": (
        [SENT, ALL, BEGUN, taking("subscribe", (6, 7), 1), GIVEN, txn((10, 11), polls(k1=[(0, 10)]))],
        [],
    ),
    "nonmonotonic-poll: a group would have had the log": (
        [SENT, ALL, BEGUN, taking("subscribe", (6, 7), 1, type="fail"), GIVEN, txn((10, 11), polls(k1=[(0, 10)]))],
        ["nonmonotonic-poll"],
    ),
    "int-poll-skip: over two polls": (
        [SENT, ALL, txn((4, 5), polls(k1=[(0, 10)]), polls(k1=[(2, 12)]))],
        ["int-poll-skip"],
    ),
    "no int-poll-skip: rebalanced meanwhile": (
        [SENT, ALL, txn((4, 5), polls(k1=[(0, 10)]), polls(k1=[(2, 12)]), moved=[1])],
        [],
    ),
    "int-nonmonotonic-poll: over two polls": (
        [SENT, ALL, txn((4, 5), polls(k1=[(0, 10)]), polls(k1=[(0, 10)]))],
        ["int-nonmonotonic-poll"],
    ),
    "no int-nonmonotonic-poll: rebalanced meanwhile": (
        [SENT, ALL, txn((4, 5), polls(k1=[(0, 10)]), polls(k1=[(0, 10)]), moved=[1])],
        [],
    ),
    "int-send-skip": (
        [
            txn((0, 3), send(1, 10, 0), send(1, 12, 2)),
            txn((1, 4), send(1, 11, 1), process=1),
            ALL,
        ],
        ["G0", "int-send-skip"],
    ),
    "no int-send-skip: only offsets that hold no value": (
        [txn((0, 3), send(1, 10, 0), send(1, 12, 10**15)), txn((4, 5), polls(k1=[(0, 10), (10**15, 12)]))],
        [],
    ),
    "int-nonmonotonic-send": (
        [txn((0, 3), send(1, 10, 1), send(1, 11, 0)), txn((4, 5), polls(k1=[(0, 11), (1, 10)]), process=1)],
        ["int-nonmonotonic-send"],
    ),
    "no int-nonmonotonic-send: to two logs": (
        [txn((0, 3), send(1, 10, 7), send(2, 11, 0)), txn((4, 5), polls(k1=[(7, 10)], k2=[(0, 11)]))],
        [],
    ),
    "nonmonotonic-send: of unknown outcome": (
        [
            txn((0, 1), send(1, 10, 5)),
            txn((2, 3), send(1, 11), type="info"),
            txn((4, 5), polls(k1=[(2, 11), (5, 10)]), process=1),
        ],
        ["nonmonotonic-send", "realtime-reorder"],
    ),
    "no nonmonotonic-send: after one that failed": (
        [
            txn((0, 1), send(1, 10, 5), type="fail"),
            txn((2, 3), send(1, 11, 2)),
            txn((4, 5), polls(k1=[(2, 11)]), process=1),
        ],
        [],
    ),
    "lost-write: committed, for its other value was read": (
        [
            txn((0, 1), send(1, 10, 0), send(2, 20, 0), type="info"),
            txn((2, 3), send(1, 11, 1), process=1),
            txn((4, 5), polls(k1=[(1, 11)], k2=[(0, 20)]), process=2),
        ],
        ["lost-write"],
    ),
    "no lost-write: perhaps never committed": (
        [
            txn((0, 1), send(1, 10, 0), send(2, 20, 0), type="info"),
            txn((2, 3), send(1, 11, 1), process=1),
            txn((4, 5), polls(k1=[(1, 11)]), process=2),
        ],
        [],
    ),
    "lost-write: its place is shown by who cannot be sure": (
        [
            txn((0, 1), send(1, 10), send(2, 20), type="info"),
            txn((2, 3), send(2, 21, 5), process=1),
            txn((4, 5), polls(k2=[(3, 20)]), process=2, type="info"),
            txn((6, 7), polls(k1=[(0, 10)]), process=3),
            txn((8, 9), polls(k2=[(5, 21)]), process=4),
        ],
        ["lost-write"],
    ),
    "lost-write: acknowledged without an offset, its place shown": (
        [
            txn((0, 1), send(2, 20), send(2, 21, 5)),
            txn((4, 5), polls(k2=[(3, 20)]), process=2, type="info"),
            txn((8, 9), polls(k2=[(5, 21)]), process=4),
        ],
        ["lost-write"],
    ),
    "no lost-write: its place is behind all that was read": (
        [
            txn((0, 1), send(1, 10), send(2, 20), type="info"),
            txn((2, 3), send(2, 21, 5), process=1),
            txn((4, 5), polls(k2=[(6, 20)]), process=2, type="info"),
            txn((6, 7), polls(k1=[(0, 10)]), process=3),
            txn((8, 9), polls(k2=[(5, 21)]), process=4),
        ],
        [],
    ),
    "no lost-write: the last of its places is behind all that was read": (
        [
            txn((0, 1), send(2, 20), send(2, 21, 5)),
            txn((4, 5), polls(k2=[(3, 20)]), process=2, type="info"),
            txn((6, 7), polls(k2=[(8, 20)]), process=3, type="info"),
            txn((8, 9), polls(k2=[(5, 21)]), process=4),
        ],
        ["duplicate", "unseen"],
    ),
    "no lost-write: shown, but perhaps never committed": (
        [
            txn((0, 1), send(1, 10), send(2, 20), type="info"),
            txn((2, 3), send(2, 21, 5), process=1),
            txn((4, 5), polls(k2=[(3, 20)]), process=2, type="info"),
            txn((8, 9), polls(k2=[(5, 21)]), process=4),
        ],
        [],
    ),
    "lost-write: two of one transaction": ([SENT, txn((4, 5), polls(k1=[(2, 12)]))], ["lost-write"]),
    "inconsistent-offsets: seen by what failed": (
        [SENT, ALL, txn((4, 5), polls(k1=[(0, 11)]), type="fail", process=1)],
        ["duplicate", "inconsistent-offsets"],
    ),
    "no aborted-read: by what failed itself": (
        [txn((0, 1), send(1, 10, 0), type="fail"), txn((2, 3), polls(k1=[(0, 10)]), type="fail", process=1)],
        [],
    ),
    "G0": (
        [
            txn((0, 4), send(1, 10, 0), send(2, 21, 1)),
            txn((1, 5), send(1, 11, 1), send(2, 20, 0), process=1),
            txn((6, 7), polls(k1=[(0, 10), (1, 11)], k2=[(0, 20), (1, 21)]), process=2),
        ],
        ["G0"],
    ),
    "no G0: in one order": (
        [
            txn((0, 4), send(1, 10, 0), send(2, 20, 0)),
            txn((1, 5), send(1, 11, 1), send(2, 21, 1), process=1),
            txn((6, 7), polls(k1=[(0, 10), (1, 11)], k2=[(0, 20), (1, 21)]), process=2),
        ],
        [],
    ),
    "G1c": (
        [
            txn((0, 4), send(1, 10, 0), polls(k2=[(0, 20)])),
            txn((1, 5), send(2, 20, 0), polls(k1=[(0, 10)]), process=1),
        ],
        ["G1c"],
    ),
    "G1c-process": ([*READING, txn((3, 4), send(1, 10, 0), process=1)], ["G1c-process"]),
    "G1c-realtime": ([*READING, txn((3, 4), send(1, 10, 0), process=2)], ["G1c-realtime"]),
    "G1c-realtime: read before it was sent": (
        [txn((0, 1), polls(k1=[(0, 10)]), send(2, 20, 0)), txn((2, 3), send(1, 10, 0), process=1), BOTH],
        ["G1c-realtime", "future-read", "realtime-reorder"],
    ),
    "no G1c-realtime: at the same time": (
        [txn((0, 9), send(2, 20, 0), polls(k1=[(0, 10)])), LOOKED, txn((2, 7), send(1, 10, 0), process=2)],
        [],
    ),
    "no G0-realtime: nobody knows when it took effect": (
        [WRITING[0], txn((1, 2), send(1, 11), process=1, type="info"), txn((3, 4), send(2, 20, 0), process=2), READ],
        [],
    ),
    "G0-process": ([*WRITING, txn((3, 4), send(2, 20, 0), process=1), READ], ["G0-process"]),
    "G0-realtime": ([*WRITING, txn((3, 4), send(2, 20, 0), process=2), READ], ["G0-realtime"]),
    "no G0-realtime: at the same time": ([*WRITING[:1], WROTE, txn((2, 5), send(2, 20, 0), process=2), READ], []),
    "G1c: closed by writes": (
        [MIXED[0], txn((1, 8), send(2, 20, 0), polls(k1=[(0, 10)]), process=1), MIXED_READ],
        ["G1c"],
    ),
    "G1c-process: closed by writes": ([*MIXED, txn((3, 4), send(2, 20, 0), process=1), MIXED_READ], ["G1c-process"]),
    "G1c-realtime: closed by writes": ([*MIXED, txn((3, 4), send(2, 20, 0), process=2), MIXED_READ], ["G1c-realtime"]),
    "no G1c: one way only": (
        [
            txn((0, 4), send(1, 10, 0), send(2, 20, 0)),
            txn((1, 5), polls(k1=[(0, 10)], k2=[(0, 20)]), process=1),
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_hand_made(case: str) -> None:
    """The history shows exactly the anomalies that it was made for; its near miss shows none."""
    ops, expected = CASES[case]
    assert sorted({row["anomaly"] for row in judged(ops)}) == expected


def test_what_is_allowed_convicts_nobody() -> None:
    """Sends of others between one's own, circles of writes, and what a group does to consumers are reported only."""
    closed = [case for case in CASES if case.endswith("closed by writes")]
    for case in ("int-send-skip", "G0", "G0-process", "G0-realtime", *closed, "poll-skip: allowed to a group"):
        assert {row["severity"] for row in judged(CASES[case][0]) if row["anomaly"] != "unseen"} == {"allowed"}, case
    for case in ("G1c", "G1c-process", "G1c-realtime"):
        assert {row["severity"] for row in judged(CASES[case][0])} == {"violation"}, case
    assert {row["severity"] for row in judged(CASES["poll-skip"][0])} == {"violation"}


def test_two_losses_of_one_transaction_are_two() -> None:
    """Each lost value has its row, though one operation sent both."""
    rows = judged(CASES["lost-write: two of one transaction"][0])
    assert [json.loads(row["evidence"])["value"] for row in rows] == [10, 11]


def test_a_loss_says_where_its_value_was_seen() -> None:
    """The place that a poll showed is the loss's, and the poll that read past it is named."""
    [row] = judged(CASES["lost-write: its place is shown by who cannot be sure"][0])
    assert (row["offsets"], row["op_indexes"], row["severity"]) == ([3], [0, 8], "violation")
    assert "appended value 20, committed, seen at offset 3, and operation 8 read past that offset" in row["detail"]


@pytest.mark.slow
def test_order_of_rows_does_not_matter() -> None:
    """Rows in another order give the same anomalies."""
    for seed in range(12):
        table = table_of(lying(seed, 4))
        turned = table.take(list(reversed(range(table.num_rows))))
        assert judge_transactions(turned).anomalies.equals(judge_transactions(table).anomalies), seed


def test_sparse_offsets_cost_nothing() -> None:
    """Offsets near the end of what 64 bits can hold are judged like small ones."""
    far = 2**62
    ops = [txn((0, 1), send(1, 10, 0), send(1, 11, far)), txn((2, 3), polls(k1=[(0, 10), (far, 11)]), process=1)]
    assert judged(ops) == []
    late = txn((4, 5), polls(k1=[(far + 1, 12)]), process=2)
    assert names(judged([*ops, late])) == ["phantom-read"]


def test_circles_are_as_short_as_they_can_be() -> None:
    """Of a circle of three that has a short cut, the two that suffice are shown."""
    ops = [
        txn((0, 10), send(1, 10, 0), polls(k2=[(0, 20)])),
        txn((1, 11), send(2, 20, 0), polls(k1=[(0, 10)], k3=[(0, 30)]), process=1),
        txn((2, 12), send(3, 30, 0), polls(k1=[(0, 10)]), process=2),
    ]
    [row] = [row for row in judged(ops) if row["anomaly"] == "G1c"]
    assert row["op_indexes"] == [0, 1]
    assert [first for first, _ in pairwise([*row["op_indexes"], 0])] == [0, 1]


def test_orders_cost_what_their_operations_do() -> None:
    """The graph of all orders has a few edges for each operation, though nearly each pair of them is ordered."""
    count = 2_000
    precedence = Precedence(
        process={2 * place: place % 3 for place in range(count)},
        returned={2 * place: 2 * place + 1 for place in range(count)},
    )
    graph = graph_of(precedence, [2 * place for place in range(count)], frozenset(Kind))
    assert sum(map(len, graph.following)) <= 6 * count
    assert components(graph) == []
    [start, *_, end] = way(graph, 0, count - 1) or []
    assert (start, end) == (0, count - 1)
    assert len([node for node in way(graph, 0, count - 1) or [] if node < graph.places]) == 2


def test_a_tangle_has_an_end() -> None:
    """Many transactions that all read from one another give as many rows as are shown, and one that counts the rest."""
    count = 40
    everything = [(value, value) for value in range(count)]
    ops = [
        txn((at, count + at), send(1, at, at), polls(k1=[one for one in everything if one[0] != at]), process=at)
        for at in range(count)
    ]
    rows = [row for row in judged(ops) if row["anomaly"] == "G1c" and row["severity"] == "violation"]
    assert len(rows) == ROWS_MAX + 1
    [rest] = [json.loads(row["evidence"])["more"] for row in rows if not row["op_indexes"]]
    assert rest == count * (count - 1) // 2 - ROWS_MAX


def test_a_tangle_of_too_many_rounds_is_dropped_whole() -> None:
    """Where circles of three share an operation, as many are told as there are rounds, and none by another name."""
    count = ROUNDS_MAX + 5
    first = [(at, 100 + at) for at in range(count)]
    last = [(at, 300 + at) for at in range(count)]
    ops = [txn((0, 1_000), *(send(1, value, at) for at, value in first), polls(k3=last))]
    for at in range(count):
        one, two, end = 2 * at + 1, 2 * at + 2, 1_001 + 2 * at
        ops.append(txn((one, end), polls(k1=[first[at]]), send(2, 200 + at, at), process=one))
        ops.append(txn((two, end + 1), polls(k2=[(at, 200 + at)]), send(3, 300 + at, at), process=two))
    found = Counter(row["anomaly"] + ":" + row["severity"] for row in judged(ops) if row["anomaly"] in CIRCLE_NAMES)
    assert found == {"G1c:violation": ROUNDS_MAX}
    passed_over = {row["missed"] for row in judge_transactions(table_of(ops)).coverage.to_pylist() if row["missed"]}
    assert passed_over == {3 * 5}, "the steps of the circles that were not told"
