"""etcd: Debian's server with its default settings, by ``aetcd``, a gRPC client for asyncio.

A client talks to the leader, which is the shortest way. Where the leader is killed, each try asks the next member.
"""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.peers.foreign import ForeignPeer
from benchmarks.peers.system import VALUE, Ability, Answered, Durability, closed_loop, key_of
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.systems.catalogue import missing
from nemesis.systems.etcd.system import CLIENT_PORT, KEYS, EtcdCluster
from nemesis.systems.loopback import LoopbackHost
from nemesis.systems.programs import full_path

TRY_S = 5
RECONNECT = MappingProxyType(
    {
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.min_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 500,
    }
)
"""As our own client has it: by default a member that was started again is not dialled for seconds."""


class Etcd(ForeignPeer):
    """Three members. A single durable write is a put: it has no logs of records."""

    name = "etcd"
    abilities = frozenset({Ability.WRITES, Ability.VALUES, Ability.VALUES_FAIL_OVER})
    durabilities = (Durability.FSYNC,)
    settings = MappingProxyType({"all": "the client talks to the leader, and dials again after 0.1 to 0.5 s"})

    def __init__(self, folder: Path, durability: Durability) -> None:
        super().__init__(folder, durability)
        self._clients: list[Any] = []
        self._turns = cycle(range(len(self.nodes.nodes)))

    @classmethod
    def missing(cls) -> str | None:
        """The server, or the client."""
        return missing("etcd") or (None if find_spec("aetcd") else "aetcd is not installed: pip install '.[peers]'")

    @classmethod
    def version(cls) -> str:
        """As the program tells it."""
        told = subprocess.run([full_path("etcd"), "--version"], capture_output=True, text=True, check=True).stdout
        return f"{told.splitlines()[0].rpartition(' ')[2]}, aetcd {version('aetcd')}"

    def cluster(self, host: LoopbackHost) -> EtcdCluster:
        """As under test, where its timing is its own default, too."""
        return EtcdCluster(host, ReplicaOptions())

    async def start(self) -> None:
        """Start the members and connect to each."""
        import aetcd

        await super().start()
        await self.wait_whole(KEYS)
        for node in self.nodes.nodes:
            host, _, port = self.nodes.advertised(node, CLIENT_PORT).rpartition(":")
            client = aetcd.Client(host=host, port=int(port), timeout=TRY_S, options=dict(RECONNECT))
            await client.connect()
            self._clients.append(client)

    async def close_clients(self) -> None:
        """One for each member."""
        for client in self._clients:
            await client.close()

    async def write(self, topic: str, in_flight: int, seconds: float) -> Answered:
        """A put."""
        del topic
        return await self.put(in_flight, seconds)

    async def create(self, topic: str) -> None:
        """There is nothing to make: keys are there."""

    async def put(self, in_flight: int, seconds: float) -> Answered:
        """A coroutine for each in flight, all on one connection."""
        client = await self._client_of_leader()
        return await closed_loop(lambda number: client.put(key_of(number), VALUE), in_flight, seconds)

    async def get(self, in_flight: int, seconds: float) -> Answered:
        """Linearizable, which is the default."""
        client = await self._client_of_leader()
        return await closed_loop(lambda number: client.get(key_of(number)), in_flight, seconds)

    async def attempt(self, topic: str | None) -> None:
        """One put, to the next member each time."""
        del topic
        await self._clients[next(self._turns)].put(key_of(0), VALUE)

    async def kill_leader(self, topic: str | None) -> float:
        """Of the only log there is."""
        del topic
        return await self.kill(await self.wait_whole(KEYS))

    async def recover(self, topic: str | None) -> None:
        """Until all members have applied the same."""
        del topic
        await self.start_killed()
        await self.wait_whole(KEYS)

    async def _client_of_leader(self) -> Any:
        return self._clients[await self.wait_whole(KEYS) - 1]
