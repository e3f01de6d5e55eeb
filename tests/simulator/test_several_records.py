"""Appends of several records: how they are recorded, and what they bring to light."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nemesis.history import APPEND, EventType
from nemesis.simulator.clients import Clients
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.judges import judge_record
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.seeds import DRAWN
from nemesis.simulator.world import World
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core import messages as m
from replica.ids import Offset, ReplicaId
from replica.records import scan_batches

SEVERAL = dataclasses.replace(CALM, rate=20.0, batch_records=4)


def cluster_of(idempotent: float) -> Climate:
    """A cluster whose clients number what they append, or do not."""
    return dataclasses.replace(SEVERAL, cluster=ClusterClimate(idempotent=idempotent))


def appends_of(run: Run) -> Counter[EventType]:
    """How many appends began, and how they ended."""
    return Counter(event.type for event in run.record.history if event.f == APPEND)


@pytest.mark.parametrize("climate", [SEVERAL, cluster_of(0.0), cluster_of(1.0)], ids=["quorum", "cluster", "numbered"])
def test_each_value_of_a_batch_is_an_append(climate: Climate) -> None:
    """Each is acknowledged where it stands, by a process of its own, and found there in the end."""
    run = simulate(SimOptions(seed=1, time_limit_s=16, climate=climate))
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.SEVERAL_RECORDS] > 10
    assert run.counts.append_ok == run.outcome.acknowledged > run.outcome.rare[Rare.SEVERAL_RECORDS]
    assert appends_of(run)[EventType.INVOKE] == sum(appends_of(run).values()) / 2


@pytest.mark.parametrize("world", [WorldKind.QUORUM, WorldKind.CLUSTER])
def test_some_seeds_append_several_records_and_others_are_as_they_were(world: WorldKind) -> None:
    """A third of the worlds or so."""
    climates = [DRAWN[world](Random(f"{seed} climate")) for seed in range(1, 201)]
    assert 40 <= sum(climate.batch_records > 1 for climate in climates) <= 80


def test_a_cluster_is_drawn_from_its_seed_alone() -> None:
    """What was added to the drawing has dice of its own."""
    assert draw_cluster_climate(Random("7 climate")) == draw_cluster_climate(Random("7 climate"))


class MisplacingWorld(World):
    """Whoever appends several records is told the offset of the last, not of the first."""

    def ask(
        self, target: ReplicaId, request: m.Request, on_reply: Callable[[m.Response | None], None], **kwargs: Any
    ) -> None:
        """Ask as ever, and change the answer."""

        def misplace(response: m.Response | None) -> None:
            if isinstance(request, m.ProduceRequest) and isinstance(response, m.ProduceResponse):
                (batch,) = scan_batches(request.records, verify=False)
                if response.base_offset is not None:
                    last = Offset(response.base_offset + batch.end_offset - batch.base_offset - 1)
                    response = replace(response, base_offset=last)
            on_reply(response)

        super().ask(target, request, misplace, **kwargs)


@pytest.mark.parametrize(("batch_records", "expected"), [(1, False), (4, True)])
def test_a_wrong_offset_shows_only_where_batches_have_several_records(batch_records: int, expected: bool) -> None:
    """With one record the first is the last."""
    climate = dataclasses.replace(SEVERAL, batch_records=batch_records)
    world = MisplacingWorld(seed=1, climate=climate)
    record = Record(world.queue)
    clients = Clients(world, record, climate, Random("clients"))
    world.start_all()
    clients.start()
    world.queue.run_until(10 * US_PER_S)
    _, findings = judge_record("1", record, climate)
    assert ("violation" in findings.anomalies.column("severity").to_pylist()) is expected
