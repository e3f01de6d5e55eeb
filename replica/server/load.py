"""What a real replica has under way: how the page of metrics reads it of the driver and the service.

Every value is one read of something that the event loop changes meanwhile, so that any thread may ask.
"""

from __future__ import annotations

from collections.abc import Mapping

from replica.server.driver import Driver
from replica.server.load_metrics import Held
from replica.server.service import ReplicaService
from replica.storage.tail import Tails


class ReplicaLoad:
    """The load of one process, as a ``Load``."""

    def __init__(self, driver: Driver, service: ReplicaService, tails: Tails) -> None:
        self._driver = driver
        self._service = service
        self._tails = tails

    @property
    def lane_depths(self) -> Mapping[str, int]:
        """How many effects of each kind are in lanes."""
        return {effect.__name__: depth for effect, depth in tuple(self._driver.performer.lane_depths.items())}

    @property
    def flushes_pending(self) -> int:
        """How many logs have a flush that runs, or is in line."""
        return self._driver.performer.flushes_pending

    @property
    def calls_waiting(self) -> int:
        """How many calls wait for the core's answer."""
        return len(self._driver.requests)

    @property
    def memory(self) -> Mapping[str, Held]:
        """What is held of memory, by purpose."""
        driver, service = self._driver, self._service
        return {
            "answers": Held(now_bytes=service.answer_bytes, max_bytes=service.limits.answer_bytes_max),
            "lanes": Held(now_bytes=driver.performer.waiting_bytes, max_bytes=driver.waiting_bytes_max),
            "tails": Held(now_bytes=self._tails.total_bytes),
        }
