"""Virtual time and connections for clients under test: to a test's script, or to a whole simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from replica.client.connections import Endpoint
from replica.core.messages import Request, Response
from replica.ids import ReplicaId
from replica.rpc.transport import NotAppliedError, TransportError
from tests.replication.bench import Cluster

Answer = Response | TransportError
Script = Callable[[Endpoint, Request], Answer]


class VirtualClock:
    """Time that passes only while somebody waits for it, a millisecond at a time."""

    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        """The virtual time."""
        return self.time_ms

    def since_1970_ms(self) -> int:
        """The virtual time, as if it had begun in 2001."""
        return 1_000_000_000_000 + self.now_ms()

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass."""
        self.time_ms += milliseconds

    async def sleep(self, milliseconds: int) -> None:
        """Let time pass, and others run meanwhile."""
        await self.wait(asyncio.Event(), milliseconds)

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> bool:
        """Wait, with others, for the event or the time."""
        if timeout_ms is None:
            return await event.wait()
        end_ms = self.now_ms() + timeout_ms
        await asyncio.sleep(0)
        while not event.is_set() and self.now_ms() < end_ms:
            self.pass_ms(1)
            await asyncio.sleep(0)
        return event.is_set()


def asked(calls: Iterable[tuple[Endpoint, Request]], kind: type[Request]) -> list[int]:
    """Which brokers were asked by requests of one kind, in order."""
    return [endpoint.broker_id for endpoint, request in calls if isinstance(request, kind)]


class ScriptedConnections:
    """Answers each call by ``script``; a TransportError that it returns is raised."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[tuple[Endpoint, Request]] = []
        self.is_closed = False

    def asked(self, kind: type[Request]) -> list[int]:
        """Which brokers were asked by requests of this kind, in order."""
        return asked(self.calls, kind)

    async def call(self, endpoint: Endpoint, request: Request, timeout_ms: int) -> Response:
        """Note the call and answer it."""
        assert timeout_ms > 0, timeout_ms
        self.calls.append((endpoint, request))
        await asyncio.sleep(0)
        answer = self.script(endpoint, request)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True


class ClusterClock(VirtualClock):
    """The time of a simulated cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    def now_ms(self) -> int:
        """The cluster's time."""
        return self._cluster.world.now_ms

    def pass_ms(self, milliseconds: int) -> None:
        """Let the cluster run."""
        self._cluster.pass_ms(milliseconds)


class ClusterConnections:
    """The way to a simulated cluster. ``lose`` tells which answers get lost, by broker and request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.clock = ClusterClock(cluster)
        self.calls: list[tuple[Endpoint, Request]] = []
        self.lose: Callable[[Endpoint, Request], bool] = lambda _, __: False

    def asked(self, kind: type[Request]) -> list[int]:
        """Which brokers were asked by requests of this kind, in order."""
        return asked(self.calls, kind)

    async def call(self, endpoint: Endpoint, request: Request, timeout_ms: int) -> Response:
        """Send the request into the simulated network and wait for the answer on virtual time."""
        broker_id = ReplicaId(int(endpoint.address.removeprefix("replica-").partition(":")[0]))
        self.calls.append((endpoint, request))
        answered = asyncio.Event()
        answers: list[Response | None] = []

        def on_reply(answer: Response | None) -> None:
            answers.append(answer)
            answered.set()

        self._cluster.world.ask(broker_id, request, on_reply)
        if not await self.clock.wait(answered, timeout_ms):
            raise TransportError(f"replica {broker_id}: DEADLINE_EXCEEDED")
        if self.lose(endpoint, request):
            raise TransportError(f"replica {broker_id}: UNAVAILABLE: the answer was lost")
        (answer,) = answers
        if answer is None:
            raise NotAppliedError(f"replica {broker_id} at {endpoint.address} refuses connections")
        return answer

    async def close(self) -> None:
        """Nothing is open."""


def bootstrap(cluster: Cluster) -> list[str]:
    """The addresses of all machines of a simulated cluster."""
    return [f"replica-{broker_id}:9092" for broker_id in cluster.world.nodes]
