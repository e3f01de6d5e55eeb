"""Redis servers with replicas, and a sentinel beside each: as Debian's packages bring them.

Owns their configuration files and the look at who is the master. A node is a server and the sentinel that runs on the
same machine, both in one process group: what befalls a node befalls both. Replication is asynchronous, as is Redis's
own default: what the master acknowledged and had not yet sent is lost when another one is made master.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from nemesis.cluster.host import Host
from nemesis.cluster.processes import LAUNCHER
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.systems.foreign import ForeignSystem
from nemesis.systems.programs import full_path
from nemesis.systems.redis import OFFER
from nemesis.systems.redis.client import MASTER, PROTOCOL, Address, RedisStore

KEYS = "redis-0"
"""What its one log is called: the stream of changes that replicas follow."""
SERVER_PORT, SENTINEL_PORT = 6379, 26379
FIRST_MASTER = 1
DOWN_AFTER_MS = 1000
"""A tenth of a minute's run: so long a sentinel waits for a silent server. Redis's own default is 30 s."""
FAILOVER_TIMEOUT_MS = 3000
FAILING_OVER = "failover_in_progress"
LOOK_S_MAX = 0.4
BOTH = 'cd "$1" && { "$4" -I -S "$5" $$ "$3" sentinel.conf & exec "$2" redis.conf; }'
"""The sentinel is tied to the server, which becomes the node's process: it ends however the other one ends."""


class RedisCluster(ForeignSystem):
    """A ``System`` of Redis servers and sentinels."""

    offer = OFFER

    def __init__(self, host: Host, options: ReplicaOptions) -> None:
        super().__init__(host, options)
        self._shell, self._server, self._sentinel = map(full_path, ("sh", "redis-server", "redis-sentinel"))
        self._looking: dict[Address, Redis] = {}
        self._clients = 0

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """The stream of all changes."""
        return (KEYS,)

    async def prepare(self, node: int) -> None:
        """Write both configuration files, once: server and sentinel write into them whom they have come to know."""
        folder = self.host.folder(node)
        (folder / "redis.conf").write_text("\n".join(self._server_lines(node)) + "\n", encoding="utf-8")
        (folder / "sentinel.conf").write_text("\n".join(self._sentinel_lines(node)) + "\n", encoding="utf-8")

    def _server_lines(self, node: int) -> Sequence[str]:
        host, port = self._known(node, SERVER_PORT)
        master_host, master_port = self._known(FIRST_MASTER, SERVER_PORT)
        return (
            f"bind {self._bound(node, SERVER_PORT)}",
            f"port {port}",
            "protected-mode no",
            "appendonly yes",
            f"replica-announce-ip {host}",
            f"replica-announce-port {port}",
            "repl-diskless-sync-delay 0",
            *([] if node == FIRST_MASTER else [f"replicaof {master_host} {master_port}"]),
        )

    def _sentinel_lines(self, node: int) -> Sequence[str]:
        host, port = self._known(node, SENTINEL_PORT)
        master_host, master_port = self._known(FIRST_MASTER, SERVER_PORT)
        quorum = len(self.nodes) // 2 + 1
        return (
            f"bind {self._bound(node, SENTINEL_PORT)}",
            f"port {port}",
            "protected-mode no",
            f"sentinel announce-ip {host}",
            f"sentinel monitor {MASTER} {master_host} {master_port} {quorum}",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {MASTER} {FAILOVER_TIMEOUT_MS}",
            f"sentinel myid {_sentinel_id(node)}",
            *self._lines_of_others(node),
        )

    def _lines_of_others(self, node: int) -> Sequence[str]:
        """What a sentinel would write when it has come to know the others, which takes some ten seconds."""
        replicas = [self._known(other, SERVER_PORT) for other in self.nodes if other != FIRST_MASTER]
        others = [other for other in self.nodes if other != node]
        sentinels = [(*self._known(other, SENTINEL_PORT), _sentinel_id(other)) for other in others]
        return [
            *(f"sentinel known-replica {MASTER} {host} {port}" for host, port in replicas),
            *(f"sentinel known-sentinel {MASTER} {host} {port} {name}" for host, port, name in sentinels),
        ]

    def command(self, node: int) -> Sequence[str]:
        """Both, in the node's folder."""
        tied = (self.host.python, str(LAUNCHER))
        return (self._shell, "-c", BOTH, "node", str(self.host.inside(node)), self._server, self._sentinel, *tied)

    def store(self) -> RedisStore:
        """A client that asks the next sentinel first: so all of them are asked."""
        self._clients += 1
        first = self._clients % len(self.nodes)
        order = (*self.nodes[first:], *self.nodes[:first])
        return RedisStore([self._known(node, SENTINEL_PORT) for node in order])

    # --- looking ------------------------------------------------------------------------------------------------------

    async def answers(self, node: int) -> bool:
        return None not in (await self._info(node), await self._watched(node))

    async def look(self) -> ClusterState | None:
        """The master of whom the sentinel with the newest configuration tells; in sync is who follows it.

        The number of that configuration is the epoch. A replica follows when its link to the master is up.
        """
        nodes = self.asked
        told = await asyncio.gather(*(self._watched(node) for node in nodes))
        watched = max((state for state in told if state is not None), key=_epoch, default=None)
        if watched is None:
            return None
        master = next((node for node in self.nodes if self._known(node, SERVER_PORT)[0] == watched["ip"]), None)
        infos = dict(zip(nodes, await asyncio.gather(*(self._info(node) for node in nodes)), strict=True))
        in_sync = tuple(node for node, info in infos.items() if info is not None and _follows(info, watched["ip"]))
        is_led = master is not None and (info := infos.get(master)) is not None and info["role"] == "master"
        # While they fail over, the new number stands beside the old master.
        leader = master if is_led and FAILING_OVER not in watched["flags"] else None
        members = tuple({*in_sync, *([] if leader is None else [leader])})
        partition = PartitionState(replicas=self.nodes, isr=members, leader=leader, leader_epoch=_epoch(watched))
        active = frozenset(node for node, info in infos.items() if info is not None)
        return ClusterState(controller=leader, active=active, partitions={KEYS: partition})

    async def close_looking(self) -> None:
        """Close the connections of the looks."""
        for connection in self._looking.values():
            await connection.aclose()

    async def _info(self, node: int) -> Mapping[str, Any] | None:
        """What a server says of its replication."""
        told: Mapping[str, Any] | None = await self._asked(self.controlled(node, SERVER_PORT), "INFO", "replication")
        return told

    async def _watched(self, node: int) -> Mapping[str, Any] | None:
        """What a sentinel says of the master."""
        told: Mapping[str, Any] | None = await self._asked(
            self.controlled(node, SENTINEL_PORT), "SENTINEL MASTER", MASTER
        )
        return told

    async def _asked(self, address: str, *command: str) -> Any:
        where = _split(address)
        if where not in self._looking:
            host, port = where
            once = Retry(NoBackoff(), 0)
            self._looking[where] = Redis(
                host=host, port=port, retry=once, socket_connect_timeout=LOOK_S_MAX, protocol=PROTOCOL
            )
        for _ in range(2):  # A server that changes its role closes the connections that it has.
            with suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(LOOK_S_MAX):
                    return await self._looking[where].execute_command(*command)
        return None

    def _known(self, node: int, port: int) -> Address:
        return _split(self.advertised(node, port))

    def _bound(self, node: int, port: int) -> str:
        return _split(self.host.listen_address(node, port))[0]


def _split(address: str) -> Address:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _sentinel_id(node: int) -> str:
    """The 40 hexadecimal digits by which sentinels know each other."""
    return f"{node:040x}"


def _epoch(watched: Mapping[str, Any]) -> int:
    return int(watched["config-epoch"])


def _follows(info: Mapping[str, Any], master: str) -> bool:
    return (info["role"], info.get("master_host"), info.get("master_link_status")) == ("slave", master, "up")
