"""``replica quorum add-voter`` and ``remove-voter``, on one replica in this process: output and exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.core.messages import AddVoterRequest, ChangeVotersResponse, RemoveVoterRequest
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.voters import ReplicaKey, Voter
from tests.cli.group_server import DIRECTORY_ID, GroupServer

OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def server() -> Iterator[GroupServer]:
    """A replica that leads the metadata log and a group."""
    server = GroupServer()
    try:
        yield server
    finally:
        server.close()


def quorum(server: GroupServer, command: str, *arguments: object) -> Result:
    words = ["quorum", command, *arguments, "--bootstrap", server.address, "--timeout-ms", 1500]
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_voter_is_added_where_the_cluster_dials_it(server: GroupServer) -> None:
    """It is asked for its disk; each log that is named is one line, in the order in which they were given."""
    logs = ("--log", "kv", "--log", "__cluster_metadata")
    result = quorum(server, "add-voter", *logs, "--voter", 1)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        f"replica 1 votes in {log}: directory id {DIRECTORY_ID}, address {server.address}"
        for log in ("kv", "__cluster_metadata")
    ]
    voter = Voter(replica_id=ReplicaId(1), directory_id=DIRECTORY_ID, address=server.address)
    asked = [request for request in server.asked if isinstance(request, AddVoterRequest)]
    assert [(str(request.topic_partition), request.voter) for request in asked] == [
        ("kv-0", voter),
        ("__cluster_metadata-0", voter),
    ]


def test_a_voter_is_added_as_it_is_given(server: GroupServer) -> None:
    """Address and disk by options: nobody else is asked."""
    result = quorum(server, "add-voter", "--log", "kv", "--voter", "4=[::1]:9", "--directory-id", OTHER_ID)
    assert result.output == f"replica 4 votes in kv: directory id {OTHER_ID}, address [::1]:9\n"
    (request,) = [request for request in server.asked if isinstance(request, AddVoterRequest)]
    assert request.voter == Voter(replica_id=ReplicaId(4), directory_id=OTHER_ID, address="[::1]:9")


@pytest.mark.parametrize("directory_id", [None, OTHER_ID])
def test_a_voter_is_removed(server: GroupServer, directory_id: str | None) -> None:
    """On whatever disk, or on the one that is named."""
    options = () if directory_id is None else ("--directory-id", directory_id)
    result = quorum(server, "remove-voter", "--log", "kv", "--voter", 2, *options)
    assert result.output == "replica 2 votes no more in kv\n"
    (request,) = [request for request in server.asked if isinstance(request, RemoveVoterRequest)]
    assert request.voter == ReplicaKey(ReplicaId(2), directory_id)


@pytest.mark.parametrize(
    ("answer", "exit_code", "complaint"),
    [
        (ChangeVotersResponse(error=ErrorCode.VOTER_NOT_FOUND, not_appended=True), 1, "are not changed: no replica of"),
        (ChangeVotersResponse(error=ErrorCode.INVALID_REQUEST, not_appended=True), 1, "last voter cannot be removed\n"),
        (
            ChangeVotersResponse(error=ErrorCode.REQUEST_TIMED_OUT, not_appended=True),
            1,
            "within 1500 ms; last: the new voter has not caught up",
        ),
        (
            ChangeVotersResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED, not_appended=True),
            1,
            "are not changed: not done within 1500 ms; last: broker 1",
        ),
        (
            ChangeVotersResponse(error=ErrorCode.REQUEST_TIMED_OUT),
            3,
            "it is unknown whether the voters are changed: not done within 1500 ms",
        ),
    ],
)
def test_a_change_that_fails_is_one_sentence(
    server: GroupServer, answer: ChangeVotersResponse, exit_code: int, complaint: str
) -> None:
    """With 1 the voters are as they were; 3 is for what nobody knows. No further log is touched."""
    server.voters_answer = answer
    result = quorum(server, "remove-voter", "--log", "kv", "--log", "__cluster_metadata", "--voter", 2)
    assert (result.exit_code, len(result.output.splitlines())) == (exit_code, 1), result.output
    assert result.output.startswith("Error: kv-0: ")
    assert complaint in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--voter", "4"], "Missing option '--log'"),
        (["--log", "kv", "--voter", "x=a:1"], "--voter 'x=a:1' is neither ID nor ID=HOST:PORT"),
        (["--log", "kv", "--voter", "4=a"], "'a' is not HOST:PORT"),
        (["--log", "kv", "--voter", "4=a:1", "--directory-id", "disk"], "'disk' is no directory id"),
    ],
)
def test_what_cannot_be_meant_is_refused(server: GroupServer, arguments: list[str], complaint: str) -> None:
    """A usage error says what it should look like, and nobody is asked."""
    result = quorum(server, "add-voter", *arguments)
    assert result.exit_code == 2
    assert complaint in result.output
    assert not server.asked


def test_a_log_that_is_not_there_is_named(server: GroupServer) -> None:
    """A wrong name is told at once, with what to check."""
    result = quorum(server, "remove-voter", "--log", "nonsense", "--voter", 2)
    assert result.exit_code == 1
    assert result.output.startswith("Error: no replica that was asked has a group 'nonsense'; check --group or --log")
