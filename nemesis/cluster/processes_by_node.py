"""The last process of each node, whatever a process is to the host.

Owns what is asked of a node and answered by its process: stop, kill, pause, resume, and how it ended.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Process(Protocol):
    """One process of a node, from its start to its end."""

    is_paused: bool

    @property
    def exit_code(self) -> int | None:
        """How it ended; absent while it is there."""

    @property
    def died(self) -> bool:
        """Whether it ended by itself."""

    @property
    def killed_ns(self) -> int | None:
        """When it was found ended by a SIGKILL of somebody else."""

    async def pause(self) -> bool:
        """Let it stand still; whether it ran."""

    async def resume(self) -> bool:
        """Let it go on; whether it was paused."""

    async def kill(self) -> bool:
        """SIGKILL, paused or not; whether it was there."""

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL if it is still there after that."""


ProcessT = TypeVar("ProcessT", bound=Process)


class ProcessesByNode(Generic[ProcessT]):
    """The part of a ``Host`` that passes on to processes what is done to nodes. Who starts them notes them here."""

    def __init__(self) -> None:
        self._processes: dict[int, ProcessT] = {}

    async def stop(self, node: int, grace_s: float) -> bool:
        """SIGTERM, and SIGKILL if it is still there after that; whether it was there."""
        was_there = self.is_running(node)
        if node in self._processes:
            await self._processes[node].stop(grace_s)
        return was_there

    async def kill(self, node: int) -> bool:
        """SIGKILL, paused or not; whether it was there."""
        return self.is_running(node) and await self._processes[node].kill()

    async def pause(self, node: int) -> bool:
        """Let it stand still; whether it ran."""
        return node in self._processes and await self._processes[node].pause()

    async def resume(self, node: int) -> bool:
        """Let it go on; whether it was paused."""
        return node in self._processes and await self._processes[node].resume()

    def is_running(self, node: int) -> bool:
        """Whether the process is there, paused or not."""
        return node in self._processes and self._processes[node].exit_code is None

    def is_paused(self, node: int) -> bool:
        """Whether the process is there and paused."""
        return self.is_running(node) and self._processes[node].is_paused

    def exit_code(self, node: int) -> int | None:
        """How the node's last process ended; absent while it is there, or if there never was one."""
        return self._processes[node].exit_code if node in self._processes else None

    def died(self, node: int) -> bool:
        """Whether the node's last process ended by itself."""
        return node in self._processes and self._processes[node].died

    def killed_ns(self, node: int) -> int | None:
        """When the node's last process was found ended by a SIGKILL of somebody else; absent if it was not."""
        return self._processes[node].killed_ns if node in self._processes else None
