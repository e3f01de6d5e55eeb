"""The disk of one simulated machine: production storage on files that can lose, refuse and rot.

Owns a formatted data directory in memory, the opening and the ends of the stores on it, and the damage that is done to
flushed data. It must not know the protocol. Damage is done below the recovery point only: above it a log cannot tell a
rotten sector from a torn write, and cuts either (see the storage documentation).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

from nemesis.disks.damage import SECTOR_BYTES, spoiled
from nemesis.disks.hindrance import Hindrance, together
from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.rules.log import LogRules
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.storage import BoundedFiles, LogConfig, LogTable, MetaProperties, format_directory, open_directory
from replica.storage.bounded_files import OPEN_MAX_LEAST
from replica.storage.log_directories import topic_partition_of
from replica.storage.log_dirs import format_log_dir
from replica.voters import DIRECTORY_ID_BYTES, ReplicaKey, VoterSet, directory_id_of

DATA = Path("/data")
CLUSTER_ID = "simulated"
LOG_CONFIG = LogConfig(segment_bytes=2 << 10, index_interval_bytes=512, tail_bytes_max=5 << 10)
"""Small segments and a short tail in memory: a minute of a world must roll, and read from its disk."""
OPEN_FILES_MAX = OPEN_MAX_LEAST
"""Fewer than there are segments: they are closed, and opened again."""


class NodeDisk:
    """What one machine keeps while its processes come and go."""

    def __init__(
        self,
        replica_id: ReplicaId,
        logs: Sequence[TopicPartition],
        dice: Random,
        rules: LogRules | None = None,
        *,
        initial_voters: VoterSet,
        log_dirs: int = 0,
    ) -> None:
        self.log_dirs = tuple(Path(f"/disk{number}") for number in range(1, log_dirs + 1))
        """Where partitions lie, each on a disk of its own; where there are none, all lies on one."""
        self._failing_dir: Path | None = None
        self._dirs_formatted = 0
        self.directory_id = directory_id_for(replica_id)
        """Of the disk that is there now."""
        self.key = ReplicaKey(replica_id, self.directory_id)
        """Who the machine is as a voter, with that disk."""
        self.files = SimulatedFiles(remember_calls=False)
        self.slow_factor = 1
        self._hindrances: dict[int, Hindrance] = {}
        self.is_damaged = False
        self.rotten: set[TopicPartition] = set()
        """Partitions' logs of which a sector was spoiled, until they are replaced."""
        self.is_lying = False
        self._logs = logs
        self._dice = dice
        self._rules = rules
        self._replica_id = replica_id
        self._wiped = 0
        self._earlier: dict[ReplicaKey, tuple[str, SimulatedFiles]] = {}
        self._format(initial_voters)

    def _format(self, initial_voters: VoterSet) -> None:
        format_directory(
            DATA,
            cluster_id=CLUSTER_ID,
            replica_id=self._replica_id,
            directory_id=self.directory_id,
            initial_voters=initial_voters,
            files=self.files,
        )
        for path in self.log_dirs:
            self._format_dir(path)

    def _format_dir(self, path: Path) -> None:
        self._dirs_formatted += 1
        directory_id = directory_id_for(self._replica_id, self._dirs_formatted, "dir")
        meta = MetaProperties(cluster_id=CLUSTER_ID, replica_id=self._replica_id, directory_id=directory_id)
        format_log_dir(self.files, path, meta)

    # --- log directories --------------------------------------------------------------------------------------------

    def logs_in(self, path: Path) -> list[TopicPartition]:
        """The logs in a log directory, as their folders are named: whether its disk fails or not."""
        names = map(topic_partition_of, self.files.names(path))
        return [log for log in names if log is not None]

    def fail_dir(self, path: Path | None) -> None:
        """Let every call to this log directory fail, until another one does, or none."""
        self._failing_dir = path
        self._apply_hindrances()

    def replace_dir(self, path: Path) -> None:
        """Put an empty disk in the place of that of a log directory, on which no process runs."""
        self.rotten |= set(self.logs_in(path))
        self.files.remove(path)
        self.files.is_full, self.files.fault, self.files.power_fails_before = False, None, None
        self._format_dir(path)
        self._apply_hindrances()

    @property
    def is_replaced(self) -> bool:
        """Whether it is not the disk that the machine had at first."""
        return self._wiped > 0

    # --- what hinders it --------------------------------------------------------------------------------------------

    def change(self, earlier: ReplicaKey | None = None) -> None:
        """Put another disk in its place: one that was there before, as it was left, or a new one.

        That has another directory id, so that it has no vote until it is added.
        """
        self._earlier[self.key] = (self.directory_id, self.files)
        self.rotten.clear()
        if earlier is None:
            self._wiped += 1
            self.directory_id = directory_id_for(self._replica_id, self._wiped)
            self.files = SimulatedFiles(remember_calls=False)
            self._format(VoterSet(()))
        else:
            self.directory_id, self.files = self._earlier.pop(earlier)
            self.files.power_fails_before = None
        self.key = ReplicaKey(self._replica_id, self.directory_id)
        self._apply_hindrances()

    def hinder(self, key: int, hindrance: Hindrance) -> None:
        """Let the disk be full, fail or tarry until ``relieve(key)``; so will one that takes its place."""
        self._hindrances[key] = hindrance
        self._apply_hindrances()

    def relieve(self, key: int) -> None:
        """Let it do what it should, as far as nothing else hinders it."""
        self._hindrances.pop(key, None)
        self._apply_hindrances()

    def _apply_hindrances(self) -> None:
        hindrance = together(self._hindrances.values())
        self.slow_factor = hindrance.slow_factor
        self.files.is_full = hindrance.is_full
        self.files.fault = _failing(hindrance.failing, self._failing_dir)

    def open(self) -> LogTable:
        """Open the directory and recover its logs. Raises StorageError, or PowerLossError if the power goes."""
        files = BoundedFiles(self.files, open_max=OPEN_FILES_MAX)
        directory = open_directory(DATA, log_dirs=self.log_dirs, files=files)
        return LogTable.open(directory, self._logs, config=LOG_CONFIG, rules=self._rules)

    def endanger(self, operations: int) -> None:
        """Let the power go before one of the next ``operations`` operations that change something."""
        self.files.power_fails_before = self.files.operations + self._dice.randrange(operations)

    def lose_power(self) -> None:
        """Lose what was not flushed: all of it, or any part, each write perhaps torn. A disk that fails goes on so."""
        fault = self.files.fault
        self.files.crash(self._dice if self._dice.random() < 0.7 else None)
        self.files.fault = fault

    def lie(self, lies: Callable[[], bool]) -> None:
        """Let the flush of a log only pretend, whenever ``lies`` says so. The small state files are flushed truly."""
        self.is_lying = True
        self.files.lies = lambda path: path.suffix == ".log" and lies()

    # --- damage -----------------------------------------------------------------------------------------------------

    def damage(self, how: str, recovery_points: Mapping[TopicPartition, Offset], dice: Random) -> str | None:
        """Spoil one sector of a finished, flushed segment; say which, or None if nothing was changed."""
        paths = [path for log, end in recovery_points.items() for path in self._finished_segments(log, end)]
        spoiled_at = self._spoil(how, dice.choice(paths), dice) if paths else None
        self.is_damaged |= spoiled_at is not None
        return spoiled_at

    def rot(self, how: str, log: TopicPartition, recovery_point: Offset, dice: Random) -> Offset | None:
        """Spoil one sector of a finished segment of this log; say where that begins, or None if nothing was changed."""
        paths = self._finished_segments(log, recovery_point)
        path = dice.choice(paths) if paths else None
        if path is None or self._spoil(how, path, dice) is None:
            return None
        self.rotten.add(log)
        return Offset(int(path.stem))

    def _spoil(self, how: str, path: Path, dice: Random) -> str | None:
        content = self.files.content(path)
        start = dice.randrange(0, len(content), SECTOR_BYTES)
        changed = spoiled(how, content, start, dice)
        if changed == content:
            return None
        self.files.overwrite(path, changed)
        return f"{how} at byte {start} of {path}"

    def _finished_segments(self, log: TopicPartition, recovery_point: Offset) -> list[Path]:
        folder = DATA / str(log)
        if not self.files.exists(folder):
            return []  # A new log, with nothing in it.
        segments = sorted(name for name in self.files.names(folder) if name.endswith(".log"))
        return [
            folder / name
            for name, following in pairwise(segments)
            if int(following.removesuffix(".log")) <= recovery_point and self.files.content(folder / name)
        ]


def _failing(calls: Collection[str], below: Path | None) -> Callable[[str, Path], OSError | None] | None:
    """These calls fail, and all below a log directory."""
    if not calls and below is None:
        return None

    def fault(call: str, path: Path) -> OSError | None:
        fails = call in calls or (below is not None and path.is_relative_to(below))
        return OSError(errno.EIO, "Input/output error", str(path)) if fails else None

    return fault


def directory_id_for(replica_id: ReplicaId, before: int = 0, kind: str = "disk") -> str:
    """The directory id of a machine's disk after so many before it: 16 bytes that say just that."""
    return directory_id_of(f"{kind} {replica_id}.{before}".encode().ljust(DIRECTORY_ID_BYTES))
