"""What a step of the core costs: it looks at what its event concerns, and at nothing else.

Costs are counted in calls of Python functions, which no other load on the machine changes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import replica.core
from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import Observer
from replica.core import events as ev
from replica.core import messages as m
from replica.core.log.replicated_log import ReplicatedLog
from replica.core.replica import Replica
from replica.ids import ReplicaId, TopicPartition
from tests.replication.bench import Cluster
from tests.replication.stage import StagedWorld

LEADER = ReplicaId(1)
WRITES = 8
"""The cheapest of so many steps is one with which nothing else falls due."""
CORE = str(Path(replica.core.__file__).parent)


class GroupedWorld(StagedWorld):
    """A world in which every replica hosts five groups, which nobody uses."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, groups=[TopicPartition(f"group{number}", 0) for number in range(5)])


class Costs(Observer):
    """How many functions each step of the leader has called, by what happened; and what a Produce passed."""

    def __init__(self) -> None:
        self.calls: dict[str, list[int]] = defaultdict(list)
        self.passed: list[str] = []
        """The functions of the core in which the first Produce was when its records were appended, the first first."""
        self._called = 0
        self._is_in_step = False

    def on_step(self, node: Node, step: Step) -> None:
        """Note what the step that has just ended has cost."""
        if node.replica_id == LEADER and step.event is not None:
            self.calls[kind_of(step.event)].append(self._called)
        self._called = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count as long as this lasts."""
        before = sys.getprofile()
        sys.setprofile(self._on_frame)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _on_frame(self, frame: FrameType, what: str, _argument: object) -> None:
        if frame.f_code is Replica.step.__code__ and what in ("call", "return"):
            self._is_in_step = what == "call"
        if self._is_in_step and what == "call":
            self._called += 1
            if frame.f_code is ReplicatedLog.append.__code__ and not self.passed:
                self.passed = _way_to(frame)


def _way_to(frame: FrameType | None) -> list[str]:
    """Name the functions of the core that are under way, up to this one."""
    way: list[str] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(CORE):
            way.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    return way


def kind_of(event: ev.Event) -> str:
    """Name what happened."""
    match event:
        case ev.RequestReceived(request=m.FetchRequest(session_id=session_id)):
            return "FetchRequest of a metadata log" if session_id is None else "FetchRequest of a follower"
        case ev.RequestReceived(request=request):
            return type(request).__name__
        case ev.ResponseReceived(response=response):
            return type(response).__name__
        case ev.Flushed(topic_partition=TopicPartition(topic="written")):
            return "Flushed of a partition"
        case _:
            return type(event).__name__


@cache
def measured(*, idle: int, has_groups: bool) -> Costs:
    """Write to one partition while ``idle`` others stand idle."""
    cluster = Cluster(3, is_judged=False, stage=GroupedWorld if has_groups else StagedWorld)
    written = cluster.create("written", (1, 2, 3))
    if idle:
        cluster.create("idle", *((1 + i % 3, 1 + (i + 1) % 3, 1 + (i + 2) % 3) for i in range(idle)))
    cluster.produce(written, b"the first begins an epoch")
    cluster.pass_ms(3000)
    costs = Costs()
    cluster.world.observers += [costs]
    with costs.counting():
        for number in range(WRITES):
            cluster.produce(written, b"%d" % number)
            cluster.pass_ms(100)
    return costs


def least(costs: Costs) -> Mapping[str, int]:
    """Name what the cheapest step of each kind has cost."""
    kinds = ("ProduceRequest", "Flushed of a partition", "FetchRequest of a follower", "Ticked")
    return {kind: min(costs.calls[kind]) for kind in kinds}


@pytest.mark.slow
@pytest.mark.parametrize(("idle", "has_groups"), [(300, False), (0, True), (300, True)])
def test_a_step_costs_the_same_whatever_stands_idle(idle: int, has_groups: bool) -> None:
    """A Produce, its flush, a follower's Fetch and a tick call as many functions with idle logs beside as without."""
    assert least(measured(idle=idle, has_groups=has_groups)) == least(measured(idle=0, has_groups=False))


def test_a_produce_passes_five_functions_of_the_core() -> None:
    """From the step that takes it to the effect that appends it, no function stands in the way that only hands on."""
    passed = measured(idle=0, has_groups=False).passed
    assert passed == [
        "Replica.step",
        "Replica._on_log_request",
        "Partition.on_request",
        "on_produce",
        "ReplicatedLog.append",
    ]
