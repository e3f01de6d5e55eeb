"""When the machine leads: not before it has applied its epoch's start, and not after it has resigned."""

from __future__ import annotations

from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from replica.machines import OpenSession, SessionId, SessionOpened
from tests.core.group.bench import GroupBench, add, apply, leading_bench, outcome_of, replies_of
from tests.core.harness import LOG, leader, stored
from tests.core.scenarios import campaign, commit, follow, lead, reply_of, vote, voted


def refused(bench: GroupBench) -> m.ApplyResponse:
    """What a command is answered at once, which cannot be taken."""
    response = bench.answer(add(1))
    assert isinstance(response, m.ApplyResponse), response
    return response


def test_handle_leader_change_fires_after_listener_reaches_epoch_start_offset() -> None:
    """KAFKA-15345: a replica leads, commits and reads; its machine leads once the epoch's first record is applied."""
    bench = GroupBench(quorum_state=stored(5), log=[(2, 3)])
    lead(bench)
    assert not bench.group.machine_leads
    commit(bench, 1)
    assert not bench.group.machine_leads
    bench.apply_all()
    assert (bench.group.machine_leads, bench.group.applied_offset) == (True, 4)


def test_handle_leader_change_fires_after_listener_reaches_epoch_start_offset_on_empty_log() -> None:
    """In an empty log that is the record at offset 0: nothing that was applied is not enough."""
    bench = GroupBench(quorum_state=stored(5))
    lead(bench)
    assert not bench.group.machine_leads
    bench.commit_all()
    assert (bench.group.machine_leads, bench.group.applied_offset) == (True, 2)


def test_late_registered_listener_catches_up() -> None:
    """A machine that begins with a long log applies all of it, read by read, before it leads."""
    bench = GroupBench(quorum_state=stored(5), log=[(2, 20)], group=GroupConfig(read_max_bytes=200))
    lead(bench)
    commit(bench, 1)
    reads = 0
    while bench.reads:
        assert not bench.group.machine_leads
        bench.step(bench.reads.pop(0))
        reads += 1
    assert reads > 5
    assert (bench.group.machine_leads, bench.group.applied_offset) == (True, 21)


def test_handle_commit_callback_fires_in_candidate_state() -> None:
    """What is committed is applied in whatever role: a read that comes back during a campaign counts."""
    bench = leading_bench(voters=(0, 1, 2))
    bench.call(add(5))
    bench.flush_all()
    commit(bench, 1)
    bench.step(ev.ResignRequested())
    campaign(bench)
    bench.apply_all()
    assert (bench.role, bench.group.applied_offset, bench.total()) == ("candidate", 4, 5)


def test_handle_commit_callback_fires_in_voted_state(bench: GroupBench) -> None:
    """So it is for one that has voted for another."""
    bench.call(add(5))
    bench.flush_all()
    commit(bench, 1)
    bench.step(ev.ResignRequested())
    assert voted(bench, vote(9, last=(6, 99))).vote_granted
    bench.apply_all()
    assert (bench.role, bench.disk.quorum_state, bench.total()) == ("unattached", stored(9, voted_id=1), 5)


def test_a_machine_that_has_not_applied_its_start_takes_no_command() -> None:
    """It refuses before the append, and says who leads: the replica itself, soon."""
    bench = GroupBench(quorum_state=stored(5))
    lead(bench)
    response = refused(bench)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert (response.current_leader, bench.disk.end) == (leader(0, 6), 2)


def test_a_resigned_leader_is_not_announced_again() -> None:
    """KAFKA-17333: after it has resigned in its epoch, what it still applies does not make the machine lead."""
    bench = leading_bench()
    bench.call(add(5))
    bench.flush_all()
    commit(bench, 1)
    bench.step(ev.ResignRequested())
    bench.apply_all()
    assert (bench.role, bench.group.machine_leads, bench.group.applied_offset) == ("resigned", False, 4)
    assert refused(bench).not_appended


def test_a_lost_leadership_leaves_open_what_waits(bench: GroupBench) -> None:
    """A command that is appended and not applied when the leadership ends may be applied, or may not."""
    call_id = bench.call(add(5))
    follow(bench, 1, 7)
    response = reply_of(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
    assert response.current_leader == leader(1, 7)


def test_log_time_goes_on_while_nothing_is_written() -> None:
    """A leader writes a tick after each idle interval, once the one before is applied, and sessions expire."""
    bench = leading_bench(group=GroupConfig(tick_interval_ms=500))
    call_id = bench.call(apply(OpenSession(ttl_ms=1000)))
    bench.commit_all()
    assert outcome_of(reply_of(bench, call_id)) == SessionOpened(session_id=SessionId(3))
    opened_ms = bench.group.log_time_ms
    for _ in range(3):
        end = bench.disk.end
        bench.elapse(499)
        assert bench.disk.end == end
        bench.elapse(1)
        assert bench.disk.end == end + 1
        bench.commit_all()
    assert bench.group.log_time_ms == opened_ms + 1500


def test_a_tick_waits_for_the_one_before() -> None:
    """A leader that cannot commit does not fill its log with ticks."""
    bench = leading_bench(group=GroupConfig(tick_interval_ms=100))
    bench.elapse(1000)
    assert bench.disk.end == 4


def test_writing_puts_the_tick_off() -> None:
    """The interval counts from the last record of whatever kind."""
    bench = leading_bench(group=GroupConfig(tick_interval_ms=500))
    bench.elapse(400)
    bench.call(add(1))
    bench.commit_all()
    bench.elapse(499)
    assert bench.disk.end == 4


def test_log_time_begins_where_the_last_leader_left_it(bench: GroupBench) -> None:
    """A new leader's stamps go on from the log time that it has applied, whatever its clock says."""
    bench.elapse(700)
    bench.call(add(1))
    bench.commit_all()
    assert bench.group.log_time_ms == 700
    bench.restart()
    lead(bench)
    bench.commit_all()
    bench.elapse(5)
    call_id = bench.call(add(1))
    bench.commit_all()
    assert (replies_of(reply_of(bench, call_id)), bench.group.log_time_ms) == ([b"2"], 705)


def test_a_tick_is_due_when_the_replica_says() -> None:
    """The deadline of the replica is that of the tick, and no step is asked for before."""
    bench = leading_bench(group=GroupConfig(tick_interval_ms=1))
    assert bench.replica.deadline_ms == bench.now_ms + 1
    assert bench.replica.groups[LOG].deadline_ms == bench.now_ms + 1
