"""All directed links of a cluster: which of them pass bytes, and who has cut them.

Owns one gate for each direction and one proxy for each ordered pair that dials. Faults overlap, so every cut has a key;
a link passes again when no key cuts it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemesis.cluster.link_proxy import LOOPBACK, Gate, LinkProxy
from nemesis.faults.links import CLIENTS, CONTROL, Link, LinkMode


class Links:
    """The links among ``nodes``, from clients, and from the harness. Start and close within one event loop."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._nodes = tuple(nodes)
        ends = (*self._nodes, CLIENTS, CONTROL)
        pairs = [(a, b) for a in ends for b in ends if a != b and (a in self._nodes or b in self._nodes)]
        self._gates = {pair: Gate() for pair in pairs}
        self._proxies = {
            (source, destination): LinkProxy(
                forward=self._gates[source, destination], backward=self._gates[destination, source]
            )
            for source, destination in pairs
            if destination in self._nodes
        }
        self._ports: dict[Link, int] = {}
        self._cuts: dict[str, tuple[LinkMode, frozenset[Link]]] = {}

    async def start(self) -> None:
        """Take one port for each pair that dials."""
        for link, proxy in self._proxies.items():
            self._ports[link] = await proxy.start()

    async def close(self) -> None:
        """Give all ports back and abort all connections."""
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

    def cut(self, key: str, links: Iterable[Link], mode: LinkMode) -> None:
        """Break these links until ``heal(key)``. Raises ``ValueError`` for a link that does not exist."""
        broken = frozenset(links)
        unknown = broken - set(self._gates)
        if unknown:
            raise ValueError(f"there are no links {sorted(unknown)} among nodes {self._nodes}")
        self._cuts[key] = (mode, broken)
        self._apply()

    def heal(self, key: str) -> None:
        """Take this cut back; a key that cuts nothing is fine."""
        self._cuts.pop(key, None)
        self._apply()

    def heal_all(self) -> None:
        """Take every cut back."""
        self._cuts.clear()
        self._apply()

    @property
    def cuts(self) -> Mapping[str, tuple[LinkMode, frozenset[Link]]]:
        """What is cut now, by key."""
        return dict(self._cuts)

    def _apply(self) -> None:
        closed = self._broken(LinkMode.BLACKHOLE)
        refusing = self._broken(LinkMode.RESET)
        for link, proxy in self._proxies.items():
            proxy.set_refusing(link in refusing)
        for link, gate in self._gates.items():
            gate.set_open(link not in closed)

    def _broken(self, mode: LinkMode) -> set[Link]:
        return {link for cut_mode, links in self._cuts.values() if cut_mode is mode for link in links}
