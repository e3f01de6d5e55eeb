"""A cluster of etcd: one member for each node, as Debian's package ``etcd-server`` brings it.

Owns the members' options and the look at who leads. A member is known by one address to clients and peers, and the
harness looks at it through another one where the host has one. Timing is etcd's own default: heartbeats each 100 ms, an
election after a second without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import aiohttp

from nemesis.cluster.host import Host
from nemesis.cluster.key_value_client import Reads
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.systems.etcd import OFFER
from nemesis.systems.etcd.client import EtcdStore, JsonObject, LostError, RefusedError, call, open_session
from nemesis.systems.foreign import ForeignSystem
from nemesis.systems.programs import full_path

KEYS = "etcd-0"
"""What its one log is called: that of all keys."""
CLIENT_PORT, PEER_PORT = 2379, 2380
LOOK_S_MAX = 0.4


class EtcdCluster(ForeignSystem):
    """A ``System`` of etcd members."""

    offer = OFFER

    def __init__(self, host: Host, options: ReplicaOptions) -> None:
        super().__init__(host, options)
        self._stale_reads = options.store is not None and options.store.reads is Reads.STALE
        self._program = full_path("etcd")
        self._looking: aiohttp.ClientSession | None = None
        self._clients = 0

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """The log of all keys."""
        return (KEYS,)

    async def prepare(self, node: int) -> None:
        """Nothing: a member makes its own directory."""

    def command(self, node: int) -> Sequence[str]:
        """One member. That the cluster is new matters to a member without a directory only."""
        peers = ",".join(f"n{peer}=http://{self.advertised(peer, PEER_PORT)}" for peer in self.nodes)
        options = {
            "name": f"n{node}",
            "data-dir": str(self.host.inside(node) / "data"),
            "listen-client-urls": f"http://{self.host.listen_address(node, CLIENT_PORT)}",
            "advertise-client-urls": f"http://{self.advertised(node, CLIENT_PORT)}",
            "listen-peer-urls": f"http://{self.host.listen_address(node, PEER_PORT)}",
            "initial-advertise-peer-urls": f"http://{self.advertised(node, PEER_PORT)}",
            "initial-cluster": peers,
            "initial-cluster-state": "new",
            "logger": "zap",
            "log-outputs": "stderr",
        }
        return (self._program, *(f"--{name}={value}" for name, value in options.items()))

    def store(self) -> EtcdStore:
        """A client that talks to the next member first: so all of them are asked."""
        self._clients += 1
        first = self._clients % len(self.nodes)
        order = (*self.nodes[first:], *self.nodes[:first])
        endpoints = [self.advertised(node, CLIENT_PORT) for node in order]
        return EtcdStore(endpoints, stale_reads=self._stale_reads)

    async def answers(self, node: int) -> bool:
        """Whether a member tells its status."""
        return await self._status(node) is not None

    async def look(self) -> ClusterState | None:
        """Who leads by the word of those that know the highest term; in sync is who has applied what they have."""
        nodes = self.asked
        told = await asyncio.gather(*(self._status(node) for node in nodes))
        statuses = {node: status for node, status in zip(nodes, told, strict=True) if status is not None}
        if not statuses:
            return None
        term = max(_number(status, "raftTerm") for status in statuses.values())
        own = {_member(status): node for node, status in statuses.items()}
        leaders = {
            own.get(str(status.get("leader"))) for status in statuses.values() if _number(status, "raftTerm") == term
        }
        leader = next((node for node in leaders if node is not None), None)
        index = max(_number(status, "raftIndex") for status in statuses.values())
        in_sync = [node for node, status in statuses.items() if _number(status, "raftAppliedIndex") == index]
        partition = PartitionState(replicas=self.nodes, isr=tuple(in_sync), leader=leader, leader_epoch=term)
        return ClusterState(controller=leader, active=frozenset(statuses), partitions={KEYS: partition})

    async def close_looking(self) -> None:
        """Close the connections of the looks."""
        if self._looking is not None:
            await self._looking.close()

    async def _status(self, node: int) -> JsonObject | None:
        if self._looking is None:
            self._looking = open_session()
        with suppress(RefusedError, LostError, TimeoutError):
            async with asyncio.timeout(LOOK_S_MAX):
                return await call(self._looking, self.controlled(node, CLIENT_PORT), "maintenance/status", {})
        return None


def _number(status: JsonObject, name: str) -> int:
    """A 64-bit number of a status; the gateway leaves out what is 0."""
    return int(status.get(name, 0))


def _member(status: JsonObject) -> str:
    return str(status["header"]["member_id"])
