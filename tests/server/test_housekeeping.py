"""What a replica does on its disk from time to time, each thing as often as its operator says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from replica.cli.start import server_options_from, start_command
from replica.core.config import BrokerConfig, InvalidConfigError, LogFlush
from replica.core.settings import DAY_MS
from replica.ids import ReplicaId
from replica.server.housekeeping import Housekeeping
from replica.server.options import ServerOptions
from replica.storage import StorageError

MINUTE_MS = 60_000
RECOVERY_POINTS, LOG_STARTS = "log_flush_offset_checkpoint_interval_ms", "log_flush_start_offset_checkpoint_interval_ms"


@dataclass
class FakeStorage:
    """Counts what it is asked for."""

    asked: Counter[str] = field(default_factory=Counter)

    def flush(self) -> None:
        """Count."""
        self.asked["flush"] += 1

    def checkpoint_recovery_points(self) -> None:
        """Count."""
        self.asked["recovery points"] += 1

    def checkpoint_log_starts(self) -> None:
        """Count."""
        self.asked["log starts"] += 1

    def free_deleted(self, now_ms: int, *, file_delete_delay_ms: int) -> None:
        """Count."""
        self.asked[f"free after {file_delete_delay_ms}"] += 1


def options(**given: int) -> ServerOptions:
    """What a replica is told, besides what it must be."""
    return ServerOptions(data_dir=Path("data"), listen="a:1", voters={ReplicaId(1): "a:1"}, **given)  # type: ignore[arg-type] # the fields of a test's own choice


def asked_in_a_minute(given: ServerOptions) -> Counter[str]:
    """Let a minute pass from one deadline to the next, and return what storage was asked for."""
    storage = FakeStorage()
    house = Housekeeping(storage=storage, options=given, now_ms=0)
    while house.deadline_ms <= MINUTE_MS:
        house.do_due(house.deadline_ms)
    return storage.asked


@pytest.mark.parametrize("mistake", [TypeError("an int is no offset"), OSError(5, "input/output error")])
def test_a_chore_that_fails_in_an_unforeseen_way_fails_the_storage(
    monkeypatch: pytest.MonkeyPatch, mistake: Exception
) -> None:
    """Nothing that a chore raises ends house-keeping in silence."""

    def fail(_: FakeStorage) -> None:
        raise mistake

    monkeypatch.setattr(FakeStorage, "checkpoint_recovery_points", fail)
    with pytest.raises(StorageError, match=f"house-keeping failed: {type(mistake).__name__}"):
        asked_in_a_minute(options())


@pytest.mark.parametrize(
    ("given", "recovery_points", "log_starts"),
    [
        (options(), 12, 1),
        (options(**{RECOVERY_POINTS: MINUTE_MS, LOG_STARTS: MINUTE_MS}), 1, 1),
        (options(**{RECOVERY_POINTS: 20_000, LOG_STARTS: 7000}), 3, 8),
        (options(**{RECOVERY_POINTS: MINUTE_MS + 1, LOG_STARTS: DAY_MS}), 0, 0),
    ],
)
def test_each_checkpoint_has_its_own_interval(given: ServerOptions, recovery_points: int, log_starts: int) -> None:
    """The two checkpoints are written as often as each is told, and space is freed however seldom they are."""
    asked = asked_in_a_minute(given)
    assert (asked["recovery points"], asked["log starts"], asked["flush"]) == (recovery_points, log_starts, 0)
    assert asked["free after 60000"] == 12


def test_a_recovery_point_that_nobody_flushes_for_is_flushed_first() -> None:
    """With flushing left to the system each recovery point comes with a flush, or it would never move."""
    storage = FakeStorage()
    given = ServerOptions(
        data_dir=Path("data"), listen="a:1", voters={ReplicaId(1): "a:1"}, broker=BrokerConfig(log_flush=LogFlush.OS)
    )
    Housekeeping(storage=storage, options=given, now_ms=0).do_due(5000)
    assert storage.asked["flush"] == storage.asked["recovery points"] == 1


def test_who_comes_late_does_everything_once() -> None:
    """A process that was suspended does not make up for what it has missed."""
    storage = FakeStorage()
    house = Housekeeping(storage=storage, options=options(), now_ms=0)
    house.do_due(DAY_MS)
    assert set(storage.asked.values()) == {1}
    assert house.deadline_ms == DAY_MS + 5000


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS])
def test_the_intervals_are_options_checked_at_start(name: str) -> None:
    """Each interval is an option of ``replica start``; one of no time, or of more than a day, is refused."""
    command = start_command()
    arguments = ["--data-dir", "d", "--listen", "a:1", "--voter", "1=a:1", f"--{name.replace('_', '-')}", "77"]
    with command.make_context("start", arguments) as context:
        assert getattr(server_options_from(context.params), name) == 77
    for value in (0, DAY_MS + 1):
        with pytest.raises(InvalidConfigError, match=f"{name} is {value}; it must be at least 1"):
            options(**{name: value})
    assert name.replace("_", "-") in CliRunner().invoke(command, ["--help"]).output
