"""The addresses of clusters in tests: held for as long as the cluster is there, so that no other test is given them."""

from __future__ import annotations

import socket

import grpc.aio
import pytest

from replica.rpc.channels import server_options
from tests.server.local_cluster import held_address


async def test_a_replica_listens_on_a_held_address_and_again_after_it_has_stopped() -> None:
    """The holder stands in nobody's way who wants this very address, as a replica that is started again does."""
    with held_address() as address:
        for _ in range(2):
            server = grpc.aio.server(options=server_options())
            assert server.add_insecure_port(address) == int(address.rpartition(":")[2])
            await server.start()
            await server.stop(None)


def test_a_held_address_is_nobody_elses() -> None:
    """Who does not say that it may be shared does not get it, and neither does who asks for any free port."""
    with held_address() as address, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", int(address.rpartition(":")[2])))
