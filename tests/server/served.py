"""The service of a replica on loopback, with whatever a test puts in the place of its core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio

from replica.rpc.channels import CONNECTIONS_MAX, server_options
from replica.rpc.transport import GrpcTransport
from replica.server.service import ReplicaService


@asynccontextmanager
async def served(
    service: ReplicaService,
    *,
    credentials: grpc.ServerCredentials | None = None,
    connections_max: int = CONNECTIONS_MAX,
) -> AsyncIterator[str]:
    """Serve on loopback; yields the address."""
    server = grpc.aio.server(options=server_options(connections_max=connections_max))
    server.add_generic_rpc_handlers(service.handlers())
    free = "127.0.0.1:0"
    port = server.add_secure_port(free, credentials) if credentials else server.add_insecure_port(free)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def called(service: ReplicaService) -> AsyncIterator[tuple[GrpcTransport, str]]:
    """Serve on loopback; yields a transport whose replica 1 is that server, and its address."""
    async with served(service) as address:
        transport = GrpcTransport(lambda _: address)
        try:
            yield transport, address
        finally:
            await transport.close()
