"""Up to where a fetch reads, from every offset: Kafka's UnifiedLogTest."""

from __future__ import annotations

import pytest

from tests.core.partition.bench import PartitionBench, registration

END, HIGH_WATERMARK = 10, 6
FOLLOWER, CONSUMER = 2, None


def reads(reader: int | None, offset: int) -> int | None:
    """Up to where this reader is sent records from an offset; None where it is sent none."""
    bench = PartitionBench(log=[(4, END)], high_watermark=HIGH_WATERMARK)
    bench.metadata(registration(1, 5, isr=(1, 2, 3)))
    read = bench.fetch(reader, offset)
    return None if read.range is None else read.range.end_offset


@pytest.mark.parametrize("offset", range(END + 1))
def test_fetch_up_to_log_end_offset(offset: int) -> None:
    """A replica reads all that there is, from wherever it begins."""
    assert reads(FOLLOWER, offset) == (END if offset < END else None)


@pytest.mark.parametrize("offset", range(END + 1))
def test_fetch_up_to_high_watermark(offset: int) -> None:
    """A consumer reads what is committed, and nothing from there on."""
    assert reads(CONSUMER, offset) == (HIGH_WATERMARK if offset < HIGH_WATERMARK else None)
