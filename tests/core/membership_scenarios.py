"""What scenarios with changing voters say: leaders of such logs, fetches from a disk, and requests for changes."""

from __future__ import annotations

from typing import Any

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId
from replica.records import RecordBatch, voters_batch
from replica.voters import ReplicaKey, VoterSet
from tests.core.harness import LOG, Bench, disk_id, stored, voter, voters_of
from tests.core.scenarios import answer_fetch, fetch, fetch_error, fetched, follower_bench, lead, reply_of

IDS = (0, 1, 2)


def fresh_bench(*, initial: tuple[int, ...] = IDS, **others: Any) -> Bench:
    """Build a replica of a new log, whose voters are ``initial`` at first."""
    return Bench(**{"initial_voters": initial, "voters": initial or IDS, **others})


def first_leader(*, initial: tuple[int, ...] = IDS, **others: Any) -> Bench:
    """Build the leader of epoch 1, of whose log nothing is committed: LeaderChange at 0, the voters at 1."""
    bench = fresh_bench(initial=initial, **others)
    lead(bench)
    return bench


def settled_leader(*, initial: tuple[int, ...] = IDS, **others: Any) -> Bench:
    """Build such a leader, with a log that is committed."""
    bench = first_leader(initial=initial, **others)
    acknowledge(bench, *bench.log.other_voters[: bench.log.majority - 1])
    assert bench.high_watermark == bench.log.log.log_end_offset, bench.high_watermark
    return bench


def fetch_from(bench: Bench, replica_id: int, *, disk: int = 0, behind: int = 0, **others: Any) -> m.Request:
    """Fetch as a replica does that has all of the leader's log but so many records, and has heard of its last round."""
    role, log = bench.log.role, bench.log.log
    offset = log.log_end_offset - behind
    return fetch(
        offset,
        log.epoch_below(Offset(offset)) or 0,
        bench.epoch,
        replica=replica_id,
        **{
            "replica_directory_id": disk_id(replica_id, disk),
            "read_round": role.read_round if isinstance(role, Leader) else 0,
            **others,
        },
    )


def acknowledge(bench: Bench, *replica_ids: int) -> None:
    """Let the leader flush, and let these fetch from its log's end, each from its first disk."""
    bench.flush_all()
    for replica_id in replica_ids:
        if bench.role == "leader":
            fetched(bench, fetch_from(bench, replica_id))


def add(bench: Bench, replica_id: int, *, disk: int = 0, timeout_ms: int = 5000, **others: Any) -> CallId:
    """Ask for a new voter."""
    request = {"topic_partition": LOG, "voter": voter(replica_id, disk), "timeout_ms": timeout_ms, **others}
    return bench.call(m.AddVoterRequest(**request))


def remove(
    bench: Bench, replica_id: int, *, directory_id: str | None = None, timeout_ms: int = 5000, **others: Any
) -> CallId:
    """Ask for one voter less."""
    key = ReplicaKey(ReplicaId(replica_id), directory_id)
    return bench.call(m.RemoveVoterRequest(topic_partition=LOG, voter=key, timeout_ms=timeout_ms, **others))


def added(bench: Bench, replica_id: int) -> CallId:
    """Ask for a new voter that catches up at once: the set with it is appended, and not committed."""
    call_id = add(bench, replica_id)
    acknowledge(bench, replica_id)
    assert replica_id in bench.log.voters.ids, bench.log.voters
    return call_id


def changed(bench: Bench, call_id: CallId) -> m.ChangeVotersResponse:
    """Return what came of a change."""
    response = reply_of(bench, call_id)
    assert isinstance(response, m.ChangeVotersResponse), response
    return response


def ids(bench: Bench) -> tuple[int, ...]:
    """The ids of the voters in force."""
    return bench.log.voters.ids


def naming(voters: VoterSet, offset: int, epoch: int) -> RecordBatch:
    """Build the record that names voters."""
    return voters_batch(voters=voters, base_offset=Offset(offset), leader_epoch=Epoch(epoch))


def fresh_follower(*, initial: tuple[int, ...] = IDS, **others: Any) -> Bench:
    """Build a follower of replica 1 in epoch 5 on a new disk, with a Fetch out."""
    return follower_bench(**{"initial_voters": initial, "voters": initial or IDS, **others})


def joining_follower(**others: Any) -> Bench:
    """Build a follower of replica 1 in epoch 5 whose disk was formatted without voters, with a Fetch out."""
    bench = fresh_bench(initial=(), **{"quorum_state": stored(5), **others})
    answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 5))
    assert bench.log.leader_id == 1, bench.role
    return bench


def stored_offsets(bench: Bench) -> list[int]:
    """Where the sets stand that are stored."""
    return [entry.offset for entry in bench.disk.voters]


def order_of(effects: tuple[fx.Effect, ...]) -> list[str]:
    """Name the effects that change what is on the disk, in their order."""
    kinds = fx.StoreVoters | fx.Append | fx.Truncate | fx.InstallSnapshot | fx.StoreSnapshot | fx.Flush
    return [type(effect).__name__ for effect in effects if isinstance(effect, kinds)]


FOUR = voters_of(0, 1, 2, 3)
