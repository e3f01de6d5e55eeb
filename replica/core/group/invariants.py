"""What must hold of a group after every step; checked in debug builds, as the log's own.

Source: Kafka's contract of ``RaftClient.Listener``.
"""

from __future__ import annotations

from replica.core.group.state import GroupState
from replica.ids import Offset


def check_state(g: GroupState, applied_before: Offset) -> None:
    """Check one state, and how far it has come; AssertionError with the values that are wrong."""
    applied_offset, high_watermark = g.machine.applied_offset, g.log.log.high_watermark
    assert applied_offset >= applied_before, (applied_offset, applied_before)
    assert applied_offset <= (high_watermark or Offset(0)), ("applied, not committed", applied_offset, high_watermark)
    assert g.leadership is None or g.leadership.epoch == g.log.leader_epoch, (g.leadership, g.log.leader_epoch)
    assert g.leadership is not None or not len(g.applies), len(g.applies)
    assert g.machine.said in (None, g.machine.description), (g.machine.said, g.machine.description)
    assert g.round is None or g.leadership is not None, g.round
    places = g.config.pending_queries_max + g.config.pending_read_indexes_max
    assert len(g.reads) + len(g.queries) <= places, (len(g.reads), len(g.queries))
