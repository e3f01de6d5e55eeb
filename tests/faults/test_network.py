"""Which links a network fault touches, and that it is stored as data."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.faults.catalogue import KINDS, fault_from_json
from nemesis.faults.impairments import Between, Delay, Impairments, NetworkFault
from nemesis.faults.links import CLIENTS, Link
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Inject, Step
from nemesis.simulator.schedule_lines import line_of, step_of

THREE = (1, 2, 3)
TO_1 = {(2, 1), (3, 1)}
FROM_1 = {(1, 2), (1, 3)}
CLIENTS_OF_1 = {(CLIENTS, 1), (1, CLIENTS)}
IMPAIRING = tuple(fault.kind for fault in Impairments.faults)


@pytest.mark.parametrize(
    ("shape", "between", "about", "expected"),
    [
        (Shape.ISOLATE, Between.REPLICAS, (1,), TO_1 | FROM_1),
        (Shape.ONE_WAY_MUTE, Between.REPLICAS, (1,), FROM_1),
        (Shape.ONE_WAY_DEAF, Between.ALL, (1,), TO_1 | CLIENTS_OF_1),
        (Shape.ISOLATE, Between.CLIENTS, (1,), CLIENTS_OF_1),
        (Shape.HALVES, Between.REPLICAS, (), {(1, 2), (2, 1), (1, 3), (3, 1)}),
        (Shape.HALVES, Between.CLIENTS, (), {link for node in THREE for link in ((CLIENTS, node), (node, CLIENTS))}),
        (Shape.ISOLATE, Between.REPLICAS, THREE, {(a, b) for a in THREE for b in THREE if a != b}),
        (Shape.ONE_WAY_MUTE, Between.REPLICAS, THREE, {(a, b) for a in THREE for b in THREE if a != b}),
    ],
)
def test_a_fault_touches_these_links(
    shape: Shape, between: Between, about: tuple[int, ...], expected: set[Link]
) -> None:
    """A shape says which links among replicas, the target whose clients; everybody as a target means every link."""
    fault = Delay(latency_ms=1, target=Role.ONE, shape=shape, between=between)

    assert fault.links(THREE, about, Random(1)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", IMPAIRING)
def test_every_kind_of_network_fault_draws_its_fault(kind: str) -> None:
    """Each kind of network fault is of its name, is drawn in many ways, and is stored and read as data."""
    drawn = [KINDS[kind].on_leader(Random(1)), *(KINDS[kind].drawn(Random(seed)) for seed in range(40))]

    assert {fault.kind for fault in drawn} == {kind}
    assert len(set(drawn)) > 10
    for fault in drawn:
        step = Step(at_s=1, action=Inject(fault_id=0, fault=fault))
        assert fault_from_json(fault.to_json()) == fault
        assert step_of(line_of(step)) == step


@pytest.mark.parametrize("kind", IMPAIRING)
def test_every_drawn_network_fault_touches_links(kind: str) -> None:
    """Whatever is drawn, in a cluster of three or five there are links that it is about."""
    for seed in range(100):
        fault = KINDS[kind].drawn(Random(seed))
        assert isinstance(fault, NetworkFault)
        for nodes in (THREE, (1, 2, 3, 4, 5)):
            about = () if fault.target is Role.NOBODY else nodes[:1]
            assert fault.links(nodes, about, Random(seed)), fault
