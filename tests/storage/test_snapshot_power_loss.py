"""Power loss before any operation of what a snapshot goes through: what was before, or what is after, never neither."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.log.recovered import RecoveredLog
from replica.ids import Epoch, Offset, SnapshotId
from replica.storage import LogStore
from tests.storage.disks import SMALL, append, entries, open_log
from tests.storage.snapshots import END, NEWER, OLD, content_of, filled_log, opened, reopened, store, stored
from tests.storage.test_partition_power_loss import Outcome, interrupted

BEYOND = SnapshotId(Offset(40), Epoch(7))
ASTRAY = SnapshotId(Offset(8), Epoch(4))
"""Other records than the log's lead to it, although the log is longer."""

Prepared = tuple[SimulatedFiles, Callable[[], object]]


def opened_at_last(outcome: Outcome) -> tuple[LogStore, RecoveredLog]:
    """Open the log, with some more power losses on the way."""
    for _ in range(3):
        outcome.files.power_fails_before = outcome.files.operations + outcome.chance.randint(0, 20)
        with suppress(PowerLossError):
            open_log(outcome.files, SMALL)
        outcome.files.crash(outcome.chance)
    return opened(outcome.files)


def recovered_from(prepare: Callable[[], Prepared]) -> RecoveredLog:
    """What a start finds of this disk when nothing more was done to it."""
    return reopened(prepare()[0])[1]


def test_storing_a_snapshot_is_all_or_nothing() -> None:
    """The new snapshot is there, whole, or it is not; the log and the older one are as they were."""

    def prepare() -> Prepared:
        files, _, log = filled_log()
        return files, lambda: store(log, NEWER)

    before = recovered_from(prepare)
    for outcome in interrupted(prepare):
        _, recovered = opened_at_last(outcome)
        assert recovered.snapshots == stored(OLD, NEWER) or (recovered.snapshots == stored(OLD) and not outcome.done)
        assert recovered.epochs == before.epochs
        assert (recovered.log_start_offset, recovered.log_end_offset) == (0, END)


@pytest.mark.parametrize("snapshot_id", [BEYOND, ASTRAY])
@pytest.mark.parametrize("log_start", [0, 4])
def test_installing_a_snapshot_is_all_or_nothing(snapshot_id: SnapshotId, log_start: int) -> None:
    """The log is the old one, whole and with its snapshots, or an empty one at the end of the new snapshot alone."""

    def prepare() -> Prepared:
        files, _, log = filled_log(log_start=log_start)
        return files, lambda: log.install_snapshot(snapshot_id, content_of(snapshot_id))

    before, at = recovered_from(prepare), snapshot_id.end_offset
    assert (before.log_start_offset, before.log_end_offset) == (log_start, END)
    seen = set()
    for outcome in interrupted(prepare):
        log, recovered = opened_at_last(outcome)
        is_old = recovered == before
        seen.add(is_old)
        assert not (is_old and outcome.done)
        if not is_old:
            assert (recovered.log_start_offset, recovered.log_end_offset, recovered.epochs) == (at, at, ())
            assert recovered.snapshots == stored(snapshot_id)
            append(log, count=2, epoch=9)
            log.flush()
            outcome.files.crash(outcome.chance)
            _, again = opened(outcome.files)
            assert (again.log_start_offset, again.log_end_offset) == (at, at + 2)
            assert again.epochs == entries((9, at))
    assert seen == {True, False}


def test_dropping_what_a_new_snapshot_contains_is_all_or_nothing() -> None:
    """Stored, log start raised to the one before, older ones dropped: at any moment the log begins at a snapshot."""

    def prepare() -> Prepared:
        files, _, log = filled_log(log_start=4)
        newest = SnapshotId(Offset(11), Epoch(3))

        def act() -> None:
            store(log, NEWER)
            store(log, newest)
            log.raise_log_start(Offset(8))
            log.store_epochs(entries((3, 8)))
            log.drop_snapshots(Offset(8))

        return files, act

    allowed = {
        (4, (4,)): entries((1, 4), (3, 6)),
        (4, (4, 8)): entries((1, 4), (3, 6)),
        (4, (4, 8, 11)): entries((1, 4), (3, 6)),
        (8, (8, 11)): entries((3, 8)),
    }
    seen = set()
    for outcome in interrupted(prepare):
        _, recovered = opened_at_last(outcome)
        state = (int(recovered.log_start_offset), tuple(int(found.id.end_offset) for found in recovered.snapshots))
        seen.add(state)
        assert recovered.epochs == allowed[state]
        assert recovered.log_end_offset == END
        assert state == (8, (8, 11)) or not outcome.done
    assert seen == allowed.keys()


def test_a_start_that_begins_the_log_anew_is_repeated_until_it_is_done() -> None:
    """A snapshot beyond the log that was flushed: the old log goes whole, however often the power goes on the way."""

    def prepare() -> Prepared:
        files, _, log = filled_log(log_start=4)
        append(log, count=3, epoch=3)
        store(log, SnapshotId(Offset(END + 2), Epoch(3)))
        files.crash()
        return files, lambda: open_log(files, SMALL)

    for outcome in interrupted(prepare):
        _, recovered = opened_at_last(outcome)
        assert (recovered.log_start_offset, recovered.log_end_offset) == (END + 2, END + 2)
        assert recovered.snapshots == stored(SnapshotId(Offset(END + 2), Epoch(3)))
