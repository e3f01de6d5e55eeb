"""What a replica has under way, as the page tells it: work in lanes, flushes, calls, memory."""

from __future__ import annotations

import asyncio

import structlog
from prometheus_client import CollectorRegistry

from replica.core.effects import Append, Effect
from replica.core.events import Ticked
from replica.server.load import ReplicaLoad
from replica.server.load_metrics import LoadCollector
from replica.server.service import ReplicaService, ServiceLimits
from replica.storage.tail import Tail, Tails
from tests.server.driver_fakes import LOG, wait_until
from tests.server.driver_rig import ASK, Rig, batch, flush, on, running

TAILS = Tails()


def registry_of(rig: Rig) -> CollectorRegistry:
    """The page of a driver, and of a service whose answers may hold a thousand bytes."""
    limits = ServiceLimits(answer_bytes_max=1000)
    service = ReplicaService(call=rig.driver.call, addresses={}, logger=structlog.get_logger(), limits=limits)
    registry = CollectorRegistry()
    registry.register(LoadCollector(ReplicaLoad(rig.driver, service, TAILS)))
    return registry


async def test_work_that_waits_for_a_disk_is_counted_by_kind_until_it_is_done() -> None:
    """Two appends of a slow disk and a flush behind them are in the lane, with their bytes; afterwards nothing is."""
    batches = [batch(0), batch(1)]
    effects: tuple[Effect, ...] = (*(Append(topic_partition=LOG, batches=(each,)) for each in batches), flush(2))
    async with running(on(Ticked, lambda _: effects)) as rig:
        registry = registry_of(rig)
        rig.storage.slow = (Append,)
        rig.driver.submit(Ticked())
        assert registry.get_sample_value("replica_lane_depth", {"effect": "Append"}) == 2
        assert registry.get_sample_value("replica_lane_depth", {"effect": "Flush"}) == 1
        waiting_bytes = sum(each.size_bytes for each in batches)
        assert registry.get_sample_value("replica_memory_bytes", {"purpose": "lanes"}) == waiting_bytes
        assert registry.get_sample_value("replica_flushes_pending") == 0
        rig.log.flush_may_end.clear()
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: registry.get_sample_value("replica_flushes_pending") == 1, "the flush")
        assert registry.get_sample_value("replica_lane_depth", {"effect": "Append"}) == 0
        assert registry.get_sample_value("replica_lane_depth", {"effect": "Flush"}) == 0
        assert registry.get_sample_value("replica_memory_bytes", {"purpose": "lanes"}) == 0
        rig.log.flush_may_end.set()
        await wait_until(lambda: registry.get_sample_value("replica_flushes_pending") == 0, "the end of the flush")


async def test_calls_that_wait_are_counted_and_memory_has_its_bounds() -> None:
    """A call that the core has not answered is one; each purpose shows the most that it may hold."""
    async with running(lambda _: ()) as rig:
        registry = registry_of(rig)
        asking = asyncio.ensure_future(rig.driver.call(ASK))
        await wait_until(lambda: registry.get_sample_value("replica_calls_waiting") == 1, "the call")
        asking.cancel()
        await wait_until(lambda: registry.get_sample_value("replica_calls_waiting") == 0, "its end")
        assert registry.get_sample_value("replica_memory_bytes", {"purpose": "answers"}) == 0
        assert registry.get_sample_value("replica_memory_max_bytes", {"purpose": "answers"}) == 1000
        lanes_max = registry.get_sample_value("replica_memory_max_bytes", {"purpose": "lanes"})
        assert lanes_max == rig.driver.waiting_bytes_max
        Tail(1 << 20, TAILS).append([batch(0)])
        assert registry.get_sample_value("replica_memory_bytes", {"purpose": "tails"}) == TAILS.total_bytes > 0
        assert registry.get_sample_value("replica_memory_max_bytes", {"purpose": "tails"}) is None
