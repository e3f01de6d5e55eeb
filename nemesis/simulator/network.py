"""The network of a simulated world: what becomes of each message.

Owns the links (who hears whom, what is held up) and every link's own dice, so that what happens on one link does not
change the luck of another. Delivers actions and knows nothing of what is in them.
"""

from __future__ import annotations

from random import Random

from nemesis.faults.links import CLIENTS, Link
from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import US_PER_MS, Action, EventQueue


class Network:
    """Directed links between nodes, and to and from clients."""

    def __init__(self, queue: EventQueue, climate: Climate, seed: str) -> None:
        self.climate = climate
        self._queue = queue
        self._seed = seed
        self._dice: dict[Link, Random] = {}
        self._cuts: dict[int, frozenset[Link]] = {}
        self._clogs: dict[int, frozenset[Link]] = {}
        self._cut: frozenset[Link] = frozenset()
        self._clogged: frozenset[Link] = frozenset()
        self._held: list[tuple[Link, Action]] = []
        self._latest_us: dict[Link, int] = {}

    # --- faults -----------------------------------------------------------------------------------------------------

    def cut(self, key: int, links: frozenset[Link]) -> None:
        """Lose whatever would arrive over these links before ``heal(key)``."""
        self._cuts[key] = links
        self._recompute()

    def clog(self, key: int, links: frozenset[Link]) -> None:
        """Hold everything on these links up until ``heal(key)``."""
        self._clogs[key] = links
        self._recompute()

    def heal(self, key: int) -> None:
        """Take back what was done under ``key``; what was held up arrives."""
        self._cuts.pop(key, None)
        self._clogs.pop(key, None)
        self._recompute()
        held, self._held = self._held, []
        for link, action in held:
            self._pass_on(link, action)

    def heal_all(self) -> None:
        """Take everything back."""
        for key in {**self._cuts, **self._clogs}:
            self.heal(key)

    def _recompute(self) -> None:
        self._cut = frozenset().union(*self._cuts.values())
        self._clogged = frozenset().union(*self._clogs.values())

    def is_open_between(self, one: int, other: int) -> bool:
        """Whether nothing is cut or held up between the two, in either direction."""
        return not {(one, other), (other, one)} & (self._cut | self._clogged)

    # --- messages ---------------------------------------------------------------------------------------------------

    def deliver(self, source: int, target: int, action: Action) -> None:
        """Let ``action`` happen when the message arrives, if it does; perhaps twice."""
        link, climate = (source, target), self.climate
        dice = self._dice_of(link)
        if climate.loss and dice.random() < climate.loss:
            return
        self._send(link, dice, action)
        # Requests of clients come over one connection, which repeats nothing; those of replicas may be repeated.
        if climate.duplication and CLIENTS not in link and dice.random() < climate.duplication:
            self._send(link, dice, action)

    def _send(self, link: Link, dice: Random, action: Action) -> None:
        low_ms, high_ms = self.climate.latency_ms
        delay_ms = low_ms + (high_ms - low_ms) * dice.random()
        if self.climate.spike and dice.random() < self.climate.spike:
            delay_ms += self.climate.spike_ms * dice.random()
        due_us = self._queue.now_us + int(delay_ms * US_PER_MS)
        if self.climate.ordered:
            due_us = self._latest_us[link] = max(due_us, self._latest_us.get(link, 0))
        self._queue.at(due_us, lambda: self._pass_on(link, action))

    def _pass_on(self, link: Link, action: Action) -> None:
        if link in self._cut:
            return
        if link in self._clogged:
            self._held.append((link, action))
            return
        action()

    def _dice_of(self, link: Link) -> Random:
        dice = self._dice.get(link)
        if dice is None:
            dice = self._dice[link] = Random(f"{self._seed} link {link[0]} {link[1]}")
        return dice
