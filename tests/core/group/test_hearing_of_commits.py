"""When a group's follower hears of what is committed: with the next records, or a moment later if there are none."""

from __future__ import annotations

from replica.core.config import QuorumConfig
from replica.core.messages import FetchRequest
from tests.core.group.bench import GroupBench
from tests.core.harness import Bench, batches_of, stored
from tests.core.scenarios import answer_fetch, follower_bench, pending_fetch, records

CONFIG = QuorumConfig()


def following(bench: Bench) -> tuple[bool, int]:
    """Whether the high watermark may wait in the fetch that is out, and how long that fetch waits for records."""
    (request,) = [send.request for send in bench.sends if isinstance(send.request, FetchRequest)]
    return pending_fetch(bench).high_watermark_may_wait, request.max_wait_ms


def test_a_follower_that_is_owed_a_high_watermark_waits_for_records_a_moment_only() -> None:
    """What it has appended may be committed already: it is told with what comes next, 10 ms later at the latest."""
    bench = GroupBench(log=[(1, 2)], quorum_state=stored(5, leader_id=1))
    answer_fetch(bench, records(batches_of((5, 1), start=2), leader_id=1, epoch=5, high_watermark=2))
    bench.flush()
    assert following(bench) == (True, CONFIG.high_watermark_wait_ms)
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=3))
    assert following(bench) == (False, CONFIG.fetch_max_wait_ms)


def test_the_metadata_log_tells_at_once() -> None:
    """All brokers wait to hear what was decided."""
    bench = follower_bench(log=[(1, 2)])
    answer_fetch(bench, records(batches_of((5, 1), start=2), leader_id=1, epoch=5, high_watermark=2))
    bench.flush()
    assert following(bench) == (False, CONFIG.fetch_max_wait_ms)
