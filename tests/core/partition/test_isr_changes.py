"""Who joins the ISR and who leaves it: what a leader proposes, when, and who counts meanwhile."""

from __future__ import annotations

import pytest

from replica.core import messages as m
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import LeaderRecoveryState
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, ReplicaId
from tests.core.partition.bench import PartitionBench, broker, registration

LAG_MS = 30_000


def leading(log: int = 6, *, isr: tuple[int, ...] = (1, 2), high_watermark: int = 0) -> PartitionBench:
    """Let broker 1 lead epoch 5 with so many records of epoch 4."""
    bench = PartitionBench(log=[(4, log)], high_watermark=high_watermark)
    bench.metadata(registration(1, 5, isr=isr))
    return bench


def proposed(bench: PartitionBench) -> list[int] | None:
    """Take the proposal that is due and return whom it names."""
    proposal = bench.proposal()
    return None if proposal is None else [member.broker_id for member in proposal.new_isr]


def keep_up(bench: PartitionBench, *replica_ids: int, ms: int) -> None:
    """Let time pass while these followers fetch at the log's end."""
    for _ in range(ms // 500):
        bench.elapse(500)
        for replica_id in replica_ids:
            bench.fetch(replica_id, bench.end)


# --- growing ----------------------------------------------------------------------------------------------------------


def test_isr_expansion() -> None:
    """A follower is proposed when it reaches the log's end, counts from then on, and is in when that is committed."""
    bench = leading()
    bench.fetch(2, 6)
    bench.fetch(3, 3)
    assert (proposed(bench), bench.maximal_isr) == (None, {1, 2})
    bench.fetch(3, 6)
    assert (bench.isr, bench.maximal_isr) == ({1, 2}, {1, 2, 3})
    proposal = bench.proposal()
    assert proposal is not None
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 500)
    assert proposal.new_isr == tuple(
        m.IsrMember(broker_id=ReplicaId(number), broker_epoch=BrokerEpoch(10 * number)) for number in (1, 2, 3)
    )
    bench.altered(proposal)
    assert (bench.isr, bench.maximal_isr, bench.partition.partition_epoch) == ({1, 2, 3}, {1, 2, 3}, 501)


def test_joining_follower_counts_at_once() -> None:
    """The controller may have let it in already: nothing is committed any more that it does not have."""
    bench = leading(isr=(1,))
    bench.fetch(2, 6)
    bench.fill(2)
    assert (bench.end, bench.high_watermark) == (8, 6)
    bench.elapse(LAG_MS + 1)
    bench.fill(1)
    assert bench.high_watermark == 6, "also when it has not been caught up for long"


@pytest.mark.parametrize(("offset", "joins"), [(4, False), (5, False), (6, True)])
def test_isr_expansion_waits_for_the_start_of_the_epoch(offset: int, joins: bool) -> None:
    """A follower that has all below the high watermark of a new leader may lack what was committed (KAFKA-7128)."""
    bench = leading(isr=(1, 2), high_watermark=4)
    bench.fetch(3, offset)
    assert (3 in bench.maximal_isr) is joins


@pytest.mark.parametrize(
    ("state", "broker_epoch", "joins"),
    [
        pytest.param(broker(3), 30, True, id="test_isr_can_expanded_if_broker_epochs_match"),
        pytest.param(broker(3, fenced=True), 30, False, id="test_isr_not_expanded_if_replica_is_fenced"),
        pytest.param(broker(3, leaving=True), 30, False, id="test_isr_not_expanded_if_in_controlled_shutdown"),
        pytest.param(broker(3), 31, False, id="incarnation_that_the_leader_has_not_heard_of"),
    ],
)
def test_isr_expansion_of_eligible_replicas(state: BrokerRegistration, broker_epoch: int, joins: bool) -> None:
    """Only the registered incarnation of an active broker is proposed."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, isr=(1, 2)), changed=[state])
    bench.fetch(3, 6, broker_epoch=broker_epoch)
    assert (3 in bench.maximal_isr) is joins


def test_isr_can_expanded_if_broker_epochs_match_with_kraft_metadata_cache() -> None:
    """An incarnation that the leader's metadata do not know yet is served, and joins once they know it (KIP-903)."""
    bench = leading(isr=(1, 2))
    assert bench.fetch(3, 6, broker_epoch=31).answer.error is ErrorCode.NONE
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1, 2)), changed=[broker(3, epoch=31)])
    bench.fetch(3, 6, broker_epoch=31)
    assert bench.maximal_isr == {1, 2, 3}


def test_single_in_flight_alter_isr() -> None:
    """One proposal at a time: a second follower waits, and is proposed with its next fetch."""
    bench = leading(isr=(1,))
    bench.fetch(2, 6)
    proposal = bench.proposal()
    assert proposal is not None
    bench.fetch(3, 6)
    assert (proposed(bench), bench.maximal_isr) == (None, {1, 2})
    bench.altered(proposal)
    bench.fetch(3, 6)
    assert proposed(bench) == [1, 2, 3]


def test_asking_for_a_proposal_does_not_send_it() -> None:
    """A proposal is due until the broker says that it was sent."""
    bench = leading(isr=(1,))
    bench.fetch(2, 6)
    first = bench.partition.alter_partition_proposal(bench.now_ms)
    assert first is not None
    assert bench.partition.alter_partition_proposal(bench.now_ms) == first


def test_uncleanly_elected_leader_says_that_it_has_recovered() -> None:
    """The first proposal after an unclean election tells the controller that the leader leads in earnest."""
    bench = PartitionBench(log=[(4, 2)])
    bench.metadata(registration(1, 5, isr=(1,), recovery=LeaderRecoveryState.RECOVERING))
    bench.fetch(2, 2)
    proposal = bench.proposal()
    assert proposal is not None
    assert proposal.leader_recovery_state is LeaderRecoveryState.RECOVERED


# --- shrinking --------------------------------------------------------------------------------------------------------


def test_maybe_shrink_isr() -> None:
    """A silent follower is proposed to leave after the lag limit, and counts until that is committed."""
    bench = leading(isr=(1, 2, 3))
    bench.fetch(2, 6)
    bench.fetch(3, 6)
    bench.fill(1)
    bench.fetch(2, 7)
    keep_up(bench, 2, ms=LAG_MS)
    assert proposed(bench) is None
    keep_up(bench, 2, ms=LAG_MS // 2)
    assert (bench.isr, bench.maximal_isr, bench.high_watermark) == ({1, 2, 3}, {1, 2, 3}, 6)
    proposal = bench.proposal()
    assert proposal is not None
    assert [member.broker_id for member in proposal.new_isr] == [1, 2]
    bench.fetch(2, 7)
    assert bench.high_watermark == 6, "it is only proposed"
    bench.altered(proposal)
    assert (bench.isr, bench.high_watermark) == ({1, 2}, 7)


def test_shrink_is_looked_for_every_half_of_the_limit() -> None:
    """Nobody is put out before the limit, or later than after one and a half of it."""
    bench = leading(isr=(1, 2))
    bench.fetch(2, 6)
    bench.elapse(1)
    bench.fill(1)
    bench.elapse(LAG_MS)
    assert proposed(bench) is None
    bench.elapse(LAG_MS // 2)
    assert proposed(bench) == [1]


def test_follower_that_never_fetched_is_given_the_limit() -> None:
    """A new leader gives in-sync followers their time to show up, not more."""
    bench = leading(isr=(1, 2))
    bench.elapse(LAG_MS)
    assert proposed(bench) is None
    bench.elapse(LAG_MS // 2)
    assert proposed(bench) == [1]


def test_should_not_shrink_isr_if_previous_fetch_is_caught_up() -> None:
    """Under load a follower is always one fetch behind: what counts is that it reaches what there was the last time."""
    bench = leading(isr=(1, 2))
    for _ in range(100):
        end = bench.end
        bench.fill(1)
        bench.elapse(1000)
        bench.fetch(2, end)
    assert (proposed(bench), bench.isr) == (None, {1, 2})


def test_should_not_shrink_isr_if_follower_caught_up_to_log_end() -> None:
    """Nobody who has everything is put out, however long nothing is written and nothing is fetched."""
    bench = leading(isr=(1, 2))
    bench.fetch(2, 6)
    bench.elapse(10 * LAG_MS)
    assert (proposed(bench), bench.isr) == (None, {1, 2})


def test_leader_never_leaves_its_isr() -> None:
    """A leader that everybody has left stays."""
    bench = leading(isr=(1, 2, 3))
    bench.elapse(2 * LAG_MS)
    assert proposed(bench) == [1]


def test_follower_does_not_look_for_lagging_replicas() -> None:
    """Only a leader proposes anything."""
    bench = leading(isr=(1, 2, 3))
    bench.metadata(registration(2, 6))
    bench.elapse(2 * LAG_MS)
    assert proposed(bench) is None
