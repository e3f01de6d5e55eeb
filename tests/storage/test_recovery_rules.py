"""By which rules a partition's log is recovered: what its leader epochs are made of."""

from __future__ import annotations

import pytest

from replica.core.rules.log import LogRules
from replica.ids import Epoch, EpochEntry
from replica.storage import LogStore, open_directory
from tests.storage.disks import DATA, append, entries, formatted
from tests.storage.partitions import PARTITION, create_partition


class WithoutEpochZero(LogRules):
    """Takes epoch 0 for none."""

    def epoch_is_recovered(self, *, epoch: Epoch) -> bool:
        """Only what is above 0 counts."""
        return epoch > 0


@pytest.mark.parametrize(
    ("rules", "expected"),
    [(None, entries((0, 0), (2, 3))), (LogRules(), entries((0, 0), (2, 3))), (WithoutEpochZero(), entries((2, 3)))],
    ids=("usual", "right", "wrong"),
)
def test_recovery_asks_the_rules_which_epochs_count(rules: LogRules | None, expected: tuple[EpochEntry, ...]) -> None:
    """KAFKA-10432: after an unclean stop the cache has every epoch of the batches, from 0 on."""
    files = formatted()
    _, log = create_partition(files)
    append(log, count=3, epoch=Epoch(0))
    append(log, count=2, epoch=Epoch(2))
    log.flush()
    files.crash()

    _, recovered = LogStore.open(open_directory(DATA, files=files), PARTITION, rules=rules)

    assert recovered.epochs == expected
