"""``replica format`` and ``random-id``: who votes at first, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.ids import ReplicaId
from replica.storage import CorruptCheckpointError, open_directory
from replica.storage.group_backup import encode_backup, write_backup
from replica.voters import Voter, VoterSet, is_directory_id
from tests.storage.test_group_backup import backup

DISK, DISK_2 = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
BOTH = f"1=a:1={DISK},2=b:2={DISK_2}"
ONE = Voter(replica_id=ReplicaId(1), directory_id=DISK, address="a:1")
TWO = Voter(replica_id=ReplicaId(2), directory_id=DISK_2, address="b:2")


def formatted(folder: Path, *options: str) -> Result:
    """Format the directory of replica 1."""
    arguments = ["format", "--data-dir", str(folder / "data"), "--cluster-id", "c", "--replica-id", "1", *options]
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(
    ("options", "directory_id", "initial_voters", "told"),
    [
        (["--initial-voters", BOTH], DISK, VoterSet((ONE, TWO)), ", initial voters 1,2"),
        (["--initial-voters", BOTH, "--directory-id", DISK], DISK, VoterSet((ONE, TWO)), ", initial voters 1,2"),
        (
            ["--standalone", "--advertised-address", "a:1", "--directory-id", DISK],
            DISK,
            VoterSet((ONE,)),
            ", initial voters 1",
        ),
        (["--no-initial-voters"], None, VoterSet(()), ", no vote until it is added"),
        (["--no-initial-voters", "--directory-id", DISK_2], DISK_2, VoterSet(()), ", no vote until it is added"),
    ],
)
def test_a_disk_knows_who_votes_at_first(
    tmp_path: Path, options: list[str], directory_id: str | None, initial_voters: VoterSet, told: str
) -> None:
    """What the options say comes back when the directory is opened, and is told."""
    result = formatted(tmp_path, *options)
    assert result.exit_code == 0, result.output
    directory = open_directory(tmp_path / "data")
    directory.close(clean=True)
    assert result.output.endswith(f"directory id {directory.directory_id}{told}\n")
    assert directory_id in (None, directory.directory_id)
    assert directory.initial_voters == initial_voters


def test_log_directories_are_of_the_replica_of_the_data_directory(tmp_path: Path) -> None:
    """Each has an id of its own; what is formatted already is refused, and so is a data directory that is not."""
    assert formatted(tmp_path, "--no-initial-voters").exit_code == 0
    data, disks = tmp_path / "data", (tmp_path / "a", tmp_path / "b")
    command = ["format-log-dir", "--data-dir", str(data), *map(str, disks)]
    assert CliRunner().invoke(main, command).exit_code == 0
    again = CliRunner().invoke(main, command)
    assert (again.exit_code, "is formatted already" in again.output) == (1, True)
    nowhere = CliRunner().invoke(main, ["format-log-dir", "--data-dir", str(tmp_path / "no"), str(tmp_path / "c")])
    assert (nowhere.exit_code, "is not a formatted data directory" in nowhere.output) == (1, True)
    directory = open_directory(data, log_dirs=disks)
    ids = {directory.directory_id, *(place.directory_id for place in directory.places.dirs)}
    directory.close(clean=True)
    assert len(ids) == 3
    assert all(map(is_directory_id, ids))


def test_a_lone_voter_draws_a_directory_id_that_its_voters_name(tmp_path: Path) -> None:
    """The fresh id of the disk is the voter's."""
    assert formatted(tmp_path, "--standalone", "--advertised-address", "a:1").exit_code == 0
    directory = open_directory(tmp_path / "data")
    directory.close(clean=True)
    assert directory.initial_voters is not None
    assert [voter.key.directory_id for voter in directory.initial_voters.voters] == [directory.directory_id]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "who votes at first; a disk that replaces another, or joins, has --no-initial-voters"),
        (["--directory-id", DISK_2], "give one of --initial-voters, --standalone and --no-initial-voters"),
        (["--initial-voters", f"2=b:2={DISK_2}"], "replica 1 is not among --initial-voters"),
        (["--initial-voters", BOTH, "--directory-id", DISK_2], "--directory-id is"),
        (["--initial-voters", f"1=a:1={DISK},1=b:2={DISK_2}"], "replica 1 is named twice"),
        (["--initial-voters", f"1=a:1={DISK},2=b:2={DISK}"], f"directory id {DISK} is named twice"),
        (["--initial-voters", f"1=a={DISK}"], "'a' is not HOST:PORT"),
        (["--initial-voters", "1=a:1=x"], "'x' is no directory id"),
        (["--initial-voters", ""], "'' is not ID=HOST:PORT=DIRECTORY_ID"),
        (["--standalone"], "--standalone needs --advertised-address"),
        (["--standalone", "--advertised-address", "a"], "'a' is not HOST:PORT"),
        (["--standalone", "--advertised-address", "a:1", "--no-initial-voters"], "give one of"),
        (["--initial-voters", BOTH, "--no-initial-voters"], "give one of"),
        (["--no-initial-voters", "--advertised-address", "a:1"], "--advertised-address is for --standalone"),
        (["--no-initial-voters", "--directory-id", "disk"], "'disk' is no directory id"),
    ],
)
def test_what_cannot_be_formatted_is_named(tmp_path: Path, options: list[str], complaint: str) -> None:
    """One sentence says what is wrong, and no directory is made."""
    result = formatted(tmp_path, *options)
    assert result.exit_code in {1, 2}
    assert complaint in result.output
    assert not (tmp_path / "data").exists()


def test_random_ids_can_be_directory_ids() -> None:
    """Every one is another, none looks like an option, and each can be a voter's."""
    ids = {CliRunner().invoke(main, ["random-id"]).output.strip() for _ in range(300)}
    assert len(ids) == 300
    assert all(is_directory_id(found) and not found.startswith("-") for found in ids)


def test_a_disk_begins_with_a_back_up(tmp_path: Path) -> None:
    """The group's log is there, and the command says with which machine to start."""
    write_backup(tmp_path / "kv.backup", backup())
    begin = ("--standalone", "--advertised-address", "a:1", "--from-backup", str(tmp_path / "kv.backup"))
    result = formatted(tmp_path, *begin)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1:] == [
        "group kv begins at offset 2, as it was in cluster old; start with --group kv=counter"
    ]
    assert (tmp_path / "data" / "kv-0" / f"{2:020d}-{3:010d}.checkpoint").exists()
    assert "is formatted already" in formatted(tmp_path, *begin).output


@pytest.mark.parametrize(
    ("changed", "options", "complaint"),
    [
        (
            lambda whole: whole[:-1],
            ["--standalone", "--advertised-address", "a:1"],
            "cannot be restored: it is damaged",
        ),
        (lambda _: b"something", ["--standalone", "--advertised-address", "a:1"], "it is not the back-up of a group"),
        (lambda whole: whole, ["--no-initial-voters"], "who begins with a back-up votes at first"),
        (
            lambda whole: whole,
            ["--standalone", "--advertised-address", "a:1", "--cluster-id", "old"],
            "cluster old itself",
        ),
    ],
)
def test_a_back_up_that_cannot_be_begun_with(
    tmp_path: Path, changed: Callable[[bytes], bytes], options: list[str], complaint: str
) -> None:
    """One sentence says why, and nothing is made."""
    (tmp_path / "kv.backup").write_bytes(changed(encode_backup(backup())))
    result = formatted(tmp_path, *options, "--from-backup", str(tmp_path / "kv.backup"))
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1), result.output
    assert complaint in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "level"),
    [
        (["--initial-voters", BOTH], NEWEST_LEVEL),
        (["--initial-voters", BOTH, "--level", "1"], 1),
        (["--no-initial-voters"], 1),
    ],
)
def test_a_new_cluster_begins_at_the_newest_level_or_as_told(tmp_path: Path, options: list[str], level: int) -> None:
    """The disks of its first voters say so; whoever joins later says nothing of it."""
    assert formatted(tmp_path, *options).exit_code == 0
    directory = open_directory(tmp_path / "data")
    directory.close(clean=True)
    assert directory.meta.feature_level == level
    properties = (tmp_path / "data" / "meta.properties").read_text()
    assert ("feature.level" in properties) == (level > 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--initial-voters", BOTH, "--level", "99"], "feature level 99 must be from 1 to"),
        (["--no-initial-voters", "--level", "1"], "--level is for the first voters"),
    ],
)
def test_a_level_that_cannot_be_is_refused(tmp_path: Path, options: list[str], complaint: str) -> None:
    """It is unknown here, or the cluster has one already; nothing is formatted."""
    result = formatted(tmp_path, *options)
    assert result.exit_code != 0
    assert complaint in result.output
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_a_disk_of_a_later_release_is_not_opened(tmp_path: Path) -> None:
    """Its level says so in one sentence."""
    assert formatted(tmp_path, "--initial-voters", BOTH).exit_code == 0
    properties = tmp_path / "data" / "meta.properties"
    properties.write_text(properties.read_text().replace(f"level={NEWEST_LEVEL}", "level=99"))
    with pytest.raises(CorruptCheckpointError, match=r"feature\.level '99' is none of 1, 2"):
        open_directory(tmp_path / "data")
