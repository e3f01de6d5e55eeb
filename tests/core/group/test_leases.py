"""Lease reads: what a leader answers by itself, for how long, and what voters owe it for that; then whole stories.

Each story ends with a question to a leader that was replaced without knowing it. It is put with consistency LEASE, and
its answer must not be the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from replica.bounds import INT32_MAX
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig, QuorumConfig
from replica.core.effects import QuorumState
from replica.core.quorum.roles import BegunRound, Leader
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId
from tests.core.group import wrong_rules
from tests.core.group.bench import LEASE, GroupBench, add, answer_of, ask, leading_bench, replies_of, round_of
from tests.core.group.cluster import GroupCluster
from tests.core.group.test_group_cluster import reply_in
from tests.core.harness import Bench, disk_id, stored
from tests.core.ruled import ruled_by
from tests.core.scenarios import answer_fetch, end, fetch_error, leader_bench, records, reply_of, vote, voted
from tests.core.virtual import Node

LEASES = GroupConfig(tick_interval_ms=INT32_MAX, lease_reads=True, lease_clock_drift_max_percent=10)
LEASE_MS = QuorumConfig().election_timeout_ms * 100 // 110
"""How long a lease of these lasts."""
LEASES_START_MS = QuorumConfig().fetch_timeout_ms - 100
"""Nearly as long as a voter votes for nobody after its start."""
EQUAL = QuorumConfig(
    election_timeout_ms=3000,
    election_backoff_max_ms=100,
    fetch_timeout_ms=3000,
    request_timeout_ms=3000,
    retry_backoff_ms=50,
    fetch_max_wait_ms=100,
)
"""Nobody votes for as long as nobody campaigns: a lease has no other reserve than for clocks."""


def leasing_bench() -> GroupBench:
    """Build a leader that has a lease since just now."""
    bench = leading_bench(group=LEASES)
    bench.call(ask())
    bench.echo(1)
    return bench


def rounds_of(bench: GroupBench) -> tuple[BegunRound, ...]:
    """The rounds of which a leader knows when they began."""
    role = bench.log.role
    assert isinstance(role, Leader), role
    return role.rounds


# --- a leader -------------------------------------------------------------------------------------------------------


def test_a_confirmed_round_gives_a_lease() -> None:
    """While it lasts a question is answered at once, and nobody is asked."""
    bench = leasing_bench()
    bench.elapse(LEASE_MS // 2 - 10)
    call_id = bench.call(ask(consistency=LEASE))
    assert answer_of(bench, call_id) == b"0"
    assert round_of(bench) == 1


def test_a_lease_ends_before_a_faster_clock_has_counted_a_timeout() -> None:
    """By as much as clocks may differ."""
    bench = leasing_bench()
    bench.elapse(LEASE_MS - 1)
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls
    bench.echo(round_of(bench) - 1)
    bench.elapse(1)
    assert bench.call(ask(consistency=LEASE)) in bench.open_calls


def test_a_lease_is_counted_from_the_beginning_of_its_round() -> None:
    """However late the fetches are that confirm it."""
    bench = leading_bench(group=LEASES)
    bench.call(ask())
    bench.elapse(LEASE_MS - 10)
    bench.echo(1)
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls
    bench.elapse(10)
    assert bench.call(ask(consistency=LEASE)) in bench.open_calls


def test_a_lease_is_renewed_when_half_of_it_is_over() -> None:
    """A question in its second half begins a round, for which it does not wait."""
    bench = leasing_bench()
    bench.elapse(LEASE_MS // 2 + 10)
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls
    assert round_of(bench) == 2, "one for both"
    bench.echo(2)
    bench.elapse(LEASE_MS - 1)
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls


def test_an_answer_by_lease_has_all_that_was_committed() -> None:
    """What is committed and not applied yet is waited for."""
    bench = leasing_bench()
    bench.call(add(2))
    bench.flush_all()
    bench.echo(1)
    call_id = bench.call(ask(consistency=LEASE))
    assert call_id in bench.open_calls
    bench.apply_all()
    assert answer_of(bench, call_id) == b"2"


def test_a_leader_begins_without_a_lease() -> None:
    """A question waits for a round, as any other."""
    bench = leading_bench(group=LEASES)
    call_id = bench.call(ask(consistency=LEASE))
    assert call_id in bench.open_calls
    bench.echo(1)
    assert answer_of(bench, call_id) == b"0"


def test_a_lease_ends_with_the_leadership() -> None:
    """Who has resigned has none, whatever time is left."""
    bench = leasing_bench()
    bench.step(ev.ResignRequested())
    assert reply_of(bench, bench.call(ask(consistency=LEASE))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_linearizable_question_asks_whoever_has_a_lease() -> None:
    """It does not trust in clocks."""
    bench = leasing_bench()
    assert bench.call(ask()) in bench.open_calls


def test_many_rounds_at_once_are_bounded() -> None:
    """Of rounds that nobody confirms it is kept when the first began; once they are confirmed there is a lease."""
    bench = leading_bench(group=LEASES)
    for _ in range(100):
        bench.log.begin_read_round(bench.now_ms)
    assert len(rounds_of(bench)) == 16
    bench.echo(100)
    assert bench.log.lease_end_ms == bench.now_ms + LEASE_MS
    bench.call(ask())
    assert len(rounds_of(bench)) == 2


def test_a_follower_answers_by_asking_the_leader() -> None:
    """It has no lease; the question is a linearizable one."""
    bench = GroupBench(group=LEASES, quorum_state=stored(5, leader_id=1))
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    assert bench.call(ask(consistency=LEASE)) in bench.open_calls
    assert bench.requests(m.ReadIndexRequest)


# --- a voter --------------------------------------------------------------------------------------------------------


def test_a_voter_that_hears_from_a_leader_votes_for_nobody() -> None:
    """Its epoch stays as well."""
    bench = GroupBench(group=LEASES, quorum_state=stored(5, leader_id=1))
    bench.elapse(LEASES_START_MS)
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    assert not voted(bench, vote(6, candidate=2)).vote_granted
    assert bench.epoch == 5


def test_a_voter_that_starts_votes_for_nobody() -> None:
    """For a fetch timeout; then as ever."""
    bench = GroupBench(group=LEASES, quorum_state=stored(5))
    assert not voted(bench, vote(6, candidate=2)).vote_granted
    bench.now_ms += QuorumConfig().fetch_timeout_ms
    assert voted(bench, vote(6, candidate=2)).vote_granted


def test_hearsay_of_a_new_epoch_does_not_free_a_voter() -> None:
    """A candidate's epoch gets around by other ways than its request; whom a voter has heard it remembers."""
    bench = GroupBench(group=LEASES, quorum_state=stored(5, leader_id=1))
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    answer_fetch(bench, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, None, 6))
    assert (bench.role, bench.epoch) == ("unattached", 6)
    assert not voted(bench, vote(6, candidate=2)).vote_granted
    bench.now_ms += bench.config.quorum.fetch_timeout_ms
    assert voted(bench, vote(6, candidate=2)).vote_granted


@pytest.mark.parametrize("how", ["EndQuorumEpoch", "a refused fetch"])
def test_a_leader_that_resigns_frees_its_voters(how: str) -> None:
    """It has no lease any more: a successor is elected at once."""
    bench = GroupBench(group=LEASES, quorum_state=stored(5, leader_id=1))
    bench.elapse(LEASES_START_MS)
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    if how == "EndQuorumEpoch":
        bench.answer(end(1, 5, 2, 0))
    else:
        answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 5))
    assert voted(bench, vote(6, candidate=2)).vote_granted


def test_evidence_of_a_leaders_end_does_not_free_its_voters() -> None:
    """It may be wrong, and the leader answer by lease: until a fetch timeout is over nobody gives it up for that."""
    bench = GroupBench(group=LEASES, quorum_state=stored(5, leader_id=1))
    bench.elapse(LEASES_START_MS)
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    bench.step(ev.PeerRefused(replica_id=ReplicaId(1), refused_at_ms=bench.now_ms))
    bench.elapse(2 * bench.log.quorum.campaign_turn_ms)
    assert bench.role == "follower"
    assert not voted(bench, vote(6, candidate=2)).vote_granted


@pytest.mark.parametrize("make", [leader_bench, lambda **others: leading_bench(group=GroupConfig(), **others)])
def test_without_leases_all_is_as_ever(make: Callable[..., Bench]) -> None:
    """A log without a group, or with one that has no leases, has none, and who has led votes at once."""
    bench = make()
    assert bench.log.lease_end_ms is None
    bench.step(ev.ResignRequested())
    assert voted(bench, vote(7, candidate=2, last=(6, 9))).vote_granted


# --- stories --------------------------------------------------------------------------------------------------------


def leased() -> tuple[GroupCluster, Node]:
    """Build a cluster whose leader has a lease, and has applied 1; everybody has everything."""
    cluster = GroupCluster(5, group=LEASES)
    leader = cluster.wait_leader()
    assert replies_of(cluster.answer(leader, add(1))) == [b"1"]
    assert cluster.run(lambda: len({node.disk.end for node in cluster.running()}) == 1)
    renew(cluster, leader)
    return cluster, leader


def renew(cluster: GroupCluster, leader: Node) -> None:
    """Let the leader have a lease since just now."""
    assert reply_in(cluster.answer(leader, ask())) == b"1"


def is_not_answered_old(cluster: GroupCluster, old: Node) -> None:
    """Let the next leader commit 2, and at once put the question to the one that knows nothing of it."""
    new = cluster.wait_leader(other_than=old)
    assert replies_of(cluster.answer(new, add(1))) == [b"2"]
    call = cluster.ask(old, ask(consistency=LEASE, timeout_ms=100))
    assert call.response is None or reply_in(call.response) != b"1", "an old answer"


def candidate_of_the_next_epoch(cluster: GroupCluster, node: Node, epoch: int) -> None:
    """Let a replica come back that was a candidate when it crashed: it asks for votes at once."""
    cluster.crash(node)
    node.disk.quorum_state = QuorumState(
        leader_epoch=Epoch(epoch), voted_id=node.replica_id, voted_directory_id=disk_id(node.replica_id)
    )


def let_a_late_candidate_ask(*, crash_voter: bool) -> None:
    """Let a request for a vote come while its voter owes the leader a lease.

    1. A leads; C crashes, a candidate of the next epoch. 2. A has a new lease, by B. 3. A is cut off. 4. C comes back,
    and asks B for its vote; B may have been started again as well. 5. If it gets the vote, C commits 2 within A's
    lease.
    """
    cluster, leader = leased()
    voter, candidate = (node for node in cluster.running() if node is not leader)
    candidate_of_the_next_epoch(cluster, candidate, leader.log.leader_epoch + 1)
    renew(cluster, leader)
    cluster.isolate(leader.replica_id)
    if crash_voter:
        cluster.crash(voter)
        cluster.start(voter.replica_id)
    cluster.start(candidate.replica_id)
    is_not_answered_old(cluster, leader)


def test_a_late_candidate() -> None:
    """It is elected when the lease is over."""
    let_a_late_candidate_ask(crash_voter=False)


def test_a_late_candidate_and_a_voter_that_has_forgotten() -> None:
    """It is elected when the voter has been there for a fetch timeout."""
    let_a_late_candidate_ask(crash_voter=True)


def test_a_late_echo() -> None:
    """A round that is confirmed when its leader has been replaced already has a lease that is over.

    1. A begins a round, which B and C hear of and echo. 2. A is stopped; the echoes wait in its buffers. 3. B and C
    elect one of them, which commits 2. 4. A goes on, and finds the echoes.
    """
    cluster, old = leased()
    cluster.ask(old, ask(timeout_ms=60_000))
    cluster.stop(old)
    assert cluster.run(lambda: len(old.buffer) >= 2, within_ms=1000)
    cluster.isolate(old.replica_id)
    new = cluster.wait_leader(other_than=old)
    assert replies_of(cluster.answer(new, add(1))) == [b"2"]
    cluster.resume(old)
    call = cluster.ask(old, ask(consistency=LEASE, timeout_ms=100))
    assert call.response is None or reply_in(call.response) != b"1", "an old answer"


@pytest.mark.parametrize("percent", [100, 105, 110])
def test_clocks_that_differ(percent: int) -> None:
    """Up to the bound that is configured no answer is old.

    The voters' clocks count so much while the leader's counts 100; it is cut off, and they give it up.

    The leader has another lease first: clocks that are set to another speed jump. With this seed the first voter that
    gives the leader up asks when the other has done so as well.
    """
    cluster = GroupCluster(7, group=LEASES, config=EQUAL)
    leader = cluster.wait_leader()
    for node in cluster.running():
        if node is not leader:
            cluster.crash(node)
            node.clock_percent = percent
            cluster.start(node.replica_id)
    assert replies_of(cluster.answer(leader, add(1))) == [b"1"]
    assert cluster.run(lambda: len({node.disk.end for node in cluster.running()}) == 1)
    cluster.run(within_ms=EQUAL.fetch_timeout_ms)
    renew(cluster, leader)
    cluster.isolate(leader.replica_id)
    is_not_answered_old(cluster, leader)


@pytest.mark.parametrize(
    ("wrong", "story"),
    [
        (wrong_rules.VotesWithinALease(), test_a_late_candidate),
        (wrong_rules.LeaseWithoutAnEnd(), test_a_late_candidate),
        (wrong_rules.ForgetsWhomItHeard(), test_a_late_candidate_and_a_voter_that_has_forgotten),
        (wrong_rules.LeaseFromTheFetch(), test_a_late_echo),
        (wrong_rules.LeaseByOneClock(), partial(test_clocks_that_differ, 110)),
    ],
)
def test_by_wrong_rules_a_lease_answers_what_is_old(wrong: Rules, story: Callable[[], None]) -> None:
    """Each story ends with an old answer by the rules that it is about."""
    with ruled_by(wrong), pytest.raises(AssertionError, match="an old answer"):
        story()


def test_clocks_that_differ_by_more_than_the_bound() -> None:
    """Nothing but the bound prevents an old answer."""
    with pytest.raises(AssertionError, match="an old answer"):
        test_clocks_that_differ(150)
