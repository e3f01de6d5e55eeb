"""Who votes, on disk: two files, their refusals, and stored voters that never outlive their record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState, StoreVoters
from replica.core.log.recovered import RecoveredLog
from replica.core.quorum.voter_history import voters_in
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId
from replica.records import voters_batch
from replica.storage import (
    CorruptCheckpointError,
    DataDirectory,
    LogConfig,
    LogStore,
    LogTable,
    StorageError,
    format_directory,
    open_directory,
)
from replica.storage.files import atomic_write, remove_durably
from replica.storage.voter_files import (
    read_initial_voters,
    read_voter_entries,
    write_initial_voters,
    write_voter_entries,
)
from replica.voters import Voter, VoterEntry, VoterSet
from tests.depth import seeds
from tests.storage.disks import DATA, LOG, LOG_PATH, append, batch, close, failing, formatted, held, open_log, write
from tests.storage.power import PoweredLife

FILE = Path("/voters")
STORED = LOG_PATH / "quorum-voters"
DIRECTORY_IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw")
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, tail_bytes_max=2000)


def voter_set(*numbers: int) -> VoterSet:
    """Voters of these numbers, from 1, each on the disk of its number."""
    return VoterSet.of(
        Voter(replica_id=ReplicaId(number), directory_id=DIRECTORY_IDS[number - 1], address=f"127.0.0.1:{number}")
        for number in numbers
    )


def entry(offset: int, *numbers: int) -> VoterEntry:
    """These voters, from this offset on."""
    return VoterEntry(offset=Offset(offset), voters=voter_set(*numbers))


@pytest.fixture
def files() -> SimulatedFiles:
    """A disk that was formatted with itself as the only voter."""
    return formatted(directory_id=DIRECTORY_IDS[0], initial_voters=voter_set(1))


def opened(files: SimulatedFiles) -> tuple[DataDirectory, LogStore, RecoveredLog]:
    """Open the log."""
    return open_log(files, CONFIG)


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voters", [voter_set(), voter_set(2), voter_set(3, 1, 2)])
def test_initial_voters_come_back(voters: VoterSet) -> None:
    """Nobody is not the same as no file: without it nobody knows who votes."""
    files = SimulatedFiles()
    with pytest.raises(CorruptCheckpointError, match="the file is missing"):
        read_initial_voters(files, FILE)
    write_initial_voters(files, FILE, voters)
    files.crash()
    assert read_initial_voters(files, FILE) == voters


@pytest.mark.parametrize("entries", [(), (entry(0, 1),), (entry(3, 1, 2), entry(4, 1, 2, 3), entry(9, 2, 3))])
def test_voter_entries_come_back(entries: tuple[VoterEntry, ...]) -> None:
    """What was stored is read, in its order, after a power loss."""
    files = SimulatedFiles()
    assert read_voter_entries(files, FILE) is None
    write_voter_entries(files, FILE, entries)
    files.crash()
    assert read_voter_entries(files, FILE) == entries


def test_the_files_are_json_that_an_operator_can_read() -> None:
    """One object with a version, a voter an object of its own."""
    files = SimulatedFiles()
    write_voter_entries(files, FILE, [entry(5, 1)])
    voter = {"replicaId": 1, "directoryId": DIRECTORY_IDS[0], "address": "127.0.0.1:1"}
    document = {"entries": [{"offset": 5, "voters": [voter]}], "data_version": 0}
    assert json.loads(files.content(FILE)) == document


VOTER = {"replicaId": 1, "directoryId": "d", "address": ""}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON"),
        (b"[]", "is not a JSON object"),
        ({"entries": [], "data_version": 1}, "data_version 1 is not 0"),
        ({"data_version": 0}, "entries None is not a list of JSON objects"),
        ({"entries": [3], "data_version": 0}, r"entries \[3\] is not a list of JSON objects"),
        ({"entries": [{"offset": -1, "voters": []}], "data_version": 0}, "offset -1 is not a number from 0"),
        ({"entries": [{"offset": True, "voters": []}], "data_version": 0}, "offset True is not a number"),
        ({"entries": [{"offset": 4}], "data_version": 0}, "voters None is not a list"),
        ({"entries": [{"offset": 4, "voters": [VOTER, VOTER]}], "data_version": 0}, r"voters \[1, 1\] name a replica"),
        ({"entries": [{"offset": 4, "voters": [{**VOTER, "address": 3}]}], "data_version": 0}, "address 3 is not a"),
        ({"entries": [{"offset": 4, "voters": []}] * 2, "data_version": 0}, "offset 4 does not come after 4"),
    ],
)
def test_a_damaged_file_is_refused(content: bytes | dict[str, object], complaint: str) -> None:
    """A file that is not exactly right is refused by name: nobody counts votes by half a list."""
    files = SimulatedFiles()
    atomic_write(files, FILE, content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(CorruptCheckpointError, match=complaint):
        read_voter_entries(files, FILE)


@pytest.mark.parametrize(
    ("replica_id", "directory_id", "complaint"),
    [
        (2, DIRECTORY_IDS[1], "replica 2 with directory id A+g is not among the initial voters"),
        (1, DIRECTORY_IDS[1], "replica 1 with directory id A+g is not among the initial voters"),
        (1, "directory", "'directory' is no directory id that a voter can have"),
    ],
)
def test_a_disk_that_its_initial_voters_do_not_name_is_not_formatted(
    replica_id: int, directory_id: str, complaint: str
) -> None:
    """A disk that believes in voters without being one of them would count for nobody, and say nothing of it."""
    files = SimulatedFiles()
    with pytest.raises(ValueError, match=complaint):
        format_directory(
            DATA,
            cluster_id="cluster",
            replica_id=ReplicaId(replica_id),
            directory_id=directory_id,
            initial_voters=voter_set(1),
            files=files,
        )
    assert not files.exists(DATA)


@pytest.mark.parametrize("voters", [voter_set(), voter_set(1, 2)])
def test_a_directory_remembers_its_initial_voters(voters: VoterSet) -> None:
    """What the disk was formatted with is there at every start."""
    files = SimulatedFiles()
    format_directory(
        DATA,
        cluster_id="cluster",
        replica_id=ReplicaId(1),
        directory_id=DIRECTORY_IDS[0],
        initial_voters=voters,
        files=files,
    )
    files.crash()
    assert open_directory(DATA, files=files).initial_voters == voters


# --- the log's --------------------------------------------------------------------------------------------------------


def test_stored_voters_come_back_with_their_records(files: SimulatedFiles) -> None:
    """After a clean stop and after a crash, in full, as an effect has stored them."""
    table = LogTable.open(open_directory(DATA, files=files), [LOG], config=CONFIG)
    table.stores[LOG].store_quorum_state(QuorumState(leader_epoch=Epoch(1)))
    entries = (entry(1, 1, 2), entry(2, 1, 2, 3))
    table.perform(StoreVoters(topic_partition=LOG, entries=entries))
    append(table.stores[LOG], count=3)
    table.stores[LOG].flush()
    files.crash()
    directory, log, recovered = opened(files)
    assert recovered.voters == entries
    close(directory, log)
    _, _, recovered = opened(files)
    assert recovered.voters == entries


def test_voters_whose_record_was_lost_are_forgotten_before_another_takes_its_offset(files: SimulatedFiles) -> None:
    """The entry at 2 was stored and its record lost; what is appended there later is no voters' record."""
    _, log, _ = opened(files)
    append(log, count=2)
    log.flush()
    log.store_voters([entry(1, 1, 2), entry(2, 1, 2, 3)])
    append(log)
    files.crash()
    _, log, recovered = opened(files)
    assert (recovered.log_end_offset, recovered.voters) == (2, (entry(1, 1, 2),))
    append(log, value=b"another")
    log.flush()
    files.crash()
    _, _, recovered = opened(files)
    assert (recovered.log_end_offset, recovered.voters) == (3, (entry(1, 1, 2),))


def test_a_log_without_its_file_of_voters_is_refused(files: SimulatedFiles) -> None:
    """Without the file the replica would believe in the voters that it was formatted with; nothing is changed."""
    _, log, _ = opened(files)
    append(log)
    log.flush()
    files.crash()
    remove_durably(files, STORED)
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError, match="quorum-voters: the file is missing"):
            opened(files)
        files.crash()


def test_a_disk_that_lost_its_initial_voters_is_refused(files: SimulatedFiles) -> None:
    """It is not taken for one without a vote: a clean stop or none, nothing is changed."""
    directory, log, _ = opened(files)
    append(log)
    close(directory, log)
    remove_durably(files, DATA / "initial-voters")
    complaint = "data/initial-voters: the file is missing, as on disks of versions that took the voters from"
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError, match=complaint):
            opened(files)
        files.crash()
    write_initial_voters(files, DATA / "initial-voters", voter_set(1))
    _, log, recovered = opened(files)
    assert (recovered.log_end_offset, recovered.voters) == (1, ())


def test_a_log_whose_file_of_voters_is_damaged_is_refused(files: SimulatedFiles) -> None:
    """One sentence names the file."""
    opened(files)
    files.crash()
    files.overwrite(STORED, b"{}")
    with pytest.raises(CorruptCheckpointError, match="log-0/quorum-voters: data_version None is not 0"):
        opened(files)


def test_voters_that_cannot_be_stored_stop_the_log(files: SimulatedFiles) -> None:
    """After a failed write nothing more is done, as with every other file."""
    _, log, _ = opened(files)
    files.fault = failing("fsync", "quorum-voters")
    with pytest.raises(StorageError, match="cannot store the voters of log"):
        log.store_voters([entry(0, 1)])
    files.fault = None
    with pytest.raises(StorageError, match="cannot store the voters of log"):
        append(log)


class History(PoweredLife):
    """A quorum log whose voters change, in the order in which the core has it done, and which loses its power."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.epoch = 1
        self.check(self.start())

    def opened(self) -> tuple[DataDirectory, LogStore, RecoveredLog]:
        return opened(self.files)

    def check(self, recovered: RecoveredLog) -> None:
        """Voters and records agree."""
        found = tuple(entry for entry in recovered.voters if entry.offset >= self.log.log_start_offset)
        assert found == voters_in(held(self.log))
        self.entries = recovered.voters

    def act(self) -> None:
        """Do one thing that a core may ask for."""
        self.epoch += 1
        end = self.log.log_end_offset
        match self.chance.choice(("append", "append", "change", "change", "flush", "truncate", "install", "restart")):
            case "append":
                write(self.log, [batch(end, epoch=self.epoch)])
            case "change":
                self.change(end)
            case "flush":
                self.log.flush()
            case "truncate":
                end_offset = Offset(self.chance.randint(self.log.log_start_offset, end))
                self.log.truncate(end_offset)
                self.store(entry for entry in self.entries if entry.offset < end_offset)
            case "install":
                self.log.install_snapshot(SnapshotId(Offset(end + 3), Epoch(self.epoch)), b"snapshot")
                self.store(())
            case _:
                close(self.directory, self.log)
                self.check(self.start())

    def change(self, offset: Offset) -> None:
        """Store the entry, then append its record."""
        voters = voter_set(*self.chance.choice([(1,), (1, 2), (1, 2, 3)]))
        self.store((*self.entries, VoterEntry(offset=offset, voters=voters)))
        write(self.log, [voters_batch(voters=voters, base_offset=offset, leader_epoch=Epoch(self.epoch))])

    def store(self, entries: Iterator[VoterEntry] | tuple[VoterEntry, ...]) -> None:
        """Store these entries in place of all."""
        self.entries = tuple(entries)
        self.log.store_voters(self.entries)


@pytest.mark.parametrize("seed", seeds(20))
def test_stored_voters_agree_with_the_records_after_any_power_loss(seed: int) -> None:
    """Every set in the log has its entry, and every entry stands for the very record at its offset."""
    history = History(seed)
    for _ in range(10):
        history.run(steps=30)
