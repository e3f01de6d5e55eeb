"""What all clients of a simulated world have in common, whatever they do: numbers, pace, and when to stop.

Owns the numbers that nobody had before, of processes and of values, and the pauses between operations. Knows nothing of
operations.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import US_PER_S, Action
from nemesis.simulator.record import Record
from nemesis.simulator.world import World
from replica.ids import TopicPartition


class Roll:
    """``climate.concurrency`` processes at a time, ``climate.rate`` operations a second together.

    With ``values_max``, no process writes any more once so many values were given out.
    """

    def __init__(
        self, world: World, record: Record, climate: Climate, dice: Random, *, values_max: int | None = None
    ) -> None:
        self.world = world
        self.record = record
        self.climate = climate
        self.dice = dice
        self.acknowledged: Counter[TopicPartition] = Counter()
        """How many writes were, log by log."""
        self.is_stopped = False
        self.values_max = values_max
        self._next_value = 1
        self._next_process = 0

    @property
    def has_values(self) -> bool:
        """Whether there are values left to write."""
        return self.values_max is None or self._next_value <= self.values_max

    def new_value(self) -> int:
        """A value that nobody had before."""
        value, self._next_value = self._next_value, self._next_value + 1
        return value

    def new_process(self) -> int:
        """A process number that nobody had before."""
        process, self._next_process = self._next_process, self._next_process + 1
        return process

    def after_pause(self, action: Action) -> None:
        """Do something after a pause such as one process makes between two operations."""
        mean_s = self.climate.concurrency / self.climate.rate
        self.world.queue.after(int(self.dice.expovariate(1 / mean_s) * US_PER_S), action)
