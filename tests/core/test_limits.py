"""What must stay bounded: epochs within what a batch can hold, the memory of calls that have left, counted bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from replica.core import messages as m
from replica.core.log.log_state import LogState
from replica.core.log.recovered import RecoveredLog
from replica.core.purgatory import Purgatory
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, CallId, Offset
from replica.records import encode_batch
from tests.core.scenarios import answer_fetch, begin, end, fetch_error, follower_bench, vote

BEYOND = EPOCH_MAX + 1


@pytest.mark.parametrize(
    "request_",
    [vote(BEYOND), vote(BEYOND, pre_vote=True), begin(1, BEYOND), end(1, BEYOND)],
    ids=["vote", "pre-vote", "begin", "end"],
)
def test_an_epoch_that_no_batch_could_follow_is_refused(request_: m.Request) -> None:
    """A request from beyond the largest epoch changes nothing: stored, it would fail every later campaign."""
    bench = follower_bench(epoch=5)
    answered = bench.answer(request_)
    assert answered is not None
    assert (answered.error, bench.epoch) == (ErrorCode.INVALID_REQUEST, 5)


def test_an_epoch_that_no_batch_could_follow_is_not_learnt_from_an_answer() -> None:
    """What a response says of such an epoch is ignored."""
    bench = follower_bench(epoch=5)
    answer_fetch(bench, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, None, BEYOND))
    assert bench.epoch == 5


def test_bytes_of_the_batch_that_holds_the_start_are_counted() -> None:
    """A fetch from the middle of a batch gets the whole batch, so its bytes count towards ``min_bytes``."""
    log = LogState(RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=()))
    batch = encode_batch([b"a", b"b", b"c"], leader_epoch=0)
    log.append([batch])
    assert log.count_bytes(Offset(1), Offset(3)) >= batch.size_bytes
    assert log.count_bytes(Offset(1), Offset(3)) < batch.size_bytes + 1


@dataclass(frozen=True)
class Waiting:
    """A call that waits."""

    call_id: CallId
    deadline_ms: int


def test_calls_that_have_left_do_not_pile_up() -> None:
    """However many calls come and go before their deadlines, the purgatory remembers a bounded number of deadlines."""
    purgatory: Purgatory[Waiting] = Purgatory(10)
    stays = Waiting(CallId(0), 1_000_000)
    purgatory.add(stays)
    for n in range(1, 1000):
        purgatory.add(Waiting(CallId(n), 1_000_000 + n))
        purgatory.take_if(lambda waiting: waiting is not stays)
    assert len(purgatory._deadlines) <= 2 * 10 + 1
    assert purgatory.take_expired(1_000_000) == [stays]
