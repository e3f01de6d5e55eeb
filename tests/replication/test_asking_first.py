"""A follower that asks where epochs end before it fetches, and what it is told: Kafka's ReplicaFetcherThreadTest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.replication.puppets import fetched
from tests.replication.stage import Heard
from tests.replication.test_follower import ASK_FIRST, EPOCH, Stage, say_epoch


def asked(stage: Stage) -> tuple[m.OffsetForLeaderEpochRequest, Heard]:
    """The question that waits at the present leader."""
    return stage.leader.hear(m.OffsetForLeaderEpochRequest)


@pytest.mark.parametrize("end_offset", [156, 172])
def test_should_truncate_to_offset_specified_in_epoch_offset_response(end_offset: int) -> None:
    """Where the leader's epoch ends earlier, the follower cuts its log there, and fetches from there."""
    stage = Stage(ASK_FIRST).with_log((5, 200))
    say_epoch(stage, 5, 5, end_offset)
    assert stage.end == end_offset
    assert stage.say(fetched(stage.topic)).fetch_offset == end_offset


@pytest.mark.parametrize(("answer", "end"), [((5, 156), 156), ((5, 202), 200), ((4, 156), 0)])
def test_should_truncate_to_offset_specified_in_epoch_offset_response_if_follower_has_no_more_epochs(
    answer: tuple[int, int], end: int
) -> None:
    """A follower with one epoch keeps what both have of it; where the leader has only older ones they share nothing."""
    stage = Stage(ASK_FIRST).with_log((5, 200))
    say_epoch(stage, 5, *answer)
    assert stage.end == end
    assert stage.say(fetched(stage.topic)).fetch_offset == end


def test_leader_epoch_change_during_fenced_fetch_epochs_from_leader() -> None:
    """That an epoch which is over was refused does not stop a follower: it asks the next leader."""
    assert_late_answer_is_not_taken(m.OffsetForLeaderEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH))


def test_leader_epoch_change_during_successful_fetch_epochs_from_leader() -> None:
    """What is answered in an epoch that is over does not cut a follower's log: it asks the next leader."""
    answer = EpochEndOffset(Epoch(5), Offset(1))
    assert_late_answer_is_not_taken(m.OffsetForLeaderEpochResponse(error=ErrorCode.NONE, answer=answer))


def assert_late_answer_is_not_taken(answer: m.OffsetForLeaderEpochResponse) -> None:
    """A follower that asked in an epoch before neither stops nor cuts."""
    stage = Stage(replace(ASK_FIRST, replica_socket_timeout_ms=30_000)).with_log((5, 3))
    request, late = asked(stage)
    assert request.current_leader_epoch == EPOCH

    stage.change_leader()
    late.answer(answer)
    stage.cluster.pass_ms(20)

    assert stage.end == 3
    request, _ = asked(stage)
    assert (request.current_leader_epoch, request.leader_epoch) == (EPOCH + 1, 5)
