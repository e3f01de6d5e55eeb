"""Which logs a data directory may hold when all of them are opened together."""

from __future__ import annotations

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import CreateLog
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import TopicId
from replica.storage import LogTable, StorageError, open_directory
from tests.storage.disks import DATA, LOG, LOG_PATH, RECOVERY_POINTS, append, formatted

ADVICE = (
    "/data/log-0 is a log of no partition (it has no partition.metadata), and of no quorum that this replica is of:"
    " start the replica with --group log=MACHINE if that is its group; or else move that folder away, and take its line"
    " out of /data/recovery-point-offset-checkpoint, whose second line counts the lines below it"
)


def with_a_log_of_an_earlier_quorum(*, clean: bool) -> SimulatedFiles:
    """A disk with the metadata log, and a quorum log that is not asked for any more."""
    files = formatted()
    table = LogTable.open(open_directory(DATA, files=files), (METADATA_LOG, LOG))
    if clean:
        table.close_clean()
    else:
        table.abandon()
    return files


@pytest.mark.parametrize("clean", [True, False])
def test_a_quorum_log_that_nobody_keeps_is_refused(clean: bool) -> None:
    """It would be made a live log, and stand in a topic's way; nothing is changed, a marker is where it was."""
    files = with_a_log_of_an_earlier_quorum(clean=clean)
    before = files.tree()
    with pytest.raises(StorageError) as refused:
        LogTable.open(open_directory(DATA, files=files), (METADATA_LOG,))
    assert str(refused.value) == ADVICE
    assert files.tree() == before
    assert LogTable.open(open_directory(DATA, files=files), (METADATA_LOG, LOG)).recovered.keys() == {METADATA_LOG, LOG}


def test_the_advice_helps() -> None:
    """Without the folder and its line the directory opens, and the name is free for a topic."""
    files = with_a_log_of_an_earlier_quorum(clean=True)
    files.rename(LOG_PATH, DATA.parent / "moved-away")
    version, count, *lines = files.content(RECOVERY_POINTS).decode().splitlines()
    kept = [version, str(int(count) - 1), *(line for line in lines if not line.startswith("log 0 "))]
    files.overwrite(RECOVERY_POINTS, "".join(f"{line}\n" for line in kept).encode())

    table = LogTable.open(open_directory(DATA, files=files), (METADATA_LOG,))
    table.perform(CreateLog(topic_partition=LOG, topic_id=TopicId(7)))
    append(table.stores[LOG], count=1)
    table.close_clean()

    again = LogTable.open(open_directory(DATA, files=files), (METADATA_LOG,))
    assert {name: recovered.topic_id for name, recovered in again.recovered.items()} == {METADATA_LOG: None, LOG: 7}
