"""What a disk and a snapshot remember of who votes: every point at which a replica may stop, and begin again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.config import InvalidConfigError, ReplicaConfig
from replica.core.quorum.snapshot_header import encode_header, split_snapshot
from replica.core.quorum.voter_history import VoterHistory
from replica.ids import Offset, ReplicaId
from replica.machines import CorruptSnapshotError
from replica.voters import Voter, VoterEntry, VoterSet
from tests.core.harness import CONFIG, Bench, batches_of, snapshot_of, voters_of
from tests.core.membership_scenarios import (
    FOUR,
    IDS,
    acknowledge,
    added,
    fresh_follower,
    ids,
    joining_follower,
    naming,
    order_of,
    remove,
    settled_leader,
    stored_offsets,
)
from tests.core.scenarios import answer_fetch, diverging, follow, follower_bench, records
from tests.core.snapshot_scenarios import answer_piece, install, piece, sent_to

THREE, FIVE = voters_of(0, 1, 2), voters_of(0, 1, 2, 3, 4)


def entry(offset: int, voters: VoterSet) -> VoterEntry:
    return VoterEntry(offset=Offset(offset), voters=voters)


HISTORY = VoterHistory(base=THREE, entries=(entry(4, FOUR), entry(9, FIVE)))


# --- the history ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end_offset", "voters", "offset"),
    [(0, THREE, None), (4, THREE, None), (5, FOUR, 4), (9, FOUR, 4), (10, FIVE, 9)],
)
def test_as_of_an_offset_the_last_set_below_counts(end_offset: int, voters: VoterSet, offset: int | None) -> None:
    """A snapshot that ends there has that set; a truncation there leaves it in force."""
    as_of = HISTORY.as_of(Offset(end_offset))
    assert (as_of.base, as_of.base_offset, as_of.entries) == (voters, offset, ())
    cut = HISTORY.truncated(Offset(end_offset))
    assert (cut.latest, cut.latest_offset) == (voters, offset)
    begun = HISTORY.begun_at(Offset(end_offset))
    assert (begun.base, begun.latest, begun.latest_offset) == (voters, FIVE, 9)


def test_the_set_before_the_last() -> None:
    """Whoever was in it and is not in the last one may still be needed."""
    assert HISTORY.previous == FOUR
    assert HISTORY.truncated(Offset(9)).previous == THREE
    assert HISTORY.truncated(Offset(0)).previous == THREE


# --- truncation -----------------------------------------------------------------------------------------------------


def test_a_truncated_record_gives_its_set_back() -> None:
    """The log says who votes, and what is not in it any more says nothing."""
    bench = fresh_follower()
    answer_fetch(bench, records([naming(FOUR, 0, 5)], leader_id=1, epoch=5))
    assert ids(bench) == FOUR.ids
    bench.flush_all()
    follow(bench, 2, 6)
    bench.sends = bench.sends[-1:]
    answer_fetch(bench, diverging(0, 0, leader_id=2, leader_epoch=6))
    assert (bench.disk.end, ids(bench)) == (0, IDS)


def test_a_truncation_is_stored_before_the_voters_are() -> None:
    """A crash between the two leaves an entry above the log's end, which recovery drops."""
    bench = fresh_follower()
    answer_fetch(bench, records([*batches_of((5, 1)), naming(FOUR, 1, 5)], leader_id=1, epoch=5))
    assert order_of(bench.effects) == ["StoreVoters", "Append", "Flush"]
    bench.flush_all()
    follow(bench, 2, 6)
    bench.sends = bench.sends[-1:]
    answer_fetch(bench, diverging(5, 1, leader_id=2, leader_epoch=6))
    assert order_of(bench.effects) == ["Truncate", "StoreVoters"]
    assert (stored_offsets(bench), bench.disk.end) == ([], 1)


# --- a crash --------------------------------------------------------------------------------------------------------


def test_voters_stored_and_the_record_not_appended() -> None:
    """The entry is dropped for good: another record may stand there next."""
    bench = settled_leader()
    voters = (*bench.disk.voters, entry(2, FOUR))
    bench.disk.voters = voters
    bench.restart()
    assert (ids(bench), stored_offsets(bench)) == ((0, 1, 2), [1])


def test_voters_stored_and_the_record_lost_with_the_power() -> None:
    """What was not flushed was in force nowhere else."""
    bench = settled_leader()
    remove(bench, 2)
    assert ids(bench) == (0, 1)
    bench.restart(power_loss=True)
    assert (ids(bench), stored_offsets(bench)) == ((0, 1, 2), [1])


def test_a_restart_rebuilds_the_history() -> None:
    """From what was stored, over what the disk was formatted with."""
    bench = settled_leader()
    added(bench, 3)
    acknowledge(bench, 1, 3)
    before = bench.log.voter_history
    bench.restart()
    assert bench.log.voter_history == before
    assert ids(bench) == (0, 1, 2, 3)


def test_a_disk_without_voters_learns_them_from_the_log() -> None:
    """Formatted without any, it goes by what it has fetched."""
    bench = joining_follower(replica_id=3)
    answer_fetch(bench, records([*batches_of((5, 1)), naming(FOUR, 1, 5)], leader_id=1, epoch=5))
    bench.flush_all()
    assert (ids(bench), bench.log.is_voter) == ((0, 1, 2, 3), True)
    bench.restart()
    assert (ids(bench), bench.log.is_voter) == ((0, 1, 2, 3), True)


# --- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_says_who_votes() -> None:
    """As of its end, before what the machine has written."""
    bench = settled_leader()
    added(bench, 3)
    acknowledge(bench, 1, 3)
    end_offset = bench.log.log.log_end_offset
    bench.store(end_offset, bench.epoch)
    (effect,) = bench.disk.storing
    voters, data = split_snapshot(effect.state.encode())
    assert (voters.base, data) == (FOUR, snapshot_of(end_offset, bench.epoch).data)


@pytest.fixture
def bench() -> Bench:
    """Build a leader that has added 3 at offset 2, removed it at 3, and stored a snapshot of the first three."""
    bench = settled_leader()
    added(bench, 3)
    acknowledge(bench, 1, 3)
    bench.store(3, 1)
    remove(bench, 3)
    acknowledge(bench, 1)
    return bench


def test_a_stored_snapshot_stands_for_the_entries_below_its_end(bench: Bench) -> None:
    """Once it is stored, and not before; the later ones stay."""
    assert stored_offsets(bench) == [1, 2, 3]
    bench.finish_storing()
    assert stored_offsets(bench) == [3]
    assert (bench.log.voter_history.base, bench.log.voter_history.base_offset) == (FOUR, 2)
    assert ids(bench) == (0, 1, 2)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_restart_with_a_snapshot(bench: Bench, is_stored: bool) -> None:
    """Whether the voters were stored after the snapshot or not makes no difference."""
    voters = bench.disk.voters
    bench.finish_storing()
    expected = bench.log.voter_history
    if not is_stored:
        bench.disk.voters = voters
    bench.restart()
    assert bench.log.voter_history == expected


def test_a_recovered_snapshot_gives_the_machine_its_own_bytes(bench: Bench) -> None:
    """The header is the log's."""
    bench.finish_storing()
    (stored,) = bench.disk.snapshots.values()
    assert split_snapshot(stored)[1] == snapshot_of(3, 1).data


def test_a_snapshot_on_disk_without_voters_stops_the_replica(bench: Bench) -> None:
    """It cannot know who votes; guessing by the format could let it vote with those who do not."""
    bench.finish_storing()
    (snapshot_id,) = bench.disk.snapshots
    bench.disk.snapshots[snapshot_id] = b"damaged" * 9
    bench.restart()
    assert bench.halted is not None
    assert "corrupt" in bench.halted


def header(voters: VoterSet = FIVE, offset: int | None = 7) -> bytes:
    return encode_header(VoterHistory(base=voters, base_offset=None if offset is None else Offset(offset)))


def catching_up(data: bytes) -> Bench:
    """Build a follower to which a snapshot at 20 with this content has come whole, all of three disks voting."""
    bench = fresh_follower()
    answer_fetch(bench, records([*batches_of((5, 1)), naming(FOUR, 1, 5)], leader_id=1, epoch=5))
    bench.flush_all()
    answer_fetch(bench, sent_to(20, 5))
    answer_piece(bench, piece(20, 5, 0, 0, data=data, size_bytes=len(data)))
    return bench


def test_an_installed_snapshot_replaces_the_history() -> None:
    """What it says is in force, and the entries of the log that is gone are gone from the disk."""
    bench = catching_up(header() + b"state")
    received = bench.log.received_snapshot
    assert received is not None
    assert received.data == b"state"
    install(bench)
    assert order_of(bench.effects) == ["InstallSnapshot", "StoreVoters"]
    assert bench.log.voter_history == VoterHistory(base=FIVE, base_offset=Offset(7))
    assert (list(bench.disk.snapshots.values()), bench.disk.voters) == ([header() + b"state"], ())
    bench.restart()
    assert ids(bench) == FIVE.ids


def test_an_installed_snapshot_and_the_voters_not_stored() -> None:
    """A crash after the installation leaves entries below the snapshot's end, which says better."""
    bench = catching_up(header() + b"state")
    voters = bench.disk.voters
    install(bench)
    bench.disk.voters = voters
    bench.restart()
    assert bench.log.voter_history == VoterHistory(base=FIVE, base_offset=Offset(7))


@pytest.mark.parametrize(
    "data",
    [b"state", b"", header()[:-1], header()[:9], bytes([*header()[:-1], header()[-1] ^ 1]), b"X" + header()[1:]],
    ids=["none", "nothing", "cut", "cut_early", "flipped", "foreign"],
)
def test_a_damaged_header_is_rejected_with_back_off(data: bytes) -> None:
    """As a snapshot that the machine cannot load: fetched again after ever longer pauses, the log as it was."""
    with pytest.raises(CorruptSnapshotError):
        split_snapshot(data)
    bench = catching_up(data or b"x")
    assert bench.log.received_snapshot is None
    assert (ids(bench), bench.disk.snapshots) == (FOUR.ids, {})
    assert not bench.sends
    bench.elapse(CONFIG.retry_backoff_ms)
    assert bench.requests(m.FetchRequest)
    answer_fetch(bench, sent_to(20, 5))
    answer_piece(bench, piece(20, 5, 0, 0, data=data or b"x", size_bytes=len(data or b"x")))
    bench.elapse(2 * CONFIG.retry_backoff_ms - 1)
    assert not bench.sends
    bench.elapse(1)
    assert bench.requests(m.FetchRequest)


@pytest.mark.parametrize("offset", [None, 0, 7])
@pytest.mark.parametrize("voters", [VoterSet(()), THREE, FIVE])
def test_a_header_says_what_was_written(voters: VoterSet, offset: int | None) -> None:
    """Voters with disks and addresses, and where their record stood."""
    expected = VoterHistory(base=voters, base_offset=None if offset is None else Offset(offset))
    assert split_snapshot(header(voters, offset) + b"rest") == (expected, b"rest")


def test_a_snapshot_before_the_voters_are_known_is_not_stored() -> None:
    """Of a disk that was formatted without voters, and has no record that names any: it would have to say nobody."""
    bench = joining_follower(replica_id=3)
    answer_fetch(bench, records(batches_of((5, 2)), leader_id=1, epoch=5, high_watermark=2))
    assert not bench.log.may_store(snapshot_of(2, 5).id)
    assert follower_bench().log.may_store(snapshot_of(2, 5).id)


def test_a_snapshot_with_its_header_is_bounded() -> None:
    """What could not be received is not stored."""
    size = len(header(THREE, 1)) + len(snapshot_of(2, 1).data)
    for bound, number in ((size, 1), (size - 1, 0)):
        bench = settled_leader(config=replace(CONFIG, snapshot_max_bytes=bound))
        bench.store(2, 1)
        bench.finish_storing()
        assert len(bench.log.snapshots) == number


def test_initial_voters_have_disks() -> None:
    """A configuration whose initial voters have none, or nobody to ask, is refused."""

    def config(voters: tuple[int, ...], initial: VoterSet) -> ReplicaConfig:
        return ReplicaConfig(
            cluster_id="c",
            replica_id=ReplicaId(0),
            directory_id="d",
            voters=tuple(map(ReplicaId, voters)),
            initial_voters=initial,
        )

    assert config((), THREE).initial_voters == THREE
    for voters, initial in (((), VoterSet(())), ((0,), VoterSet((Voter(replica_id=ReplicaId(0), directory_id=None),)))):
        with pytest.raises(InvalidConfigError):
            config(voters, initial)
    with pytest.raises(InvalidConfigError, match="22 characters"):
        config((0,), VoterSet((Voter(replica_id=ReplicaId(0), directory_id="disk-0"),)))
