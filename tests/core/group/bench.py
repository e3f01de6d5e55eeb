"""One replica that hosts a group, on a bench: the harness of quorum logs, with a machine on the log.

Owns the performing of what only groups ask for (reads of the log, snapshots), and the words that their scenarios are
written in. Reads come back when a scenario says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from replica.bounds import INT32_MAX
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig, QuorumConfig
from replica.core.group import Group
from replica.core.log.recovered import RecoveredLog
from replica.core.quorum.roles import Leader
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import CallId
from replica.machines import (
    AppliedLog,
    Entry,
    Outcome,
    PlainCommand,
    StateMachine,
    decode_outcome,
    encode_entry,
)
from replica.machines.counter import Counter
from tests.core.harness import CONFIG, LOG, Bench, stored
from tests.core.scenarios import commit, fetch, fetched, lead, reply_of

GROUP = GroupConfig(tick_interval_ms=INT32_MAX)
"""Scenarios that are not about ticks have none."""

LINEARIZABLE, LEASE, STALE = m.Consistency.LINEARIZABLE, m.Consistency.LEASE, m.Consistency.STALE


def counting() -> AppliedLog:
    """A fresh counter."""
    return AppliedLog(Counter(), name="counter")


def hosting(machine: Callable[[], StateMachine]) -> Callable[[], AppliedLog]:
    """How to begin with another machine."""
    return lambda: AppliedLog(machine(), name="machine")


class GroupBench(Bench):
    """One replica under test, with one group."""

    def __init__(
        self,
        *,
        group: GroupConfig = GROUP,
        machine: Callable[[], AppliedLog] = counting,
        rules: Rules | None = None,
        replica_id: int = 0,
        voters: Sequence[int] = (0, 1, 2),
        initial_voters: Sequence[int] | None = None,
        log: Sequence[tuple[int, int]] = (),
        quorum_state: fx.QuorumState | None = None,
        config: QuorumConfig = CONFIG,
    ) -> None:
        self._group_config, self._machine = group, machine
        self.reads: list[ev.LogRead] = []
        super().__init__(
            replica_id=replica_id,
            voters=voters,
            initial_voters=initial_voters,
            log=log,
            quorum_state=quorum_state,
            config=config,
            rules=rules,
        )

    def _start(self) -> Replica:
        self.config = replace(self.config, group=self._group_config)
        self.reads.clear()
        return super()._start()

    def _replica_on(self, recovered: RecoveredLog) -> Replica:
        return Replica(
            config=self.config,
            logs={LOG: recovered},
            random=self._random,
            rules=self._rules,
            groups={LOG: self._machine()},
        )

    @property
    def group(self) -> Group:
        return self.replica.groups[LOG]

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.ReadLog(range=wanted):
                records = self.disk.read(wanted.start_offset, wanted.end_offset, wanted.max_bytes)
                self.reads.append(ev.LogRead(topic_partition=LOG, start_offset=wanted.start_offset, records=records))
            case _:
                super()._perform(effect)

    def apply_all(self) -> None:
        """Let every read of the log come back, until nothing is left that is committed and not applied."""
        while self.reads:
            self.step(self.reads.pop(0))

    def store_all(self) -> None:
        """Let every snapshot that is on its way be stored, unless it is too large."""
        while self.disk.storing:
            self.step(self.disk.finish_storing())

    def commit_all(self) -> None:
        """Let everything in the leader's log be committed, and applied."""
        self.flush_all()
        if len(self.config.voters) > 1:
            commit(self, self.log.other_voters[0])
        self.apply_all()

    def echo(self, read_round: int, *, voter: int = 1) -> None:
        """Let a voter that has everything fetch, and echo a round."""
        end, epoch = self.log.log.log_end_offset, self.epoch
        fetched(self, fetch(end, self.log.log.last_epoch or 0, epoch, replica=voter, read_round=read_round))

    def total(self) -> int:
        """What the counter stands at here and now."""
        outcome = outcome_of(reply_of(self, self.call(ask(consistency=STALE))))
        return int(getattr(outcome, "reply"))  # noqa: B009 - whatever the outcome is


def leading_bench(**others: Any) -> GroupBench:
    """Build the leader of epoch 6 whose machine leads: LeaderChange is at 0, the voters at 1, its description at 2."""
    bench = GroupBench(**{"quorum_state": stored(5), **others})
    lead(bench)
    bench.commit_all()
    bench.commit_all()
    return bench


def add(*numbers: int, timeout_ms: int = 1000) -> m.ApplyRequest:
    """Add these, one after the other."""
    return apply(*(PlainCommand(command=b"%d" % number) for number in numbers), timeout_ms=timeout_ms)


def apply(*entries: Entry, timeout_ms: int = 1000, **others: Any) -> m.ApplyRequest:
    """Write these entries."""
    encoded = tuple(encode_entry(entry) for entry in entries)
    return m.ApplyRequest(topic_partition=LOG, entries=encoded, timeout_ms=timeout_ms, **others)


def ask(*, consistency: m.Consistency = LINEARIZABLE, timeout_ms: int = 1000, **others: Any) -> m.QueryRequest:
    """Ask for the total."""
    return m.QueryRequest(
        **{
            "topic_partition": LOG,
            "requests": (b"",),
            "consistency": consistency,
            "timeout_ms": timeout_ms,
            **others,
        }
    )


def outcome_of(response: Any) -> Outcome:
    """Decode the one outcome of an answer."""
    assert isinstance(response, m.ApplyResponse | m.QueryResponse), response
    (outcome,) = response.outcomes
    return decode_outcome(outcome)


def replies_of(response: Any) -> list[bytes]:
    """Decode the replies of all outcomes."""
    assert isinstance(response, m.ApplyResponse), response
    return [getattr(decode_outcome(outcome), "reply", b"") for outcome in response.outcomes]


def answer_of(bench: Bench, call_id: CallId) -> bytes:
    """The reply to a question that was answered."""
    return bytes(getattr(outcome_of(reply_of(bench, call_id)), "reply"))  # noqa: B009 - whatever the outcome is


BALANCED = GroupConfig(tick_interval_ms=INT32_MAX, leader_imbalance_check_interval_seconds=10)


def round_of(bench: GroupBench) -> int:
    """The read round of a leader."""
    role = bench.log.role
    assert isinstance(role, Leader), role
    return role.read_round
