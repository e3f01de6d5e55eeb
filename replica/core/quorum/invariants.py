"""What must hold of one quorum log after every step, clause by clause.

Two kinds: clauses about one state, and clauses about a step (the state before and after). They are checked after every
step in the simulator and in debug builds (``python -O`` leaves them out). A clause that fails is our own mistake, hence
an ``AssertionError`` with the values.

Source: Kafka ``RaftEventSimulationTest``, ``QuorumState``; LogCabin's idea of clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from replica.core.effects import QuorumState
from replica.core.log.invariants import check_log
from replica.core.log.recovered import StoredSnapshot
from replica.core.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.voter_history import VoterHistory
from replica.ids import EpochEntry, Offset


class Observation(Struct, frozen=True, kw_only=True):
    """What a step is compared by: values only, taken before it."""

    quorum_state: QuorumState
    role: Role
    high_watermark: Offset | None
    log_start_offset: Offset
    epochs: tuple[EpochEntry, ...]
    snapshots: tuple[StoredSnapshot, ...]
    voters: VoterHistory


def observe(q: QuorumLogState) -> Observation:
    """Note what the clauses about steps look at."""
    return Observation(
        quorum_state=q.quorum_state,
        role=q.role,
        high_watermark=q.log.high_watermark,
        log_start_offset=q.log.log_start_offset,
        epochs=q.log.epochs.entries,
        snapshots=q.log.snapshots,
        voters=q.voter_history,
    )


def check_state(q: QuorumLogState, before: Observation | None = None) -> None:
    """Raise AssertionError unless every clause about one state holds.

    What is the very same as ``before``, when it held, is not gone through again: it is made of values.
    """
    check_log(q, None if before is None else before.epochs)
    _stored_epoch_covers_the_log(q)
    for clause in OF_ROLE[type(q.role)]:
        clause(q)
    snapshots = q.log.snapshots
    if snapshots and (before is None or snapshots is not before.snapshots):
        _snapshots_increase_and_are_of_this_log(q)
    if q.log.log_start_offset > 0:
        _log_begins_at_a_snapshot(q)
    if before is None or q.voter_history is not before.voters:
        _one_voter_at_a_time(q)


def check_step(before: Observation, q: QuorumLogState) -> None:
    """Raise AssertionError unless every clause about the step from ``before`` to now holds.

    What the step has left as it was has neither fallen nor gone back.
    """
    if q.quorum_state is not before.quorum_state:
        _epoch_never_falls(before, q)
        _one_vote_and_one_leader_an_epoch(before, q)
    if q.role is not before.role:
        _leader_never_follows_in_its_epoch(before, q)
    _high_watermark_never_falls(before, q)
    if q.log.log_start_offset != before.log_start_offset or q.log.snapshots is not before.snapshots:
        _log_start_and_snapshots_never_go_back(before, q)


# --- one state ------------------------------------------------------------------------------------------------------


def _a_leader_knows_no_more_than_its_log(q: QuorumLogState) -> None:
    if isinstance(q.role, Leader) and q.role.high_watermark is not None:
        assert q.log.high_watermark is not None, q.role.high_watermark
        assert q.role.high_watermark <= q.log.high_watermark, (q.role.high_watermark, q.log.high_watermark)


def _stored_epoch_covers_the_log(q: QuorumLogState) -> None:
    last_epoch = q.log.last_epoch
    assert last_epoch is None or last_epoch <= q.leader_epoch, (last_epoch, q.leader_epoch)


def _role_agrees_with_what_is_stored(q: QuorumLogState) -> None:
    stored = q.quorum_state
    match q.role:
        case Leader() | Resigned():
            assert stored.leader_id == q.replica_id, stored
        case Follower(leader_id=leader_id):
            assert stored.leader_id == leader_id != q.replica_id, (stored, leader_id)
        case Candidate():
            assert (stored.leader_id, stored.voted_id) == (None, q.replica_id), stored
        case _:
            pass


def _candidate_holds_what_it_claims(q: QuorumLogState) -> None:
    assert q.log.is_flushed, (q.log.flushed_end_offset, q.log.log_end_offset)


def _only_a_leader_has_parked_fetches(q: QuorumLogState) -> None:
    assert len(q.fetches) == 0, (q.role.name, len(q.fetches))


def _log_begins_at_a_snapshot(q: QuorumLogState) -> None:
    """I14: what is gone from the log is in a snapshot."""
    ends = [stored.id.end_offset for stored in q.log.snapshots]
    assert q.log.log_start_offset in ends, (q.log.log_start_offset, ends)


def _snapshots_increase_and_are_of_this_log(q: QuorumLogState) -> None:
    snapshots = q.log.snapshots
    for earlier, later in pairwise(stored.id for stored in snapshots):
        assert earlier.end_offset < later.end_offset, snapshots
        assert earlier.epoch <= later.epoch, snapshots
    newest = snapshots[-1].id
    assert q.log.high_watermark is not None, snapshots
    assert newest.end_offset <= q.log.high_watermark, (newest, q.log.high_watermark)
    assert q.log.epoch_below(newest.end_offset) == newest.epoch, (newest, q.log.epochs.entries)


def _what_was_received_waits(q: QuorumLogState) -> None:
    if isinstance(q.role, Follower) and q.role.received is not None:
        assert (q.role.pending, q.role.catching_up) == (None, None), q.role.leader_id
        assert q.log.is_flushed, (q.log.flushed_end_offset, q.log.log_end_offset)


def _one_voter_at_a_time(q: QuorumLogState) -> None:
    history = q.voter_history
    sets = tuple(entry.voters for entry in history.entries)
    # What a disk was formatted with is its operator's word, and may be no voters at all; the log's first set is not.
    for earlier, later in pairwise(sets if history.base_offset is None else (history.base, *sets)):
        assert len(set(earlier.voters) ^ set(later.voters)) <= 1, (earlier, later)
    offsets = [entry.offset for entry in history.entries]
    assert offsets == sorted(set(offsets)), offsets
    assert not offsets or offsets[-1] < q.log.log_end_offset, (offsets, q.log.log_end_offset)
    assert not offsets or not q.log.snapshots or offsets[0] >= q.log.snapshots[-1].id.end_offset, offsets


def _who_campaigns_votes(q: QuorumLogState) -> None:
    assert q.campaigns, (q.key, q.voter_history)


def _a_leader_counts_the_voters_in_force(q: QuorumLogState) -> None:
    assert isinstance(q.role, Leader), q.role
    assert q.voters.voters, q.key
    assert tuple(q.role.voters) == q.other_voters, (q.role.voters, q.other_voters)


OF_ROLE: Mapping[type[Role], Sequence[Callable[[QuorumLogState], None]]] = {
    Unattached: (_only_a_leader_has_parked_fetches,),
    Prospective: (_only_a_leader_has_parked_fetches, _who_campaigns_votes),
    Candidate: (
        _role_agrees_with_what_is_stored,
        _only_a_leader_has_parked_fetches,
        _candidate_holds_what_it_claims,
        _who_campaigns_votes,
    ),
    Leader: (
        _a_leader_knows_no_more_than_its_log,
        _role_agrees_with_what_is_stored,
        _a_leader_counts_the_voters_in_force,
    ),
    Follower: (_role_agrees_with_what_is_stored, _only_a_leader_has_parked_fetches, _what_was_received_waits),
    Resigned: (_role_agrees_with_what_is_stored, _only_a_leader_has_parked_fetches),
}
"""The clauses about one state that depend on the role."""


# --- a step ---------------------------------------------------------------------------------------------------------


def _epoch_never_falls(before: Observation, q: QuorumLogState) -> None:
    assert before.quorum_state.leader_epoch <= q.leader_epoch, (before.quorum_state, q.quorum_state)


def _one_vote_and_one_leader_an_epoch(before: Observation, q: QuorumLogState) -> None:
    earlier, later = before.quorum_state, q.quorum_state
    if earlier.leader_epoch == later.leader_epoch:
        assert earlier.voted_id in (None, later.voted_id), (earlier, later)
        assert earlier.leader_id in (None, later.leader_id), (earlier, later)


def _high_watermark_never_falls(before: Observation, q: QuorumLogState) -> None:
    if before.high_watermark is not None:
        assert q.log.high_watermark is not None, before
        assert before.high_watermark <= q.log.high_watermark, (before.high_watermark, q.log.high_watermark)
    if isinstance(before.role, Leader) and isinstance(q.role, Leader) and before.role.high_watermark is not None:
        assert q.role.high_watermark is not None, before
        assert before.role.high_watermark <= q.role.high_watermark, (before.role, q.role)


def _leader_never_follows_in_its_epoch(before: Observation, q: QuorumLogState) -> None:
    if isinstance(before.role, Leader) and before.quorum_state.leader_epoch == q.leader_epoch:
        assert isinstance(q.role, Leader | Resigned), q.role


def _log_start_and_snapshots_never_go_back(before: Observation, q: QuorumLogState) -> None:
    assert before.log_start_offset <= q.log.log_start_offset, (before.log_start_offset, q.log.log_start_offset)
    if before.snapshots:
        assert q.log.snapshots, before.snapshots
        assert before.snapshots[-1].id <= q.log.snapshots[-1].id, (before.snapshots, q.log.snapshots)
