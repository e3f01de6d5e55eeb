"""What must hold of every replicated log after every step, clause by clause.

A clause that fails is our own mistake, hence an ``AssertionError`` with the values. The clauses about leadership each
kind of log has for itself.
"""

from __future__ import annotations

from itertools import pairwise

from replica.core.log.replicated_log import ReplicatedLog
from replica.ids import EpochEntry


def check_log(log: ReplicatedLog, checked: tuple[EpochEntry, ...] | None) -> None:
    """Raise AssertionError unless every clause holds; what was ``checked`` of the epochs is not gone through again."""
    _offsets_are_ordered(log)
    _epochs_increase(log, checked)
    _only_a_leader_has_parked_produces(log)


def _offsets_are_ordered(log: ReplicatedLog) -> None:
    known = log.log
    high_watermark = known.log_start_offset if known.high_watermark is None else known.high_watermark
    ends = (known.log_start_offset, high_watermark, known.log_end_offset)
    assert ends[0] <= ends[1] <= ends[2], ends
    assert known.flushed_end_offset <= known.log_end_offset, (known.flushed_end_offset, known.log_end_offset)


def _epochs_increase(log: ReplicatedLog, checked: tuple[EpochEntry, ...] | None) -> None:
    entries = log.log.epochs.entries
    if entries is not checked:
        for earlier, later in pairwise(entries):
            assert earlier.epoch < later.epoch, entries
            assert earlier.start_offset < later.start_offset, entries
    assert not entries or entries[-1].start_offset <= log.log.log_end_offset, (entries, log.log.log_end_offset)


def _only_a_leader_has_parked_produces(log: ReplicatedLog) -> None:
    if not log.is_leader:
        waiting = len(log.produces)
        assert waiting == 0 or log.rules.writes_wait_after_leadership(), (log.role_name, waiting)
