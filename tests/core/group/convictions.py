"""Scenarios that the right rules pass and a wrong one does not; each is a story of ``replica/core/rules/group.py``."""

from __future__ import annotations

from replica.core import events as ev
from replica.core.config import GroupConfig
from replica.core.rules import Rules
from replica.machines import OpenSession, SessionCommand, SessionId
from tests.core.group.bench import (
    add,
    answer_of,
    apply,
    ask,
    leading_bench,
    replies_of,
)
from tests.core.scenarios import commit, fetch, fetched, lead, reply_of

BY_SIZE = GroupConfig(snapshot_max_record_bytes_between=400, tick_interval_ms=1 << 40)
BY_TIME = GroupConfig(snapshot_max_interval_ms=1000, tick_interval_ms=1 << 40)


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
    command = SessionCommand(session_id=SessionId(1), sequence=0, acknowledged=0, command=b"5")
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
