"""Whom a client dials: brokers by their addresses, and before any is known the addresses that it was given.

Owns what an endpoint is and one transport per address. A broker that comes back under another address is another
endpoint. Knows nothing of who leads what. Source: Kafka's ``NetworkClient``; negative ids for bootstrap addresses are
``Cluster.bootstrap``'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from replica.core.messages import Request, Response
from replica.ids import ReplicaId
from replica.rpc.addresses import InvalidAddressError, check_address
from replica.rpc.channels import PING_MS
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import GrpcTransport, TransportError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker and where to dial it. ``broker_id`` is negative for an address of which no more is known."""

    broker_id: ReplicaId
    address: str

    def __str__(self) -> str:
        return self.address if self.broker_id < 0 else f"broker {self.broker_id} at {self.address}"


class Closing(ABC):
    """What holds connections, and gives them back: by ``close``, or at the end of an ``async with``."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Give back what is held."""


class Connections(Protocol):
    """The way to the brokers."""

    async def call(self, endpoint: Endpoint, request: Request, timeout_ms: int) -> Response:
        """Send one request; raises NotAppliedError if it certainly did nothing, TransportError if that is unknown."""

    async def close(self) -> None:
        """Give the connections back."""


_WHOEVER = ReplicaId(0)
"""Who is dialled at an address: its id is known later, or never."""


class GrpcConnections:
    """One channel per address; one that is silent for ``ping_ms`` milliseconds is pinged."""

    def __init__(self, *, ping_ms: int = PING_MS, tls: TlsFiles | None = None) -> None:
        self._ping_ms = ping_ms
        self._tls = tls
        self._transports: dict[str, GrpcTransport] = {}

    async def call(self, endpoint: Endpoint, request: Request, timeout_ms: int) -> Response:
        """Send one request, after dialling if need be."""
        transport = self._transports.get(endpoint.address)
        if transport is None:
            transport = GrpcTransport(lambda _: endpoint.address, ping_ms=self._ping_ms, tls=self._tls)
            self._transports[endpoint.address] = transport
        try:
            response: Response = await transport.call(_WHOEVER, request, timeout_ms)
        except TransportError as error:
            raise type(error)(_told_of(endpoint, str(error))) from error
        return response

    async def close(self) -> None:
        """Close every channel; calls in flight fail."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.close()


def _told_of(endpoint: Endpoint, message: str) -> str:
    """Name the endpoint where a message names whoever is there."""
    known_by = f"replica {_WHOEVER}"
    return message.replace(f"{known_by} at {endpoint.address}", str(endpoint)).replace(known_by, str(endpoint))


def bootstrap_endpoints(addresses: str | Iterable[str]) -> tuple[Endpoint, ...]:
    """Read ``HOST:PORT`` entries, one string or several, with commas between entries if you like.

    An entry may begin with ``ID=``, as other commands want it; brokers say their ids themselves, so it is passed over.
    Raises InvalidAddressError.
    """
    entries = [addresses] if isinstance(addresses, str) else addresses
    names = [name.strip().rpartition("=")[2] for entry in entries for name in entry.split(",") if name.strip()]
    if not names:
        raise InvalidAddressError("name at least one broker as HOST:PORT (for example 127.0.0.1:9092)")
    for name in names:
        check_address(name)
    return tuple(Endpoint(ReplicaId(-number), name) for number, name in enumerate(dict.fromkeys(names), start=1))
