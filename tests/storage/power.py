"""What random lives of a log have in common: the power goes at any file operation, also while the log is opened."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from contextlib import suppress

from nemesis.disks.simulated_files import PowerLossError
from replica.core.log.recovered import RecoveredLog
from replica.storage import DataDirectory, LogStore
from tests.storage.disks import formatted


class PoweredLife(ABC):
    """Acts at random on a formatted disk; who builds on it knows what the log was told, and checks what comes back."""

    directory: DataDirectory
    log: LogStore

    def __init__(self, seed: int, *, opening: float = 0.3, operations: int = 60) -> None:
        self.chance = random.Random(seed)
        self.files = formatted()
        self._opening, self._operations = opening, operations

    @abstractmethod
    def opened(self) -> tuple[DataDirectory, LogStore, RecoveredLog]:
        """Open the log."""

    @abstractmethod
    def act(self) -> None:
        """Do one thing."""

    @abstractmethod
    def check(self, recovered: RecoveredLog) -> None:
        """Compare what came back with what was promised."""

    def start(self) -> RecoveredLog:
        """Open the log, losing the power some more times on the way."""
        while True:
            if self.chance.random() < self._opening:
                self.files.power_fails_before = self.files.operations + self.chance.randint(0, 30)
            try:
                self.directory, self.log, recovered = self.opened()
            except PowerLossError:
                self.files.crash(self.chance)
                continue
            self.files.power_fails_before = None
            return recovered

    def run(self, steps: int) -> None:
        """Act until the power fails, or until the steps are used up; then check what came back."""
        self.files.power_fails_before = self.files.operations + self.chance.randint(0, self._operations)
        with suppress(PowerLossError):
            for _ in range(steps):
                self.act()
        self.files.crash(self.chance if self.chance.random() < 0.8 else None)
        self.check(self.start())
