"""The memory of a cluster's replicas, as far as a host can limit it while they run.

Owns what limits each of them now, by whom, and how far a limit is lowered where the kernel cannot take all that is
asked for. A limit is that of one process: whoever starts again has the usual one.

Source: Linux, ``Documentation/admin-guide/cgroup-v1/memory.rst``: a limit below what cannot be reclaimed is refused;
``cgroup-v2.rst``: there it is set, and the kernel kills.
"""

from __future__ import annotations

from collections import defaultdict

from nemesis.cluster.host import Host, LimitsMemory
from nemesis.errors import NodeFailedError

LEAST_BYTES = 6 << 20
"""No engine takes less."""
HIGHER_PERCENTS = (100, 115, 140, 200)
"""What is tried one after the other where less is refused, and then what is between the last two."""
KILLED_BY_MEMORY = "killed-by-memory"
"""What is told of a replica that the kernel killed because of a limit of ours."""


class ReplicaMemory:
    """The ``SystemMemory`` of replicas on a ``host``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._limits: dict[int, dict[int, int]] = defaultdict(dict)
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}
        """By node and key: the limit that was asked for, and what was used then, in bytes."""

    async def squeeze(self, node: int, key: int, percent: int) -> int | None:
        """Lower the limit of a replica that runs to that share, or as far as it goes; None if it does not run.

        The bytes that it may use now: where it has a lower limit already, that one stays. NodeFailedError if every
        limit was refused.
        """
        used_bytes = await self._limiting().memory_used(node)
        if used_bytes is None:
            self._limits[node].clear()
            return None
        self._asked[node, key] = (max(LEAST_BYTES, used_bytes * percent // 100), used_bytes)
        refused, refusal = 0, NodeFailedError(f"{percent} % is more than is ever tried")
        for share in (percent, *(higher for higher in HIGHER_PERCENTS if higher > percent)):
            try:
                if not await self._limit(node, key, used_bytes, share):
                    return None
            except NodeFailedError as error:
                refused, refusal = share, error
            else:
                await self._tighten(node, key, used_bytes, share, refused)
                return min(self._limits[node].values())
        raise refusal

    async def press(self, node: int, key: int) -> int | None:
        """Lower the limit by a hundredth of what was used, if that is not below what was asked for, nor refused.

        What a replica needs less of for a moment it cannot have again: a kernel that refuses limits kills so as well.
        """
        before, (wanted_bytes, used_bytes) = self._limits[node].get(key), self._asked[node, key]
        if before is None or before <= wanted_bytes:
            return None
        limit_bytes = max(wanted_bytes, before - used_bytes // 100)
        try:
            return limit_bytes if await self._set(node, key, limit_bytes) else None
        except NodeFailedError:
            return None

    async def _tighten(self, node: int, key: int, used_bytes: int, accepted: int, refused: int) -> None:
        """Go from what was accepted to the least that is: where nothing is left to take, the next wish kills."""
        while refused and accepted - refused > 1:
            share = (accepted + refused) // 2
            try:
                if not await self._limit(node, key, used_bytes, share):
                    return
            except NodeFailedError:
                refused = share
            else:
                accepted = share

    async def _limit(self, node: int, key: int, used_bytes: int, share: int) -> bool:
        return await self._set(node, key, max(LEAST_BYTES, used_bytes * share // 100))

    async def _set(self, node: int, key: int, limit_bytes: int) -> bool:
        others = [limit for other, limit in self._limits[node].items() if other != key]
        was_there = await self._limiting().limit_memory(node, min([limit_bytes, *others]))
        if was_there:
            self._limits[node][key] = limit_bytes
        return was_there

    async def release(self, node: int, key: int) -> None:
        """Give the replica the limit that is left without this one: the usual one, if there is no other."""
        if self._limits[node].pop(key, None) is not None:
            await self._limiting().limit_memory(node, min(self._limits[node].values(), default=None))

    def forget(self, node: int) -> None:
        """The replica starts again, and has the usual limit: nothing that its last process was given is in force."""
        self._limits[node].clear()

    async def killed(self, node: int) -> bool:
        """Whether the last process was killed because of a limit that it was given here."""
        host = self._host
        return isinstance(host, LimitsMemory) and await host.killed_by_limit(node)

    def _limiting(self) -> LimitsMemory:
        host = self._host
        if not isinstance(host, LimitsMemory):
            raise NodeFailedError("the nodes of this host have no limit of memory of their own")
        return host
