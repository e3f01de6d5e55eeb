"""A scenario of recovery that right rules pass and wrong ones do not."""

from __future__ import annotations

from replica.core.rules.log import LogRules
from replica.ids import Epoch
from replica.storage import LogStore, open_directory
from tests.storage.disks import DATA, append, entries, formatted
from tests.storage.partitions import PARTITION, create_partition


def every_epoch_of_the_batches_is_recovered(rules: LogRules) -> None:
    """KAFKA-10432: after an unclean stop the cache has every epoch of the batches, from 0 on."""
    files = formatted()
    _, log = create_partition(files)
    append(log, count=3, epoch=Epoch(0))
    append(log, count=2, epoch=Epoch(2))
    log.flush()
    files.crash()

    _, recovered = LogStore.open(open_directory(DATA, files=files), PARTITION, rules=rules)

    assert recovered.epochs == entries((0, 0), (2, 3))
