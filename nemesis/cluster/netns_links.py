"""The directed links between network namespaces: cut, lossy, narrow, late or reset by the kernel.

Owns which faults are open and what each link suffers from all of them; how the kernel is told is the business of
``netns_tools``. What comes in is filtered where a link ends, what goes out is shaped where it begins, so that each
direction is dealt with by itself. Only service addresses are ever named: what the harness sees through the control
addresses no fault touches.

Unlike the proxies of a local cluster, this loses packets and not bytes: of a connection whose one direction is cut,
the other one comes to a halt as well, as soon as its acknowledgements are missed; and what was lost is sent again by
the kernel, later and later, so that after the healing it may take a moment. So it is with real networks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from nemesis.cluster.netns_probe import probed
from nemesis.cluster.netns_tools import Shaped, drop_rule, loss_rule, reset_rules
from nemesis.cluster.off_loop import off_loop
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.impairments import Bandwidth, Delay, Loss, NetworkFault, Reset
from nemesis.faults.links import CLIENTS, Link, LinkMode
from nemesis.faults.needs import Need

WHY_PROXIES_ONLY = "the kernel does not know whose bytes are whose: only the proxies of --cluster local can do that"


class Kernel(Protocol):
    """What rules are put into: the network of a node, or that of CLIENTS. Called in threads, for it takes its time.

    Each call raises NodeFailedError where it could not be done.
    """

    def filter(self, end: int, rules: tuple[str, ...]) -> None:
        """Let these rules, and no others, decide on what comes in there."""

    def shape(self, end: int, shaped: tuple[Shaped, ...]) -> None:
        """Let what goes out from there be shaped so, and not otherwise."""

    def reset(self, source: int, destination: str) -> int:
        """Reset what is dialled from there to an address; how many connections that were."""


class KernelLinks:
    """The links among ``nodes`` and from clients; ``services`` is the address of each end, CLIENTS among them."""

    def __init__(self, nodes: Iterable[int], services: Mapping[int, str], kernel: Kernel) -> None:
        self._nodes = tuple(nodes)
        self._services = services
        self._kernel = kernel
        self._ends = (*self._nodes, CLIENTS)
        self._links = frozenset((a, b) for a in self._ends for b in self._ends if a != b)
        self._cuts: dict[str, tuple[LinkMode, frozenset[Link]]] = {}
        self._impaired: dict[str, tuple[NetworkFault, frozenset[Link]]] = {}
        self._tallies: dict[str, Counter[str]] = {}
        self._resetting: dict[str, asyncio.Task[None]] = {}
        self._filtered: dict[int, tuple[str, ...]] = {}
        self._shaped: dict[int, tuple[Shaped, ...]] = {}
        self._changing = asyncio.Lock()

    async def cut(self, key: str, links: frozenset[Link], mode: LinkMode) -> None:
        """Break these links until ``heal(key)``. Raises ``ValueError`` for a link that does not exist."""
        known = self._known(links)
        async with self._changing:
            self._cuts[key] = (mode, known)
            if mode is LinkMode.RESET:
                # Before the rules are there: who is reset must hear of it.
                await off_loop(self._reset, known)
            await off_loop(self._apply)

    async def impair(self, key: str, links: frozenset[Link], fault: NetworkFault, draw: int) -> None:
        """Let these links suffer from a fault until ``heal(key)``; the kernel has dice of its own.

        Raises ``ValueError`` for a link that does not exist, UnsupportedError for what the kernel cannot do.
        """
        del draw
        known = self._known(links)
        if fault.need is Need.CONVERSATIONS:
            raise UnsupportedError(WHY_PROXIES_ONLY)
        async with self._changing:
            tally = self._tallies[key] = Counter()
            if isinstance(fault, Reset):
                tally["connections"] = await off_loop(self._reset, known)
                self._resetting[key] = asyncio.create_task(self._reset_again(known, fault, tally))
            self._impaired[key] = (fault, known)
            await off_loop(self._apply)

    def tally(self, key: str) -> Mapping[str, int]:
        """How many connections were reset; all else the kernel does not count for us."""
        return dict(self._tallies.get(key, {}))

    async def heal(self, key: str) -> None:
        """Take back what was done by this key; one that does nothing is fine."""
        await self._heal(key)

    async def heal_all(self) -> None:
        """Take everything back, also what could not be taken back before."""
        await self._heal(*self._cuts, *self._impaired)

    async def _heal(self, *keys: str) -> None:
        async with self._changing:
            for key in keys:
                self._cuts.pop(key, None)
                self._impaired.pop(key, None)
                self._tallies.pop(key, None)
                if key in self._resetting:
                    self._resetting.pop(key).cancel()
            await off_loop(self._apply)

    def _known(self, links: frozenset[Link]) -> frozenset[Link]:
        unknown = links - self._links
        if unknown:
            raise ValueError(f"there are no links {sorted(unknown)} among nodes {self._nodes}")
        return links

    # --- now ----------------------------------------------------------------------------------------------------------

    async def _reset_again(self, links: frozenset[Link], fault: Reset, tally: Counter[str]) -> None:
        for _ in range(fault.times - 1):
            await asyncio.sleep(fault.every_ms / 1000)
            tally["connections"] += await off_loop(self._reset, links)

    def _reset(self, links: Iterable[Link]) -> int:
        """Reset what the sources of the links dial to their destinations: nobody dials a client."""
        dialled = sorted(link for link in links if link[1] != CLIENTS)
        return sum(self._kernel.reset(source, self._services[destination]) for source, destination in dialled)

    # --- as long as it lasts ------------------------------------------------------------------------------------------

    def _apply(self) -> None:
        """Tell the kernel of each end for which something has changed; of the others, too, where one cannot be told."""
        errors = []
        for end in self._ends:
            try:
                self._apply_at(end)
            except NodeFailedError as error:
                errors.append(str(error))
        if errors:
            raise NodeFailedError("; ".join(errors))

    def _apply_at(self, end: int) -> None:
        rules = tuple(self._rules(end))
        if rules != self._filtered.get(end, ()):
            self._kernel.filter(end, rules)
            self._filtered[end] = rules
        shaped = tuple(self._shapes(end))
        if shaped != self._shaped.get(end, ()):
            self._kernel.shape(end, shaped)
            self._shaped[end] = shaped

    def _rules(self, destination: int) -> Iterable[str]:
        for source, here in self._into(destination):
            modes = {mode for mode, links in self._cuts.values() if here in links}
            if LinkMode.RESET in modes:
                yield from reset_rules(self._services[source], self._services[destination])
            if LinkMode.BLACKHOLE in modes:
                yield drop_rule(self._services[source], self._services[destination])
            for fault in self._faults_of(here):
                if isinstance(fault, Loss):
                    yield loss_rule(self._services[source], self._services[destination], fault.percent)

    def _into(self, destination: int) -> list[tuple[int, Link]]:
        return [(source, (source, destination)) for source in self._ends if source != destination]

    def _shapes(self, source: int) -> Iterable[Shaped]:
        for destination in self._ends:
            faults = self._faults_of((source, destination))
            rates = [fault.rate_bytes_per_s for fault in faults if isinstance(fault, Bandwidth)]
            delays = [fault for fault in faults if isinstance(fault, Delay)]
            if rates or delays:
                yield Shaped(
                    destination=self._services[destination],
                    rate_bytes_per_s=min(rates, default=None),
                    latency_ms=sum(delay.latency_ms for delay in delays),
                    jitter_ms=sum(delay.jitter_ms for delay in delays),
                )

    def _faults_of(self, link: Link) -> list[NetworkFault]:
        return [fault for fault, links in self._impaired.values() if link in links]


TRIAL_OF: Mapping[Need, str] = {
    Need.LATE_PACKETS: "netem",
    Need.LOST_PACKETS: "dice",
    Need.NARROW_LINKS: "throttle",
    Need.RESETS: "reset",
}
"""Which trial of ``netns_probe`` says whether the kernel can do what is needed."""


def lacked_by_kernel(need: Need) -> str | None:
    """Why the kernel cannot impair links so; absent if it can."""
    return probed()[TRIAL_OF[need]] if need in TRIAL_OF else WHY_PROXIES_ONLY
