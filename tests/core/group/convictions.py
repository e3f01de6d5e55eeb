"""Scenarios that the right rules pass and a wrong one does not; each is a story of ``replica/core/rules/group.py``."""

from __future__ import annotations

from collections.abc import Callable

from nemesis.variants.groups import LeaseEndedByARefusal
from replica.bounds import INT32_MAX
from replica.core import events as ev
from replica.core.config import GroupConfig, QuorumConfig
from replica.core.quorum.roles import Leader
from replica.core.rules import Rules
from replica.ids import ReplicaId, TopicPartition
from replica.machines import OpenSession, SessionCommand, SessionId
from tests.core.group import wrong_rules
from tests.core.group.bench import (
    LEASE,
    GroupBench,
    add,
    answer_of,
    apply,
    ask,
    leading_bench,
    replies_of,
)
from tests.core.group.cluster import GroupCluster
from tests.core.harness import stored
from tests.core.scenarios import answer_fetch, commit, fetch, fetched, lead, records, reply_of, vote, voted
from tests.core.test_raft_transfer import transfer

BY_SIZE = GroupConfig(snapshot_max_record_bytes_between=400, tick_interval_ms=INT32_MAX)
BY_TIME = GroupConfig(snapshot_max_interval_ms=1000, tick_interval_ms=INT32_MAX)
BALANCED = GroupConfig(tick_interval_ms=INT32_MAX, leader_imbalance_check_interval_seconds=10)
LEASES = GroupConfig(tick_interval_ms=INT32_MAX, lease_reads=True, lease_clock_drift_max_percent=10)
LEASE_MS = QuorumConfig().election_timeout_ms * 100 // 110
"""How long a lease of these lasts."""


def what_an_earlier_leader_has_answered_is_read(rules: Rules) -> None:
    """A command that was committed and answered is in the log of the next leader, which does not know that it is.

    Asked before it knows, it answers when it does, and with what the command has done.
    """
    bench = leading_bench(rules=rules)
    call_id = bench.call(add(2))
    bench.flush_all()
    bench.restart()  # Another voter has fetched it, and led meanwhile, and answered.
    lead(bench)
    call_id = bench.call(ask())
    end = bench.log.log.log_end_offset
    fetched(bench, fetch(end - 1, 6, bench.epoch, replica=1))
    bench.echo(1)
    commit(bench, 1)
    bench.apply_all()
    bench.echo(1)
    assert answer_of(bench, call_id) == b"2"


def who_has_resigned_does_not_lead(rules: Rules) -> None:
    """What a leader still applies after its resignation does not make its machine lead."""
    bench = leading_bench(rules=rules)
    bench.call(add(2))
    bench.flush_all()
    commit(bench, 1)
    bench.step(ev.ResignRequested())
    bench.apply_all()
    assert not bench.group.machine_leads


def a_linearizable_question_waits_for_a_majority(rules: Rules) -> None:
    """Who may have been replaced does not answer from what it knows."""
    bench = leading_bench(rules=rules)
    assert bench.call(ask()) in bench.open_calls


def an_answer_has_all_that_was_committed_before(rules: Rules) -> None:
    """What is committed and not applied yet is waited for."""
    bench = leading_bench(rules=rules)
    bench.call(add(2))
    bench.flush_all()
    commit(bench, 1)
    call_id = bench.call(ask())
    bench.echo(1)
    bench.apply_all()
    assert answer_of(bench, call_id) == b"2"


def a_snapshot_ends_behind_its_last_record(rules: Rules) -> None:
    """Named so it can be restored, and what comes behind it applied."""
    bench = leading_bench(rules=rules, group=BY_SIZE)
    while not bench.disk.storing:
        bench.call(add(1))
        bench.commit_all()
    applied_offset = bench.group.applied_offset
    bench.store_all()
    bench.restart()
    assert (bench.halted, bench.group.applied_offset) == (None, applied_offset)


def a_command_that_is_sent_again_is_applied_once_after_a_restart(rules: Rules) -> None:
    """A replica that begins with a snapshot knows whose commands it has applied."""
    bench = leading_bench(rules=rules, group=BY_TIME)
    bench.call(apply(OpenSession(ttl_ms=60_000)))
    bench.commit_all()
    command = SessionCommand(session_id=SessionId(3), sequence=0, acknowledged=0, command=b"5")
    bench.call(apply(command))
    bench.commit_all()
    bench.elapse(1000)
    bench.store_all()
    bench.restart()
    lead(bench)
    bench.commit_all()
    call_id = bench.call(apply(command))
    bench.commit_all()
    assert (replies_of(reply_of(bench, call_id)), bench.total()) == ([b"5"], 5)


def a_fetch_that_was_sent_before_the_question_does_not_confirm_it(rules: Rules) -> None:
    """It arrives after the question, and echoes an earlier round: its sender may follow another by now."""
    bench = leading_bench(rules=rules)
    call_id = bench.call(ask())
    bench.echo(0)
    assert call_id in bench.open_calls
    bench.echo(1)
    assert call_id not in bench.open_calls


def round_of(bench: GroupBench) -> int:
    """The read round of a leader."""
    role = bench.log.role
    assert isinstance(role, Leader), role
    return role.read_round


# --- leases ---------------------------------------------------------------------------------------------------------


def leasing_bench(rules: Rules) -> GroupBench:
    """Build a leader that has a lease since just now."""
    bench = leading_bench(rules=rules, group=LEASES)
    bench.call(ask())
    bench.echo(1)
    return bench


def a_lease_ends_before_a_faster_clock_has_counted_a_timeout(rules: Rules) -> None:
    """What a voter's clock may be ahead is taken off; then the leader asks a majority again."""
    bench = leasing_bench(rules)
    bench.elapse(LEASE_MS - 1)
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls
    bench.echo(round_of(bench) - 1)
    bench.elapse(1)
    assert bench.call(ask(consistency=LEASE)) in bench.open_calls


def a_lease_is_counted_from_the_beginning_of_its_round(rules: Rules) -> None:
    """A voter may have heard of the round long before its fetch arrives: it could have voted meanwhile."""
    bench = leading_bench(rules=rules, group=LEASES)
    bench.call(ask())
    bench.elapse(LEASE_MS - 10)
    bench.echo(1)
    assert bench.call(ask(consistency=LEASE)) not in bench.open_calls
    bench.elapse(10)
    assert bench.call(ask(consistency=LEASE)) in bench.open_calls


def a_voter_that_hears_from_a_leader_votes_for_nobody(rules: Rules) -> None:
    """Nor does it take the candidate's epoch, for a fetch timeout."""
    bench = GroupBench(rules=rules, group=LEASES, quorum_state=stored(5, leader_id=1))
    bench.elapse(LEASES_START_MS)
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    assert not voted(bench, vote(6, candidate=2)).vote_granted
    assert bench.epoch == 5


LEASES_START_MS = QuorumConfig().fetch_timeout_ms - 100
"""Nearly as long as a voter votes for nobody after its start."""


def a_voter_that_starts_votes_for_nobody(rules: Rules) -> None:
    """It may have heard from a leader just before, and votes a fetch timeout later."""
    bench = GroupBench(rules=rules, group=LEASES, quorum_state=stored(5))
    assert not voted(bench, vote(6, candidate=2)).vote_granted
    bench.now_ms += QuorumConfig().fetch_timeout_ms
    assert voted(bench, vote(6, candidate=2)).vote_granted


def a_voter_that_owes_its_vote_keeps_its_leader(rules: Rules) -> None:
    """Evidence that its process has ended may be wrong, and the leader answer by lease."""
    bench = GroupBench(rules=rules, group=LEASES, quorum_state=stored(5, leader_id=1))
    bench.elapse(LEASES_START_MS)
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    bench.step(ev.PeerRefused(replica_id=ReplicaId(1), refused_at_ms=bench.now_ms))
    bench.elapse(2 * bench.log.quorum.campaign_turn_ms)
    assert bench.role == "follower"
    assert not voted(bench, vote(6, candidate=2)).vote_granted


# --- where groups are led -------------------------------------------------------------------------------------------


def keep_up(bench: GroupBench, ms: int, *voters: int, behind: tuple[int, ...] = (), step_ms: int = 500) -> None:
    """Let so much time pass, in which these voters (0 and 2) fetch from the log's end, and others from its second."""
    for _ in range(0, ms, step_ms):
        bench.elapse(min(step_ms, ms))
        for voter in voters or (0, 2):
            if voter not in behind and bench.role == "leader":
                bench.echo(0, voter=voter)
        for voter in behind:
            fetched(bench, fetch(1, bench.epoch, bench.epoch, replica=voter))


def an_attempt_in_vain_is_not_soon_repeated(rules: Rules) -> None:
    """The preferred leader keeps up, and does not hear that it should lead: a transfer begins, and times out."""
    bench = leading_bench(rules=rules, group=BALANCED, replica_id=1)
    attempts = []
    for _ in range(8):
        keep_up(bench, 5_000)
        attempts.append(round_of(bench))
    assert attempts == [0, 1, 1, 1, 1, 2, 2, 2], "each begins a round, and the second comes after twice the time"


def the_target_of_a_transfer_is_there(rules: Rules) -> None:
    """A leader does not resign for one that may be gone by now."""
    bench = leading_bench(rules=rules)
    bench.call(transfer(1))
    assert bench.role == "leader"


def groups_take_turns(rules: Rules) -> None:
    """Three groups on three replicas are each led by another."""
    names = tuple(TopicPartition(f"group-{letter}", 0) for letter in "abc")
    cluster = GroupCluster(
        names=names, group=GroupConfig(leader_imbalance_check_interval_seconds=1), rules=lambda: rules
    )
    cluster.run(within_ms=20_000)
    leads = {
        node.replica_id: [name for name, log in node.core.logs.items() if log.leader_id == node.replica_id]
        for node in cluster.running()
        if node.core is not None
    }
    assert leads == {ReplicaId(place): [name] for place, name in enumerate(names)}


OF_LOGS: list[tuple[type[Rules], Callable[[Rules], None]]] = [
    (wrong_rules.LeaseFromTheFetch, a_lease_is_counted_from_the_beginning_of_its_round),
    (wrong_rules.LeaseByOneClock, a_lease_ends_before_a_faster_clock_has_counted_a_timeout),
    (wrong_rules.VotesWithinALease, a_voter_that_hears_from_a_leader_votes_for_nobody),
    (wrong_rules.ForgetsWhomItHeard, a_voter_that_starts_votes_for_nobody),
    (wrong_rules.ResignsAtOnce, the_target_of_a_transfer_is_there),
    (LeaseEndedByARefusal, a_voter_that_owes_its_vote_keeps_its_leader),
]
"""Wrong rules of logs that show only with a group on them, and who convicts them."""
