"""The voters of a fake system: sets of nodes, and changes of them that end as they are told to."""

from __future__ import annotations

from collections.abc import Callable

from nemesis.errors import NotDoneError


def done(what: str, log: str, node: int) -> None:
    """Every change is made."""


class FakeVoters:
    """The voters of ``logs``; ``outcome`` is called before each change and may raise, ``late`` after it is made."""

    def __init__(self, logs: tuple[str, ...] = (), nodes: tuple[int, ...] = (1, 2, 3)) -> None:
        self.votes = {log: set(nodes) for log in logs}
        self.gone: set[tuple[str, int]] = set()
        """(log, node) of voters whose disk is another one now."""
        self.leaderless: set[str] = set()
        self.outcome: Callable[[str, str, int], None] = done
        self.late: Callable[[str, str, int], None] = done
        self.calls: list[tuple[str, str, int]] = []

    @property
    def logs(self) -> tuple[str, ...]:
        return tuple(self.votes)

    async def of(self, log: str) -> tuple[int, ...] | None:
        gone = {node for name, node in self.gone if name == log}
        return None if log in self.leaderless else tuple(sorted(self.votes[log] - gone))

    def replaced(self, node: int) -> None:
        self.gone |= {(log, node) for log, votes in self.votes.items() if node in votes}

    async def add(self, log: str, node: int) -> None:
        self._check("add", log, node)
        if node in self.votes[log]:
            raise NotDoneError("duplicate voter")
        self.votes[log].add(node)
        self.late("add", log, node)

    async def remove(self, log: str, node: int) -> None:
        self._check("remove", log, node)
        if node not in self.votes[log]:
            raise NotDoneError("no such voter")
        self.votes[log].discard(node)
        self.gone.discard((log, node))
        self.late("remove", log, node)

    async def transfer(self, log: str, node: int) -> None:
        self._check("transfer", log, node)

    def _check(self, what: str, log: str, node: int) -> None:
        self.calls.append((what, log, node))
        self.outcome(what, log, node)
