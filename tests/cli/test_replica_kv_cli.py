"""``replica kv`` and ``replica quorum``, on one replica in this process: what is printed, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.cli.kv_txn import TransactionSyntaxError, parse_sections
from replica.core.messages import ApplyResponse, Consistency, QueryRequest, TransferLeadershipRequest
from replica.errors import ErrorCode
from replica.machines.key_value import KeyRange, LeaseId, prefix, single
from replica.machines.key_value.commands import (
    CompareNumber,
    CompareValue,
    Delete,
    Get,
    Increment,
    NumberField,
    Operator,
    Put,
    Range,
    Transaction,
)
from tests.cli.group_server import DIRECTORY_ID, GroupServer

NOBODY = "127.0.0.1:1"
"""Nobody listens on the port of tcpmux."""
TOO_LARGE = str(1 << 63)


@pytest.fixture
def server() -> Iterator[GroupServer]:
    """A group that is empty."""
    server = GroupServer()
    try:
        yield server
    finally:
        server.close()


def kv(server: GroupServer, *arguments: object, stdin: str | bytes | None = None) -> Result:
    return replica("kv", *arguments, "--bootstrap", server.address, "--timeout-ms", 3000, stdin=stdin)


def replica(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def told(result: Result) -> str:
    """What was printed by a command that did what it should."""
    assert result.exit_code == 0, result.output
    return result.output


def test_keys_are_put_read_and_deleted(server: GroupServer) -> None:
    """One command after the other, each a client of its own, sees what those before it have done."""
    assert told(kv(server, "put", "color", "light blue")) == "put at revision 2\n"
    assert told(kv(server, "get", "color")) == "light blue\n"
    assert told(kv(server, "put", "color", "-", stdin=b"\x00\xff")) == "put at revision 3\n"
    assert kv(server, "get", "color").stdout_bytes == b"\x00\xff\n"
    assert told(kv(server, "get", "color", "--revision", 2)) == "light blue\n"
    assert told(kv(server, "incr", "count")) == "1\n"
    assert told(kv(server, "incr", "count", "--by", -3)) == "-2\n"
    assert told(kv(server, "range")) == "color\t\x00\\xff\ncount\t-2\n"
    assert told(kv(server, "range", "--prefix", "co", "--keys-only", "--limit", 1)) == "color\n"
    assert told(kv(server, "range", "count", "d")) == "count\t-2\n"
    assert told(kv(server, "delete", "c", "--prefix")) == "deleted 2, revision 6\n"
    assert told(kv(server, "range")) == ""


def test_json_shows_everything(server: GroupServer) -> None:
    """What text leaves out is in the JSON: revisions, versions, leases."""
    kv(server, "put", "a", "1")
    row = {"key": "a", "value": "1", "create_revision": 2, "mod_revision": 2, "version": 1, "lease_id": None}
    for command, fields in {
        ("put", "b", "2"): {"revision": 3},
        ("get", "a"): {"revision": 3, **row},
        ("range", "--prefix", "a"): row,
        ("cas", "a", "2", "--expected", "0"): {"revision": 3, "succeeded": False, "current": row},
        ("incr", "n"): {"revision": 4, "number": 1},
        ("delete", "n"): {"revision": 5, "deleted": 1},
        ("watch", "a", "--from-revision", "1", "--max-events", "1"): {"type": "put", **row},
        ("watch", "n", "--from-revision", "5", "--max-events", "1"): {"type": "delete", "key": "n", "mod_revision": 5},
        ("describe",): {"revision": 5, "compact_revision": 0, "keys": 2, "leases": 0},
        ("compact", "2"): {"revision": 5, "compact_revision": 2},
        ("lease", "grant", "9000"): {"lease_id": 1, "ttl_ms": 9000},
        ("lease", "keep-alive", "1"): {"lease_id": 1, "ttl_ms": 9000},
        ("lease", "describe", "1"): {"lease_id": 1, "ttl_ms": 9000, "left_ms": 9000, "keys": []},
        ("lease", "revoke", "1"): {"revision": 5, "deleted": 0},
        ("txn", "--then", "get a"): {
            "revision": 5,
            "succeeded": True,
            "results": [{"type": "get", "found": row}],
        },
    }.items():
        assert json.loads(kv(server, *command, "--format", "json").output) == fields, command


def test_a_comparison_that_fails_is_told(server: GroupServer) -> None:
    """cas exits with 1 where it did not put, and says what stands there."""
    assert told(kv(server, "cas", "a", "1", "--absent")) == "put at revision 2\n"
    assert told(kv(server, "cas", "a", "2", "--expected", "1")) == "put at revision 3\n"
    assert told(kv(server, "cas", "a", "3", "--expected-revision", 3)) == "put at revision 4\n"
    failed = kv(server, "cas", "a", "4", "--expected-revision", 3)
    assert (failed.exit_code, failed.output) == (1, "not put: 'a' is '3', last changed at revision 4\n")
    failed = kv(server, "cas", "b", "4", "--expected", "3")
    assert (failed.exit_code, failed.output) == (1, "not put: there is no key 'b'\n")


def test_a_transaction_is_read_from_standard_input(server: GroupServer) -> None:
    """In etcdctl's form; what it did is told line by line."""
    kv(server, "put", "a", "1")
    text = 'value("a") = "1"\n\nput b "two words"\nincrement n\nget b\nrange a c\ndelete a\nget a\n\nget b\n'
    assert told(kv(server, "txn", stdin=text)).splitlines() == [
        *("succeeded, revision 3", "put", "1", "b\ttwo words", "a\t1", "b\ttwo words", "deleted 1", "no such key"),
    ]
    assert told(kv(server, "txn", stdin=text)) == "failed, revision 3\nb\ttwo words\n"
    assert told(kv(server, "txn", "--if", "version(a) = 0", "--then", "put c 3")) == "succeeded, revision 4\nput\n"


def test_a_watch_prints_what_has_changed(server: GroupServer) -> None:
    """From a revision on, one line for each event, up to a number of them."""
    for command in (("put", "a1", "x"), ("put", "b", "y"), ("delete", "a1"), ("put", "a2", "z")):
        kv(server, *command)
    watched = kv(server, "watch", "--prefix", "a", "--from-revision", 2, "--max-events", 3)
    assert told(watched) == "2\tput\ta1\tx\n4\tdelete\ta1\n5\tput\ta2\tz\n"
    assert told(kv(server, "watch", "b", "--from-revision", 1, "--max-events", 1)) == "3\tput\tb\ty\n"
    kv(server, "compact", 5)
    forgotten = kv(server, "watch", "--from-revision", 2)
    assert forgotten.exit_code == 1
    assert "what was before revision 5 is forgotten" in forgotten.output


def test_a_long_range_is_read_in_pieces(server: GroupServer) -> None:
    """What does not fit into one answer is asked for again, and all of it is as it stood at one revision."""
    for name in ("a", "b", "c", "d"):
        kv(server, "put", name, "-", stdin="x" * 600_000)
    server.after_query = Delete(keys=prefix(b""))
    assert told(kv(server, "range", "--keys-only")) == "a\nb\nc\nd\n"
    assert sum(isinstance(request, QueryRequest) for request in server.asked) == 2
    assert told(kv(server, "range", "--revision", 5, "--limit", 3, "--keys-only")) == "a\nb\nc\n"


def test_leases_on_the_command_line(server: GroupServer) -> None:
    """A lease is granted, given a key, kept alive, shown and ended."""
    assert told(kv(server, "lease", "grant", 60_000)) == "1\n"
    told(kv(server, "put", "a", "1", "--lease", 1))
    assert told(kv(server, "lease", "keep-alive", 1)) == "lives for 60000 ms\n"
    assert told(kv(server, "lease", "describe", 1)) == "60000 of 60000 ms left\na\n"
    assert told(kv(server, "lease", "revoke", 1)) == "deleted 1, revision 3\n"
    gone = kv(server, "lease", "describe", 1)
    assert gone.exit_code == 1
    assert gone.output.startswith("Error: LEASE_NOT_FOUND")


@pytest.mark.parametrize(
    ("options", "consistency"),
    [
        ([], Consistency.LINEARIZABLE),
        (["--node", "any"], Consistency.LINEARIZABLE),
        (["--consistency", "lease"], Consistency.LEASE),
        (["--consistency", "stale"], Consistency.STALE),
        (["--consistency", "stale", "--node", "1"], Consistency.STALE),
    ],
)
def test_how_recent_an_answer_must_be_is_asked_for(
    server: GroupServer, options: list[str], consistency: Consistency
) -> None:
    """Reads are linearizable unless a stale answer will do."""
    kv(server, "put", "a", "1")
    assert told(kv(server, "get", "a", *options)) == "1\n"
    (asked,) = [request for request in server.asked if isinstance(request, QueryRequest)]
    assert asked.consistency is consistency


@pytest.mark.parametrize(
    ("answer", "exit_code", "sentence"),
    [
        (
            ApplyResponse(error=ErrorCode.INVALID_REQUEST, not_appended=True),
            1,
            "Error: not applied: it needs a session",
        ),
        (None, 0, "put at revision 3"),
    ],
)
def test_a_refusal_is_one_sentence(
    server: GroupServer, answer: ApplyResponse | None, exit_code: int, sentence: str
) -> None:
    """What is certainly not applied exits with 1."""
    kv(server, "put", "a", "1")
    server.apply_answer = answer
    result = kv(server, "put", "a", "2")
    assert result.exit_code == exit_code
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith(sentence)


def test_an_unknown_outcome_has_a_code_of_its_own(server: GroupServer) -> None:
    """Where nobody can say whether it was applied, the command exits with 3 and says so."""
    server.lose_commands = True
    result = replica("kv", "put", "a", "1", "--bootstrap", server.address, "--timeout-ms", 500)
    assert result.exit_code == 3
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith("Error: the command may have been applied, or may be later: no answer within 500")
    assert result.output.endswith("; look before you repeat it\n")


@pytest.mark.parametrize(
    "command",
    [["put", "a", "1"], ["get", "a"], ["watch"], ["txn", "--then", "get a"], ["lease", "grant", "1000"]],
)
def test_nobody_there_is_one_sentence(command: list[str]) -> None:
    """With no replica there a command exits with 1: nothing was done."""
    result = replica("kv", *command, "--bootstrap", NOBODY, "--timeout-ms", 300)
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert f"{NOBODY} refuses connections" in result.output


@pytest.mark.parametrize(
    "command",
    [["kv", "put", "a", "1"], ["kv", "get", "a"], ["quorum", "describe"], ["quorum", "transfer", "--to", "2"]],
)
def test_a_group_that_is_not_there_is_named(server: GroupServer, command: list[str]) -> None:
    """A wrong name is told at once, with what to check."""
    result = replica(*command, "--group", "nonsense", "--bootstrap", server.address)
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith("Error: no replica that was asked has a group 'nonsense'; check --group")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cas", "a", "1"], "say what is expected by one of"),
        (["cas", "a", "1", "--absent", "--expected", "1"], "say what is expected by one of"),
        (["delete", "a", "b", "--prefix"], "--prefix takes one START and no END"),
        (["get", "a", "--node", "somebody"], "--node 'somebody' is neither leader, any nor the id of a replica"),
        (["get", "a", "--node", "1" * 5000], "is neither leader, any nor the id of a replica"),
        (["get", "a", "--revision", TOO_LARGE], "9223372036854775808 is not in the range"),
        (["incr", "a", "--by", TOO_LARGE], "9223372036854775808 is not in the range"),
        (["put", "a", "1", "--lease", TOO_LARGE], "9223372036854775808 is not in the range"),
        (["txn", "--then", f"incr a {TOO_LARGE}"], "delta is 9223372036854775808; it must be"),
        (["txn", "--then", "steal a"], "'steal a' is no operation; there are: put KEY VALUE"),
    ],
)
def test_a_wrong_usage_is_named(arguments: list[str], complaint: str) -> None:
    """What cannot be meant exits with 2 and names the argument, before anybody is asked."""
    result = replica("kv", *arguments, "--bootstrap", NOBODY)
    assert result.exit_code == 2
    assert complaint in result.output


# --- transactions ---------------------------------------------------------------------------------------------------


def test_every_form_of_a_transaction_is_read() -> None:
    """Comparisons by their short and long names, operations with all that they take, quotes where one wants them."""
    lines = """
        value("a b") != "x = y"
        version(a) = 0
        mod("a") < 7
        create_revision(a) > 1

        put "a b" c
        put a b --lease 7
        delete a
        del a b
        delete --prefix a

        get a
        range a
        range a b
        increment n
        incr n -2
    """.strip("\n").splitlines()
    assert parse_sections(lines[:-1]) == Transaction(
        comparisons=(
            CompareValue(key=b"a b", operator=Operator.NOT_EQUAL, value=b"x = y"),
            CompareNumber(key=b"a", field=NumberField.VERSION, operator=Operator.EQUAL, number=0),
            CompareNumber(key=b"a", field=NumberField.MOD_REVISION, operator=Operator.LESS, number=7),
            CompareNumber(key=b"a", field=NumberField.CREATE_REVISION, operator=Operator.GREATER, number=1),
        ),
        then=(
            Put(key=b"a b", value=b"c"),
            Put(key=b"a", value=b"b", lease_id=LeaseId(7)),
            Delete(keys=single(b"a")),
            Delete(keys=KeyRange(start=b"a", end=b"b")),
            Delete(keys=prefix(b"a")),
        ),
        otherwise=(
            Get(key=b"a"),
            Range(keys=single(b"a")),
            Range(keys=KeyRange(start=b"a", end=b"b")),
            Increment(key=b"n"),
            Increment(key=b"n", delta=-2),
        ),
    )


@pytest.mark.parametrize(
    ("text", "then"),
    [("", 0), ("\n", 0), ("\nput a b", 1), ("\nput a b\n", 1), ("\nput a b\nget a\n\n\n", 2)],
)
def test_sections_may_be_empty(text: str, then: int) -> None:
    """An empty line ends a section, whether or not there is anything in it; what is missing is empty."""
    transaction = parse_sections(text.splitlines())
    assert (transaction.comparisons, len(transaction.then), transaction.otherwise) == ((), then, ())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = 1", "'a = 1' is no comparison"),
        ("color(a) = 1", "compare value, version, mod_revision or create_revision"),
        ("version(a) = one", "'one' is not a number"),
        ("value(a b) = 1", "'a b' is not one word; put quotes around it"),
        ('value("a) = 1', "cannot be read: No closing quotation"),
        (f"version(a) = {TOO_LARGE}", "number is 9223372036854775808"),
        ("\nput a", "'put a' is not put KEY VALUE"),
        ("\nput a b --lease x", "is not put KEY VALUE"),
        ("\nget a b", "'get a b' is not get KEY"),
        ("\nincr n x", "is not incr KEY"),
        ("\ndelete a b c", "is not delete KEY | START END | --prefix START"),
        ("\n\n\nget a", "4 sections, the most is 3"),
    ],
)
def test_a_line_that_means_nothing_is_named(text: str, complaint: str) -> None:
    """The line, and what would mean something."""
    with pytest.raises(TransactionSyntaxError) as error:
        parse_sections(text.splitlines())
    assert complaint in str(error.value)


# --- the quorum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [[], ["--group", "kv"]])
def test_a_quorum_is_described(server: GroupServer, group: list[str]) -> None:
    """Leader, epoch and high watermark, and for each replica how far it is behind the longest log of a voter."""

    def disk(directory_id: str = "-", address: str = "-") -> str:
        return f"{directory_id:22}  {address}"

    result = replica("quorum", "describe", *group, "--bootstrap", server.address)
    assert told(result).splitlines() == [
        "leader 1, epoch 4, high watermark 90",
        "",
        "REPLICA-ID  ROLE      LOG-END-OFFSET  LAG  LAST-FETCH-MS-AGO  LAST-CAUGHT-UP-MS-AGO  "
        + disk("DIRECTORY-ID", "ADDRESS"),
        "         1  voter                100    0                  -                      -  "
        + disk(DIRECTORY_ID, "one:1"),
        "         2  voter                 90   10                  5                      7  " + disk(),
        "         3  voter                  -    -                  -                      -  " + disk(),
        "         9  observer              80   20                  1                      -  " + disk(),
    ]


def test_a_quorum_as_json(server: GroupServer) -> None:
    """The same with names."""
    (row,) = json.loads(told(replica("quorum", "describe", "--bootstrap", server.address, "--format", "json")))
    assert (row["leader_id"], row["leader_epoch"], row["high_watermark"]) == (1, 4, 90)
    assert [replica["lag"] for replica in row["replicas"]] == [0, 10, None, 20]


def test_a_leadership_is_transferred(server: GroupServer) -> None:
    """The command says who leads now, and in which epoch; here that one has led before."""
    result = replica("quorum", "transfer", "--group", "kv", "--to", 1, "--bootstrap", server.address)
    assert told(result) == "replica 1 leads in epoch 4\n"
    (request,) = [request for request in server.asked if isinstance(request, TransferLeadershipRequest)]
    assert (request.topic_partition.topic, request.target_id, request.timeout_ms > 0) == ("kv", 1, True)


def test_a_transfer_that_cannot_be_is_one_sentence(server: GroupServer) -> None:
    """Whoever has no vote cannot lead."""
    result = replica("quorum", "transfer", "--to", 9, "--bootstrap", server.address)
    assert (result.exit_code, result.output) == (1, "Error: __cluster_metadata-0: only a voter can lead\n")
