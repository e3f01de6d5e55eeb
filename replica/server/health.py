"""Alive and ready: two questions about a replica, each with a name of its own in gRPC's health service.

Owns what makes a replica ready, the names, and the log lines of a change. It is alive as long as its event loop runs:
who hears any answer has heard that, so that ``liveness`` always serves. It is ready while it holds the metadata that
the cluster has committed and, if it is a broker, its controller counts on it: clients that come to it then are served.
One that is alive and not ready must not be restarted for that: it may be waiting for the others.

The names are those by which Kubernetes' gRPC probes tell their questions apart. The services of the replica say what
``readiness`` says. Source: gRPC's health checking protocol, ``grpc.health.v1``; etcd's ``/livez`` and ``/readyz``.
"""

from __future__ import annotations

import asyncio

from grpc_health.v1 import health, health_pb2  # type: ignore[import-untyped]  # ships no types
from structlog.typing import FilteringBoundLogger

from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import Offset
from replica.rpc.codec import SERVICES
from replica.server.health_check import LIVENESS, READINESS
from replica.server.metrics import Metrics
from replica.server.view import ReplicaView

HEALTH_INTERVAL_S = 0.5
"""How often it looks whether the replica is ready."""
LEADERLESS_LOOKS_MAX = 20
"""How often in a row it may find nobody who leads the metadata log: in so long a broker that is cut off is fenced. An
election is no reason to send clients away, since leaders of partitions go on meanwhile."""


class Readiness:
    """Looks at one replica from time to time."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view
        self._committed: Offset | None = None
        """The high watermark of the metadata log at the last look: what is above it may be on its way."""
        self._leaderless_looks = 0

    def look(self) -> str | None:
        """Return why the replica is not ready, as a sentence without a subject; None if it is."""
        log, committed = self._view.logs[METADATA_LOG], self._committed
        self._leaderless_looks = self._leaderless_looks + 1 if log.leader_id is None else 0
        if log.high_watermark is not None:  # A new leader does not know it at first.
            self._committed = log.high_watermark
        if committed is None or self._leaderless_looks > LEADERLESS_LOOKS_MAX:
            return "knows of nobody who leads the metadata log"
        if self._view.metadata_offset < committed:
            return f"has applied the metadata log up to {self._view.metadata_offset}, and {committed} are committed"
        if not self._view.is_broker:
            return None
        registered = self.registration
        if registered is None:
            return "has not registered as a broker yet"
        if registered.in_controlled_shutdown:
            return "is let go by the controller"
        return "is fenced as a broker" if registered.fenced else None

    @property
    def registration(self) -> BrokerRegistration | None:
        """What the metadata says of this very incarnation of the broker; absent before it has come by."""
        found = self._view.image.brokers.get(self._view.replica_id)
        return found if found is not None and found.broker_epoch == self._view.broker_epoch else None

    @property
    def is_let_go(self) -> bool:
        """Whether the controller lets this broker go: while it runs, somebody has spoken in its name."""
        registered = self.registration
        return registered is not None and registered.in_controlled_shutdown


class Health:
    """What one replica answers to who asks for its health."""

    def __init__(self, *, view: ReplicaView, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self.servicer = health.aio.HealthServicer()
        self._readiness = Readiness(view)
        self._metrics = metrics
        self._logger = logger
        self._obstacle: str | None = "is starting"
        self._was_let_go = False

    async def begin(self) -> None:
        """Be alive, and not ready yet."""
        await self._set(LIVENESS, "", is_serving=True)
        await self._set(READINESS, *SERVICES, is_serving=False)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(HEALTH_INTERVAL_S)

    async def look(self) -> None:
        """Tell what has changed since the last look."""
        obstacle, before = self._readiness.look(), self._obstacle
        if self._readiness.is_let_go != self._was_let_go:
            self._was_let_go = not self._was_let_go
            self._logger.warning("let_go_unasked" if self._was_let_go else "let_in_again")
        self._obstacle = obstacle
        if (obstacle is None) != (before is None):
            await self._set_ready(is_ready=obstacle is None)
            if obstacle is None:
                self._logger.info("ready")
            else:
                self._logger.warning("not_ready", reason=obstacle)

    async def end(self) -> None:
        """Be alive, and not ready any more: the replica is about to stop."""
        await self._set_ready(is_ready=False)

    async def _set_ready(self, *, is_ready: bool) -> None:
        self._metrics.is_ready = is_ready
        await self._set(READINESS, *SERVICES, is_serving=is_ready)

    async def _set(self, *names: str, is_serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        for name in names:
            await self.servicer.set(name, status.SERVING if is_serving else status.NOT_SERVING)
