"""What becomes of a proposed ISR: the matrix of answers, silence, and metadata that is faster than the answer."""

from __future__ import annotations

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from tests.core.partition.bench import PartitionBench, broker, registration

BACKOFF_MS = 100
LAG_MS = 30_000


def expanding() -> tuple[PartitionBench, m.AlterPartition]:
    """Let broker 1, alone in sync, propose broker 2, and go on to write what that one does not have."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, isr=(1,)))
    bench.fetch(2, 6)
    proposal = bench.proposal()
    assert proposal is not None
    bench.fill(2)
    return bench, proposal


def shrinking() -> tuple[PartitionBench, m.AlterPartition]:
    """Let broker 1 propose that broker 2 leaves."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, isr=(1, 2)))
    bench.elapse(2 * LAG_MS)
    proposal = bench.proposal()
    assert proposal is not None
    return bench, proposal


STUCK = [
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
]


@pytest.mark.parametrize("error", STUCK)
def test_isr_not_expanded_if_update_fails(error: ErrorCode) -> None:
    """The controller knows something newer: the candidate counts, and nothing is proposed, until metadata comes."""
    bench, proposal = expanding()
    bench.altered(proposal, error)
    bench.elapse(10 * LAG_MS)
    bench.fetch(3, bench.end)
    assert (bench.isr, bench.maximal_isr, bench.proposal()) == ({1}, {1, 2}, None)
    assert bench.high_watermark == 6
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1,)))
    assert bench.maximal_isr == {1}
    bench.fetch(3, bench.end)
    assert bench.proposal() is not None


@pytest.mark.parametrize("error", STUCK)
def test_isr_not_shrunk_if_update_fails(error: ErrorCode) -> None:
    """Whoever was to leave counts until metadata says that it has left."""
    bench, proposal = shrinking()
    bench.altered(proposal, error)
    bench.elapse(10 * LAG_MS)
    assert (bench.isr, bench.maximal_isr, bench.proposal(), bench.high_watermark) == ({1, 2}, {1, 2}, None, 0)


@pytest.mark.parametrize("error", [None, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_partition_should_retry_alter_partition_request(error: ErrorCode | None) -> None:
    """What was not answered may have been done: the candidate counts, and the same is proposed after a pause."""
    bench, proposal = expanding()
    bench.altered(proposal, error)
    assert (bench.maximal_isr, bench.high_watermark, bench.proposal()) == ({1, 2}, 6, None)
    assert bench.partition.deadline_ms == bench.now_ms + BACKOFF_MS
    bench.elapse(BACKOFF_MS)
    assert bench.proposal() == proposal
    assert bench.partition.deadline_ms != bench.now_ms, "what is due for the broker is no deadline"


def test_retry_shrink_isr() -> None:
    """A shrink that was not answered is proposed again, and committed then."""
    bench, proposal = shrinking()
    bench.altered(proposal, None)
    bench.elapse(BACKOFF_MS)
    again = bench.proposal()
    assert again == proposal
    bench.altered(again)
    assert (bench.isr, bench.high_watermark) == ({1}, 6)


def test_alter_isr_leader_and_isr_race() -> None:
    """Newer metadata lands before the answer to a proposal: the answer is about what is no more."""
    bench, proposal = expanding()
    bench.metadata(registration(1, 5, partition_epoch=502, isr=(1, 3)))
    for error in (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, None):
        bench.altered(proposal, error)
        assert (bench.isr, bench.partition.partition_epoch, bench.proposal()) == ({1, 3}, 502, None)


def test_answer_of_an_earlier_leadership_is_ignored() -> None:
    """An answer that comes when others have led in between changes nothing, on a leader and on a follower."""
    bench, proposal = expanding()
    bench.metadata(registration(2, 6))
    bench.altered(proposal)
    assert bench.isr == {1, 2, 3}
    bench.metadata(registration(1, 7, isr=(1,)))
    bench.altered(proposal)
    assert (bench.isr, bench.maximal_isr) == ({1}, {1})


def test_answer_that_leads_to_another_leadership_waits_for_metadata() -> None:
    """Committed, but in another leader epoch: both ISRs count until the metadata says what that is."""
    bench, proposal = expanding()
    bench.altered(proposal, leader_epoch=6)
    assert (bench.isr, bench.maximal_isr, bench.proposal()) == ({1}, {1, 2}, None)
    bench.metadata(registration(1, 6, isr=(1, 2)))
    assert bench.isr == {1, 2}


def test_metadata_of_the_answer_changes_nothing() -> None:
    """The metadata that tells of a committed proposal comes after its answer, and drops nothing proposed since."""
    bench, proposal = expanding()
    bench.altered(proposal)
    bench.fetch(2, bench.end)
    bench.fetch(3, bench.end)
    assert (bench.isr, bench.maximal_isr) == ({1, 2}, {1, 2, 3})
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1, 2)))
    assert bench.maximal_isr == {1, 2, 3}, "equal epochs are no news"
    bench.metadata(registration(1, 5, partition_epoch=500, isr=(1,)))
    assert (bench.isr, bench.maximal_isr) == ({1, 2}, {1, 2, 3}), "and older ones are none either"


def test_committed_shrink_names_the_incarnations_that_stay() -> None:
    """A proposal names each member's incarnation as it has fetched; one that has not been heard of is not named."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, replicas=(1, 2, 3, 4)), changed=[broker(2, epoch=25)])
    bench.elapse(LAG_MS - 1000)
    bench.fetch(2, 6, broker_epoch=25)
    bench.fetch(3, 6)
    bench.elapse(LAG_MS)
    proposal = bench.proposal()
    assert proposal is not None
    assert [(member.broker_id, member.broker_epoch) for member in proposal.new_isr] == [(1, 10), (2, 25), (3, 30)]


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
@pytest.mark.parametrize("is_first_lost", [True, False])
def test_a_refused_expansion_is_withdrawn(error: ErrorCode, is_first_lost: bool) -> None:
    """An expansion of which a copy may arrive yet counts until the controller has committed the ISR without it.

    Reverted at once, it would let records be committed that the candidate lacks; then the copy lets the candidate in.
    """
    bench, proposal = expanding()
    if is_first_lost:
        bench.altered(proposal, None)
        bench.elapse(BACKOFF_MS)
    bench.altered(proposal, error)
    assert (bench.isr, bench.maximal_isr, bench.high_watermark) == ({1}, {1, 2}, 6)

    bench.elapse(BACKOFF_MS)
    withdrawal = bench.proposal()
    assert withdrawal is not None
    assert [member.broker_id for member in withdrawal.new_isr] == [1]
    assert bench.maximal_isr == {1, 2}
    bench.altered(withdrawal)
    assert (bench.isr, bench.maximal_isr) == ({1}, {1})


def test_a_shrink_that_is_refused_after_silence_is_reverted() -> None:
    """A copy of a smaller ISR that comes late harms nobody: whoever was to leave counts anyway."""
    bench, proposal = shrinking()
    bench.altered(proposal, None)
    bench.elapse(BACKOFF_MS)
    bench.altered(proposal, ErrorCode.INELIGIBLE_REPLICA)

    assert (bench.isr, bench.maximal_isr) == ({1, 2}, {1, 2})
