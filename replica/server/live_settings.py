"""Settings that the metadata log says while a replica runs, as far as the server goes by them rather than the core.

Owns what is done when they change: each part of the server is handed what it goes by from now on. What the log does not
say any more is again as the replica was started.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Protocol

from msgspec.structs import replace as replace_struct
from structlog.typing import FilteringBoundLogger

from replica.core.effects import ApplySettings
from replica.server.housekeeping import Housekeeping
from replica.server.log_lines import set_level
from replica.server.options import ServerOptions
from replica.server.service import ReplicaService, ServiceLimits
from replica.storage import LogConfig


class Storage(Protocol):
    """The logs of a data directory, as far as this needs them."""

    @property
    def config(self) -> LogConfig:
        """What all logs go by."""


class Lines(Protocol):
    """Whoever writes a line for each step, or does not."""

    with_steps: bool


class LiveSettings:
    """``options`` are those of the start, with what the metadata log says over them. For the event loop."""

    def __init__(
        self,
        *,
        options: ServerOptions,
        service: ReplicaService,
        house: Housekeeping,
        storage: Storage,
        observer: Lines,
        logger: FilteringBoundLogger,
    ) -> None:
        self.options = options
        self.limits = options.limit_table
        """How much of this replica each principal may have: as it is told of users, else as a setting says."""
        self._started_with = options
        self._service = service
        self._house = house
        self._storage = storage
        self._observer = observer
        self._logger = logger

    def apply(self, settings: ApplySettings) -> None:
        """Go by these from now on."""
        own: dict[str, Any] = {
            each.name: settings.values[each.name] for each in fields(ServerOptions) if each.name in settings.values
        }
        options = self.options = replace(self._started_with, **own)
        self.limits = replace_struct(settings.limits, default=settings.limits.default.over(options.limit_table.default))
        self._service.configure(service_limits(options))
        self._house.configure(options)
        self._storage.config.segment_bytes = options.log_segment_bytes
        self._logger.info("settings_changed", **settings.values)
        set_level(options.log_level)
        self._observer.with_steps = options.log_level == "debug"
        for name, reason in settings.left_out.items():
            self._logger.warning("setting_left_out", setting=name, reason=reason)


def service_limits(options: ServerOptions) -> ServiceLimits:
    """What the service refuses calls by."""
    return ServiceLimits(
        client_calls_max=options.client_calls_max,
        producer_ids_per_hour=options.producer_ids_per_hour,
        connection_answer_bytes_max=options.connection_answer_bytes_max,
        answer_bytes_max=options.answer_bytes_max,
    )
