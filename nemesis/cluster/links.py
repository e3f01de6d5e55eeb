"""All directed links of a cluster: which of them pass bytes and how, and which faults are to blame.

Owns one way for each direction and one proxy for each ordered pair that dials. Faults overlap, so every fault has a
key; a link is as it should be when no key has to do with it any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from nemesis.cluster.holds import hold_of
from nemesis.cluster.link_proxy import LOOPBACK, Copies, LinkProxy, LosesReplies
from nemesis.cluster.ways import Way
from nemesis.faults.impairments import Duplicate, NetworkFault, ReplyLost, Reset
from nemesis.faults.links import CLIENTS, CONTROL, Link, LinkMode


class Links:
    """The links among ``nodes``, from clients, and from the harness. Start and close within one event loop."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._nodes = tuple(nodes)
        ends = (*self._nodes, CLIENTS, CONTROL)
        pairs = [(a, b) for a in ends for b in ends if a != b and (a in self._nodes or b in self._nodes)]
        self._ways = {pair: Way() for pair in pairs}
        self._proxies = {
            (source, destination): LinkProxy(
                forward=self._ways[source, destination], backward=self._ways[destination, source]
            )
            for source, destination in pairs
            if destination in self._nodes
        }
        self._ports: dict[Link, int] = {}
        self._cuts: dict[str, tuple[LinkMode, frozenset[Link]]] = {}
        self._tallies: dict[str, Counter[str]] = {}
        self._resetting: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Take one port for each pair that dials."""
        for link, proxy in self._proxies.items():
            self._ports[link] = await proxy.start()

    async def close(self) -> None:
        """Give all ports back and abort all connections."""
        await self.heal_all()
        for proxy in self._proxies.values():
            await proxy.close()

    def addresses(self, source: int) -> dict[int, str]:
        """Where ``source`` dials each node."""
        return {node: f"{LOOPBACK}:{self._ports[source, node]}" for node in self._nodes if node != source}

    def set_upstream(self, node: int, port: int | None) -> None:
        """Tell every link to ``node`` where it listens now; absent = it is down."""
        for (_, destination), proxy in self._proxies.items():
            if destination == node:
                proxy.upstream = port

    async def cut(self, key: str, links: Iterable[Link], mode: LinkMode) -> None:
        """Break these links until ``heal(key)``. Raises ``ValueError`` for a link that does not exist."""
        self._cuts[key] = (mode, self._known(links))
        self._apply()

    async def impair(self, key: str, links: Iterable[Link], fault: NetworkFault, draw: int) -> None:
        """Let these links suffer from a fault until ``heal(key)``; ``draw`` seeds its dice.

        What strikes whole connections strikes those that the source of a link dials to its destination. Raises
        ``ValueError`` for a link that does not exist.
        """
        tally = self._tallies[key] = Counter()
        known = sorted(self._known(links))
        match fault:
            case Reset():
                self._resetting[key] = asyncio.create_task(self._reset_again(known, fault, tally))
            case ReplyLost(percent=percent):
                for link, proxy in self._dialled(known):
                    losses = LosesReplies(percent=percent, random=_dice(draw, link), tally=tally)
                    proxy.lose_replies(key, losses)
            case Duplicate(delay_ms=delay_ms):
                for _, proxy in self._dialled(known):
                    proxy.copy(key, Copies(delay_s=delay_ms / 1000, tally=tally))
                    proxy.reset()
            case _:
                for link in known:
                    self._ways[link].hold(key, hold_of(fault, _dice(draw, link), tally))

    def tally(self, key: str) -> Mapping[str, int]:
        """What an impairment has done so far: bytes held, packets lost, connections reset, conversations copied."""
        return dict(self._tallies.get(key, {}))

    async def heal(self, key: str) -> None:
        """Take back what was done by this key; one that does nothing is fine."""
        self._cuts.pop(key, None)
        self._apply()
        if self._tallies.pop(key, None) is None:
            return
        if key in self._resetting:
            self._resetting.pop(key).cancel()
        for way in self._ways.values():
            way.release(key)
        for proxy in self._proxies.values():
            proxy.mend(key)

    async def heal_all(self) -> None:
        """Take everything back."""
        for key in (*self._cuts, *self._tallies):
            await self.heal(key)

    @property
    def cuts(self) -> Mapping[str, tuple[LinkMode, frozenset[Link]]]:
        """What is cut now, by key."""
        return dict(self._cuts)

    @property
    def impaired(self) -> frozenset[str]:
        """The keys of the impairments that last."""
        return frozenset(self._tallies)

    def _known(self, links: Iterable[Link]) -> frozenset[Link]:
        unknown = set(links) - set(self._ways)
        if unknown:
            raise ValueError(f"there are no links {sorted(unknown)} among nodes {self._nodes}")
        return frozenset(links)

    def _dialled(self, links: Iterable[Link]) -> list[tuple[Link, LinkProxy]]:
        """The proxies of those of the links on which somebody dials: nobody dials a client."""
        return [(link, self._proxies[link]) for link in links if link in self._proxies]

    async def _reset_again(self, links: Sequence[Link], fault: Reset, tally: Counter[str]) -> None:
        for time in range(fault.times):
            if time:
                await asyncio.sleep(fault.every_ms / 1000)
            for _, proxy in self._dialled(links):
                tally["connections"] += proxy.reset()

    def _apply(self) -> None:
        closed = self._broken(LinkMode.BLACKHOLE)
        refusing = self._broken(LinkMode.RESET)
        for link, proxy in self._proxies.items():
            proxy.set_refusing(link in refusing)
        for link, way in self._ways.items():
            way.set_open(link not in closed)

    def _broken(self, mode: LinkMode) -> set[Link]:
        return {link for cut_mode, links in self._cuts.values() if cut_mode is mode for link in links}


def _dice(draw: int, link: Link) -> Random:
    """Dice of its own for each link, so that what befalls one does not depend on how busy another is."""
    return Random(f"{draw} {link[0]} {link[1]}")
