"""What a client dials: one connection to each address, however often and by whatever id."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.client import connections
from replica.client.connections import Endpoint, GrpcConnections
from replica.core.messages import DescribeClusterRequest, Request, Response
from replica.ids import ReplicaId
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import NotAppliedError

ADDRESS = "127.0.0.1:1"
BOOTSTRAP, KNOWN, ELSEWHERE = (
    Endpoint(ReplicaId(-1), ADDRESS),
    Endpoint(ReplicaId(2), ADDRESS),
    Endpoint(ReplicaId(2), "127.0.0.1:2"),
)


class Refusing:
    """A transport whose other side refuses connections; notes where each was made for."""

    dialled: list[tuple[str, int]]

    def __init__(self, address_of: Callable[[ReplicaId], str], *, ping_ms: int, tls: TlsFiles | None) -> None:
        assert tls is None
        self._address = address_of(ReplicaId(9))
        self.dialled.append((self._address, ping_ms))

    async def call(self, replica_id: ReplicaId, _request: Request, _timeout_ms: int) -> Response:
        """Refuse as the real one does."""
        raise NotAppliedError(f"replica {replica_id} at {self._address} refuses connections")


async def test_a_broker_has_one_connection_by_whatever_id_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bootstrap address is not dialled again as that of a broker; another address is. Errors name either."""
    Refusing.dialled = []
    monkeypatch.setattr(connections, "GrpcTransport", Refusing)
    clients = GrpcConnections(ping_ms=700)
    told = []
    for endpoint in (BOOTSTRAP, KNOWN, ELSEWHERE, BOOTSTRAP):
        with pytest.raises(NotAppliedError) as refused:
            await clients.call(endpoint, DescribeClusterRequest(), 100)
        told.append(str(refused.value))
    assert Refusing.dialled == [(ADDRESS, 700), (ELSEWHERE.address, 700)]
    assert told[:3] == [
        f"{ADDRESS} refuses connections",
        f"broker 2 at {ADDRESS} refuses connections",
        f"broker 2 at {ELSEWHERE.address} refuses connections",
    ]
