"""What a replica has under way, as metrics: work that waits for a disk, calls without an answer, memory by purpose.

Owns what of it is shown, and reads it at the moment of the scrape. What the allocator keeps, and the logs beside their
tails, is in the resident memory of the process alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric


class Held(Struct, frozen=True, kw_only=True):
    """What one purpose has of the memory, and the most that it may have before something is refused, if anything is."""

    now_bytes: int
    max_bytes: int | None = None


class Load(Protocol):
    """What may be read of a replica's work from another thread."""

    @property
    def lane_depths(self) -> Mapping[str, int]:
        """How many effects of each kind are in lanes: performed in another thread, or waiting behind those that are."""

    @property
    def flushes_pending(self) -> int:
        """How many logs have a flush that runs, or is in line."""

    @property
    def calls_waiting(self) -> int:
        """How many calls wait for the core's answer."""

    @property
    def memory(self) -> Mapping[str, Held]:
        """What is held of memory, by purpose."""


class LoadCollector:
    """Shows the load of one replica."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def collect(self) -> Iterator[Metric]:
        depths = GaugeMetricFamily(
            "replica_lane_depth",
            "Effects that a disk is busy with, and those behind them in the lanes of their logs, by kind.",
            labels=["effect"],
        )
        for effect, depth in self._load.lane_depths.items():
            depths.add_metric([effect], depth)
        held = GaugeMetricFamily(
            "replica_memory_bytes",
            "What is held for `answers` that connections have not taken, for `lanes`: batches to be appended, and for "
            "`tails`: the newest batches of each log.",
            labels=["purpose"],
        )
        most = GaugeMetricFamily(
            "replica_memory_max_bytes", "The most of it before requests are refused.", labels=["purpose"]
        )
        for purpose, memory in self._load.memory.items():
            held.add_metric([purpose], memory.now_bytes)
            if memory.max_bytes is not None:
                most.add_metric([purpose], memory.max_bytes)
        flushes = GaugeMetricFamily(
            "replica_flushes_pending", "Logs with a flush that runs or is in line.", value=self._load.flushes_pending
        )
        calls = GaugeMetricFamily(
            "replica_calls_waiting", "Calls that wait for an answer.", value=self._load.calls_waiting
        )
        yield from (depths, flushes, calls, held, most)
