"""What is read from a Kafka broker's disk: batches of our own format, checkpoints, the quorum's state."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.systems.kafka.logs import LogEnds, QuorumWord, high_watermarks, quorum_word, read_dump
from replica.records import encode_batch

NAME = "topic1-0"


def batch(base_offset: int, *values: int, epoch: int = 1) -> bytes:
    """A batch as a leader of that epoch stores it."""
    records = [b"%d" % value for value in values]
    return bytes(encode_batch(records, base_offset=base_offset, leader_epoch=epoch).data)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's folder with two segments of one log."""
    log = tmp_path / NAME
    log.mkdir()
    (log / "00000000000000000000.log").write_bytes(batch(0, 4) + batch(1, 5, 6))
    (log / "00000000000000000003.log").write_bytes(batch(3, 7, epoch=2))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\ntopic1 0 3\n")
    quorum = tmp_path / "__cluster_metadata-0"
    quorum.mkdir()
    (quorum / "quorum-state").write_text('{"leaderId": 2, "leaderEpoch": 9}')
    return tmp_path


def test_a_log_is_read_whole(data: Path) -> None:
    """All segments in order, with the values, the epochs and the checkpoint's high watermark."""
    dump = read_dump(data, 1, NAME)

    assert [(found.base_offset, found.values, found.leader_epoch) for found in dump.batches] == [
        (0, (4,), 1),
        (1, (5, 6), 1),
        (3, (7,), 2),
    ]
    assert (dump.log_start_offset, dump.log_end_offset, dump.high_watermark, dump.complete) == (0, 4, 3, True)
    assert LogEnds().of(data, NAME) == 4


@pytest.mark.parametrize("cut", [1, 12, 60])
def test_a_batch_that_is_not_whole_is_not_there(data: Path, cut: int) -> None:
    """What a broker is just writing, or has left behind, ends the log before it, and the dump says so."""
    with (data / NAME / "00000000000000000003.log").open("ab") as segment:
        segment.write(batch(4, 8, epoch=2)[:cut])

    dump = read_dump(data, 1, NAME)

    assert (dump.log_end_offset, dump.complete) == (4, False)
    assert LogEnds().of(data, NAME) == 4


def test_the_end_follows_a_log_that_grows_and_is_cut(data: Path) -> None:
    """What is appended is seen, what is cut off is gone, and what has taken its place is not taken for it."""
    segment, ends = data / NAME / "00000000000000000003.log", LogEnds()
    first = segment.read_bytes()
    seen = []
    for content in (
        first,
        first + batch(4, 8, epoch=2),
        first,
        first + batch(4, 9, 9, epoch=3),
        batch(3, 1, 2, 3, 4, 5, 6),
    ):
        segment.write_bytes(content)
        seen.append(ends.of(data, NAME))

    assert seen == [4, 5, 4, 6, 9]


def test_what_is_not_written_yet_is_not_known(tmp_path: Path) -> None:
    """A broker that has just begun has no high watermarks, knows no leader, and its log is empty."""
    assert high_watermarks(tmp_path) == {}
    assert quorum_word(tmp_path) is None
    assert read_dump(tmp_path, 1, NAME).log_end_offset == 0


def test_the_quorum_is_told_by_its_file(data: Path) -> None:
    """Who controls in which epoch; a node that knows no leader tells nothing."""
    assert quorum_word(data) == QuorumWord(leader=2, epoch=9)
    (data / "__cluster_metadata-0" / "quorum-state").write_text('{"leaderId": -1, "leaderEpoch": 9}')
    assert quorum_word(data) is None
