"""Each clause of the invariants can fail: a state broken by hand is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from replica.core import events as ev
from replica.core.effects import QuorumState
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.log.recovered import StoredSnapshot
from replica.core.log.replicated_log import ParkedProduce
from replica.core.quorum import QuorumLog, invariants
from replica.core.quorum.roles import CatchingUp, Follower, Leader, Role, Unattached
from replica.core.quorum.state import ParkedFetch
from replica.core.quorum.voter_history import VoterHistory
from replica.ids import CallId, CorrelationId, Epoch, EpochEntry, Offset, ReplicaId
from replica.voters import VoterEntry, VoterSet
from tests.core.harness import Bench, batches_of, stored, voters_of
from tests.core.membership_scenarios import fresh_bench, settled_leader
from tests.core.scenarios import campaign, commit, consume, follower_bench, leader_bench
from tests.core.snapshot_scenarios import answer_piece, catching_up_bench, leader_with_snapshots, snapshot_id, whole

Break = Callable[[QuorumLog], None]


def a_candidate() -> Bench:
    bench = Bench(quorum_state=stored(5))
    campaign(bench)
    return bench


def a_follower() -> Bench:
    return follower_bench(leader_id=1, log=[(1, 2), (2, 2)])


def a_leader() -> Bench:
    bench = leader_bench()
    commit(bench, 1)
    return bench


def set_log(**fields: int | None) -> Break:
    def act(q: QuorumLog) -> None:
        for name, value in fields.items():
            setattr(q.log, name, value)

    return act


def set_epochs(*entries: tuple[int, int]) -> Break:
    def act(q: QuorumLog) -> None:
        cache = LeaderEpochCache()
        # Behind the cache's back: by itself it would keep them increasing.
        cache._entries = tuple(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries)
        q.log.epochs = cache

    return act


def set_stored(state: QuorumState) -> Break:
    def act(q: QuorumLog) -> None:
        q.quorum_state = state

    return act


def set_role(**fields: Any) -> Break:
    def act(q: QuorumLog) -> None:
        q.role = replace(q.role, **fields)

    return act


def park_a_fetch(q: QuorumLog) -> None:
    request = consume(0)
    q.fetches.add(ParkedFetch(call_id=CallId(1), deadline_ms=1, request=request, part=request.partitions[0]))


def park_a_produce(q: QuorumLog) -> None:
    q.produces.add(ParkedProduce(call_id=CallId(1), deadline_ms=1, base_offset=Offset(0), end_offset=Offset(1)))


def one_that_resigned() -> Bench:
    bench = a_leader()
    bench.step(ev.ResignRequested())
    assert bench.role == "resigned", bench.role
    return bench


def one_that_received() -> Bench:
    bench = catching_up_bench()
    answer_piece(bench, whole(20, 4))
    return bench


def set_snapshots(*snapshots: tuple[int, int]) -> Break:
    def act(q: QuorumLog) -> None:
        q.log.snapshots = tuple(StoredSnapshot(id=snapshot_id(*snapshot), size_bytes=1) for snapshot in snapshots)

    return act


def a_first_leader() -> Bench:
    return settled_leader()


def one_that_campaigns() -> Bench:
    bench = fresh_bench()
    bench.to_role("prospective")
    return bench


def set_voters(*entries: tuple[int, VoterSet], base_offset: int | None = None) -> Break:
    def act(q: QuorumLog) -> None:
        named = tuple(VoterEntry(offset=Offset(offset), voters=voters) for offset, voters in entries)
        known = None if base_offset is None else Offset(base_offset)
        q.voter_history = VoterHistory(base=voters_of(0, 1, 2), base_offset=known, entries=named)

    return act


def force_voters(*replica_ids: int) -> Break:
    def act(q: QuorumLog) -> None:
        q.voter_history = VoterHistory(base=voters_of(*replica_ids))
        q.follow_voters()

    return act


@pytest.mark.parametrize(
    ("build", "breakage"),
    [
        pytest.param(a_follower, set_log(log_start_offset=5), id="log_start_above_log_end"),
        pytest.param(a_follower, set_log(log_start_offset=3, high_watermark=2), id="high_watermark_below_log_start"),
        pytest.param(a_follower, set_log(high_watermark=5), id="high_watermark_above_log_end"),
        pytest.param(a_follower, set_log(flushed_end_offset=5), id="flushed_above_log_end"),
        pytest.param(a_leader, set_role(high_watermark=Offset(3)), id="leaders_high_watermark_above_log_end"),
        pytest.param(a_follower, set_epochs((2, 0), (1, 1)), id="epochs_fall"),
        pytest.param(a_follower, set_epochs((1, 1), (2, 1)), id="epochs_start_at_one_offset"),
        pytest.param(a_follower, set_epochs((1, 0), (2, 5)), id="epoch_starts_beyond_log_end"),
        pytest.param(a_follower, set_stored(stored(1, leader_id=1)), id="stored_epoch_below_the_logs"),
        pytest.param(a_leader, set_stored(stored(6, voted_id=0)), id="leader_not_recorded"),
        pytest.param(a_leader, set_stored(stored(6, leader_id=1)), id="another_leader_recorded"),
        pytest.param(a_follower, set_role(leader_id=ReplicaId(2)), id="follows_another_than_recorded"),
        pytest.param(a_candidate, set_stored(stored(6)), id="candidate_without_its_vote"),
        pytest.param(a_candidate, set_stored(stored(6, leader_id=1, voted_id=0)), id="candidate_knows_a_leader"),
        pytest.param(a_candidate, lambda q: q.append(*batches_of((5, 1))), id="candidate_with_unflushed_records"),
        pytest.param(a_follower, park_a_fetch, id="follower_with_a_parked_fetch"),
        pytest.param(fresh_bench, park_a_fetch, id="unattached_with_a_parked_fetch"),
        pytest.param(one_that_campaigns, park_a_fetch, id="prospective_with_a_parked_fetch"),
        pytest.param(a_candidate, park_a_fetch, id="candidate_with_a_parked_fetch"),
        pytest.param(one_that_resigned, park_a_fetch, id="resigned_with_a_parked_fetch"),
        pytest.param(one_that_resigned, set_stored(stored(6, leader_id=1)), id="resigned_after_another"),
        pytest.param(a_candidate, force_voters(1, 2, 3), id="one_that_never_voted_asks_for_votes"),
        pytest.param(a_follower, park_a_produce, id="follower_with_a_parked_write"),
        pytest.param(leader_with_snapshots, set_snapshots(), id="log_start_without_a_snapshot"),
        pytest.param(leader_with_snapshots, set_snapshots((20, 4)), id="log_start_below_all_snapshots"),
        pytest.param(leader_with_snapshots, set_log(log_start_offset=12), id="log_start_between_snapshots"),
        pytest.param(leader_with_snapshots, set_snapshots((10, 2), (10, 2)), id="two_snapshots_of_one_end"),
        pytest.param(leader_with_snapshots, set_snapshots((10, 5), (20, 4)), id="epochs_of_snapshots_go_back"),
        pytest.param(leader_with_snapshots, set_snapshots((10, 2), (31, 6)), id="snapshot_above_high_watermark"),
        pytest.param(leader_with_snapshots, set_snapshots((10, 2), (20, 3)), id="snapshot_of_another_epoch"),
        pytest.param(one_that_received, set_role(catching_up=CatchingUp(snapshot_id=snapshot_id(30, 4))), id="asks"),
        pytest.param(one_that_received, set_role(pending=CorrelationId(1)), id="fetches_though_it_has_received"),
        pytest.param(one_that_received, set_log(flushed_end_offset=1), id="has_received_and_is_not_flushed"),
        pytest.param(
            a_first_leader, set_voters((0, voters_of(0, 1)), (1, voters_of(0, 1, 2, 3))), id="two_voters_at_once"
        ),
        pytest.param(a_first_leader, set_voters((1, voters_of(0)), base_offset=0), id="two_less_than_a_snapshot"),
        pytest.param(
            a_first_leader, set_voters((1, voters_of(0, 1)), (1, voters_of(0, 1))), id="two_sets_at_one_offset"
        ),
        pytest.param(a_first_leader, set_voters((2, voters_of(0, 1))), id="voters_beyond_log_end"),
        pytest.param(a_first_leader, force_voters(), id="leader_of_nobody"),
        pytest.param(a_first_leader, force_voters(0, 1), id="leader_counts_others_than_those_in_force"),
        pytest.param(one_that_campaigns, force_voters(1, 2, 3), id="one_that_never_voted_campaigns"),
    ],
)
def test_clauses_about_one_state(build: Callable[[], Bench], breakage: Break) -> None:
    """A state that is whole passes; broken in one place it does not."""
    log = build().log
    invariants.check_state(log)
    breakage(log)
    with pytest.raises(AssertionError):
        invariants.check_state(log)


def test_every_role_has_its_clauses() -> None:
    """None is left out, so that none is passed over."""
    assert set(invariants.OF_ROLE) == set(get_args(Role))


def follows_in_its_own_epoch(q: QuorumLog) -> None:
    q.role = Follower(leader_id=ReplicaId(1), heard_ms=0, fetch_deadline_ms=0)


def forgets_its_leadership(q: QuorumLog) -> None:
    q.role = Unattached(election_deadline_ms=0)


def forgets_its_high_watermark(q: QuorumLog) -> None:
    assert isinstance(q.role, Leader)
    q.role = replace(q.role, high_watermark=None)


@pytest.mark.parametrize(
    ("build", "breakage"),
    [
        pytest.param(a_follower, set_stored(stored(4, leader_id=1)), id="epoch_falls"),
        pytest.param(a_candidate, set_stored(stored(6, voted_id=1)), id="second_vote"),
        pytest.param(a_candidate, set_stored(stored(6)), id="vote_forgotten"),
        pytest.param(a_follower, set_stored(stored(5, leader_id=2)), id="second_leader"),
        pytest.param(a_follower, set_stored(stored(5)), id="leader_forgotten"),
        pytest.param(a_leader, set_log(high_watermark=0), id="high_watermark_falls"),
        pytest.param(a_leader, set_log(high_watermark=None), id="high_watermark_forgotten"),
        pytest.param(a_leader, set_role(high_watermark=Offset(0)), id="leaders_high_watermark_falls"),
        pytest.param(a_leader, forgets_its_high_watermark, id="leaders_high_watermark_forgotten"),
        pytest.param(a_leader, follows_in_its_own_epoch, id="leader_follows_in_its_own_epoch"),
        pytest.param(a_leader, forgets_its_leadership, id="leader_is_unattached_in_its_own_epoch"),
        pytest.param(leader_with_snapshots, set_log(log_start_offset=9), id="log_start_falls"),
        pytest.param(leader_with_snapshots, set_snapshots(), id="snapshots_forgotten"),
        pytest.param(leader_with_snapshots, set_snapshots((10, 2)), id="newest_snapshot_forgotten"),
    ],
)
def test_clauses_about_a_step(build: Callable[[], Bench], breakage: Break) -> None:
    """No change is a legal step; a step that takes something back is not."""
    log = build().log
    before = invariants.observe(log)
    invariants.check_step(before, log)
    breakage(log)
    with pytest.raises(AssertionError):
        invariants.check_step(before, log)


def test_every_step_is_checked() -> None:
    """A broken state does not survive the next step of its log, whatever that step is."""
    bench = a_follower()
    set_log(high_watermark=9)(bench.log)
    with pytest.raises(AssertionError):
        bench.log.step(ev.Ticked(), bench.now_ms)
