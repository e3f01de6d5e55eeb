"""The commands that ask brokers, against a running cluster: topics, records, offsets, leaders."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.ids import ReplicaId
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster, command

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replica_topic_cli")]  # They share a cluster.


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that run, for all tests of this file."""
    with LocalCluster(tmp_path_factory.mktemp("three"), size=3) as cluster:
        cluster.format()
        cluster.start()
        wait_active(cluster)
        yield cluster


def replica(cluster: LocalCluster, *arguments: object, stdin: str | None = None) -> Result:
    bootstrap = ",".join(cluster.addresses.values())
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin, env={"REPLICA_BOOTSTRAP": bootstrap})


def wait_active(cluster: LocalCluster) -> None:
    """Wait until all brokers are active."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        described = replica(cluster, "cluster", "describe", "--format", "json")
        if described.exit_code == 0:
            (found,) = json.loads(described.output)
            if [row["state"] for row in found["brokers"]] == ["active"] * len(cluster.ids):
                return
    raise AssertionError("the brokers do not come up")


def succeed(cluster: LocalCluster, *arguments: object, stdin: str | None = None) -> str:
    result = replica(cluster, *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_broker_that_serves_cannot_be_unregistered(cluster: LocalCluster) -> None:
    """The command says why, and the cluster is as before."""
    refused = replica(cluster, "cluster", "unregister", "--broker-id", 1)
    assert refused.exit_code == 1
    assert "broker 1 is alive; stop it first" in refused.output
    assert "broker 77 is not registered" in replica(cluster, "cluster", "unregister", "--broker-id", 77).output
    wait_active(cluster)


def create(cluster: LocalCluster, name: str, *arguments: object) -> None:
    """Create a topic whose name nobody else uses: that it exists already may come of an answer that was lost."""
    result = replica(cluster, "topic", "create", name, *arguments)
    said = f"created {name} with id " if result.exit_code == 0 else "an earlier attempt, whose answer was lost"
    assert said in result.output, result.output


def described(cluster: LocalCluster, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Describe a topic until the broker that answers has heard of the change that was made."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        result = replica(cluster, "topic", "describe", name, "--format", "json")
        if result.exit_code == 0:
            (found,) = json.loads(result.output)
            if holds(found):
                assert isinstance(found, dict)
                return found
    raise AssertionError(f"nobody hears of {name}")


def test_a_topic_is_created_shown_changed_and_deleted(cluster: LocalCluster) -> None:
    """The life of a topic by commands; what they print can be read by people and by programs."""
    create(cluster, "life", "--assignment", "2,1", "--assignment", "3,1", "--config", "min.insync.replicas=2")
    described(cluster, "life", lambda topic: len(topic["partitions"]) == 2)
    (row,) = [row for row in json.loads(succeed(cluster, "topic", "list", "--format", "json")) if row["name"] == "life"]
    assert (row["partitions"], row["replicas"], row["configs"]) == (2, 2, {"min.insync.replicas": "2"})
    assert "life" in succeed(cluster, "topic", "list")
    succeed(cluster, "topic", "alter", "life", "--unset", "min.insync.replicas", "--config", "retention.ms=1000")
    changed = described(cluster, "life", lambda topic: bool(topic["configs"] == {"retention.ms": "1000"}))
    assert [row["leader_id"] for row in changed["partitions"]] == [2, 3]
    assert "retention.ms=1000" in succeed(cluster, "topic", "describe", "life")
    assert succeed(cluster, "topic", "delete", "life") == "deleted life\n"
    gone = replica(cluster, "topic", "delete", "life")
    assert gone.exit_code == 1
    assert gone.output == (
        "Error: UNKNOWN_TOPIC_OR_PARTITION: life does not exist; `replica topic list` shows what exists\n"
    )


def test_lines_become_records_and_records_lines(cluster: LocalCluster) -> None:
    """What is produced is consumed, in order, with keys; from the start, an offset or a time; as text or JSON."""
    create(cluster, "lines", "--partitions", 1, "--replication-factor", 3)
    written = succeed(cluster, "produce", "lines", "--key-separator", ":", "--compression", "lz4", stdin="k:a\nl:b\n:c")
    assert written.splitlines() == ["0\t0", "0\t1", "0\t2"]
    ends = ("--timeout-ms", 2000, "--max-messages")
    assert succeed(cluster, "consume", "lines", *ends, 3).splitlines() == ["0\t0\tk\ta", "0\t1\tl\tb", "0\t2\t\tc"]
    assert succeed(cluster, "consume", "lines", "--from", 1, "--format", "value", *ends, 2) == "b\nc\n"
    assert succeed(cluster, "consume", "lines", "--from", "2020-01-31T12:00:00Z", *ends, 1) == "0\t0\tk\ta\n"
    assert succeed(cluster, "consume", "lines", "--from", "end", "--timeout-ms", 300) == ""
    record = json.loads(succeed(cluster, "consume", "lines", "--partition", 0, "--format", "json", *ends, 1))
    assert (record["topic"], record["partition"], record["offset"], record["key"]) == ("lines", 0, 0, "k")
    (row,) = json.loads(succeed(cluster, "offsets", "lines", "--format", "json"))
    assert (row["log_start_offset"], row["high_watermark"], row["error"]) == (0, 3, None)


def test_the_oldest_records_are_deleted(cluster: LocalCluster) -> None:
    """Records below an offset, or below the high watermark, are gone; what begins later is told; more is refused."""
    create(cluster, "old", "--partitions", 2, "--replication-factor", 3)
    succeed(cluster, "produce", "old", "--partition", 1, stdin="a\nb\nc")
    delete = ("topic", "delete-records", "old", "--partition", 1, "--before-offset")
    assert succeed(cluster, *delete, 2) == "old-1 begins at offset 2\n"
    assert succeed(cluster, *delete, 1) == "old-1 begins at offset 2\n"
    refused = replica(cluster, *delete, 4)
    assert refused.exit_code == 1
    assert "answered OFFSET_OUT_OF_RANGE; `replica offsets` shows" in refused.output
    assert succeed(cluster, *delete, -1) == "old-1 begins at offset 3\n"
    rows = json.loads(succeed(cluster, "offsets", "old", "--format", "json"))
    assert [(row["log_start_offset"], row["high_watermark"]) for row in rows] == [(0, 0), (3, 3)]
    assert replica(cluster, *delete, -2).exit_code == 2


def test_a_topic_is_moved_while_it_is_written(cluster: LocalCluster) -> None:
    """From brokers 1 and 2 to 3 and 2: each line is acknowledged, and none is lost or out of order."""
    succeed(cluster, "topic", "create", "moving", "--assignment", "1,2", "--config", "min.insync.replicas=2")
    bootstrap = ",".join(cluster.addresses.values())
    arguments = command("produce", "moving", "--bootstrap", bootstrap, "--timeout-ms", 30_000)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as producing:
        count = write_lines(producing, 0)
        reassigned = succeed(cluster, "topic", "reassign", "moving", "--assignment", "3,2")
        assert reassigned == "moving-0 moves to 3,2\n"
        while moving(cluster, "moving"):
            count = write_lines(producing, count)
        count = write_lines(producing, count)
        assert producing.stdin is not None
        producing.stdin.close()
        assert producing.wait(PATIENCE_SECONDS) == 0
    (row,) = described(cluster, "moving", lambda topic: bool(topic["partitions"][0]["replicas"] == [3, 2]))[
        "partitions"
    ]
    assert (row["leader_id"], row["adding_replicas"], row["removing_replicas"]) == (3, [], [])
    lines = succeed(cluster, "consume", "moving", "--format", "value", "--timeout-ms", 5000, "--max-messages", count)
    assert lines.split() == [str(number) for number in range(count)]


def write_lines(producing: subprocess.Popen[str], first: int) -> int:
    """Have ten numbers from ``first`` on acknowledged, one after the other; return the next."""
    assert producing.stdin is not None
    assert producing.stdout is not None
    for number in range(first, first + 10):
        producing.stdin.write(f"{number}\n")
        producing.stdin.flush()
        assert producing.stdout.readline() == f"0\t{number}\n"
    return first + 10


def moving(cluster: LocalCluster, name: str) -> list[dict[str, Any]]:
    """The partitions of a topic that are on their way."""
    rows: list[dict[str, Any]] = json.loads(succeed(cluster, "topic", "reassignments", name, "--format", "json"))
    return rows


def test_a_topic_that_cannot_move_goes_back(cluster: LocalCluster) -> None:
    """A broker that is away is waited for, which is shown, until the move is cancelled."""
    succeed(cluster, "topic", "create", "back", "--assignment", "1,2", "--assignment", "2,1")
    cluster.kill(ReplicaId(3))
    succeed(cluster, "topic", "reassign", "back", "--partition", 1, "--assignment", "3,2")
    assert moving(cluster, "back") == [
        {"topic": "back", "partition": 1, "replicas": [3, 2, 1], "adding_replicas": [3], "removing_replicas": [1]}
    ]
    assert succeed(cluster, "topic", "reassign", "back", "--cancel") == "back-1 goes back to its replicas of before\n"
    assert succeed(cluster, "topic", "reassignments", "back") == "nothing to show\n"
    cluster.start(ReplicaId(3))
    wait_active(cluster)


def test_a_partition_that_cannot_be_read_is_not_passed_over(cluster: LocalCluster) -> None:
    """What consume could not read, for want of a leader, is named on standard error, and its exit code is 1."""
    create(cluster, "partly", "--assignment", "1", "--assignment", "3")
    described(cluster, "partly", lambda topic: [row["leader_id"] for row in topic["partitions"]] == [1, 3])
    succeed(cluster, "produce", "partly", "--partition", 0, stdin="a\n")
    whole = replica(cluster, "consume", "partly", "--timeout-ms", 2500)
    assert (whole.exit_code, whole.output) == (0, "0\t0\t\ta\n")
    cluster.kill(ReplicaId(3))
    partly = replica(cluster, "consume", "partly", "--timeout-ms", 2000)
    alone = replica(cluster, "consume", "partly", "--timeout-ms", 500, "--partition", 1)
    readable = replica(cluster, "consume", "partly", "--timeout-ms", 2500, "--partition", 0)
    cluster.start(ReplicaId(3))
    wait_active(cluster)
    for result, read in ((partly, "0\t0\t\ta\n"), (alone, "")):
        assert (result.exit_code, result.stdout) == (1, read)
        assert result.stderr.startswith("Error: not everything was read: partly-1: no answer within"), result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert (readable.exit_code, readable.output) == (0, "0\t0\t\ta\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--assignment", "1,2"), "--assignment is needed once per partition: 2 times, not 1"),
        (("--assignment", "1,2", "--cancel"), "name the replicas with --assignment, or --cancel"),
        ((), "name the replicas with --assignment, or --cancel"),
        (("--assignment", "a"), "--assignment 'a' is not a list of broker ids"),
        (("--cancel", "--partition", 0, "--partition", 0), "--partition names one twice: 0, 0"),
    ],
)
def test_what_is_no_move_is_a_wrong_usage(cluster: LocalCluster, arguments: tuple[object, ...], complaint: str) -> None:
    """A move names the replicas of each partition that is meant, or is cancelled."""
    replica(cluster, "topic", "create", "usage", "--assignment", "1,2", "--assignment", "2,1")
    described(cluster, "usage", lambda _: True)
    result = replica(cluster, "topic", "reassign", "usage", *arguments)
    assert result.exit_code == 2
    assert complaint in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("topic", "create", "faults"), "TOPIC_ALREADY_EXISTS: faults exists; choose another name"),
        (("topic", "create", "f", "--replication-factor", 9), "INVALID_REPLICATION_FACTOR: replication factor 9"),
        (("topic", "alter", "faults", "--config", "nonsense=1"), "INVALID_CONFIG: nonsense is not a setting"),
        (("topic", "describe", "nothing"), "nothing does not exist; `replica topic list` shows what exists"),
        (("offsets", "nothing", "--timeout-ms", 300), "nothing does not exist"),
        (("consume", "faults", "--partition", 7), "faults-7 does not exist"),
        (("consume", "faults", "--from", 5, "--timeout-ms", 5000), "offset 5 is outside faults-0, which starts at 0"),
        (("produce", "faults", "--key-separator", ":"), "line 1 has no ':'"),
        (("partition", "elect-leader", "faults", 0), "ELECTION_NOT_NEEDED: 1 leads already"),
        (("topic", "reassign", "faults", "--assignment", "1,1"), "INVALID_REPLICA_ASSIGNMENT: the target of faults-0"),
        (("topic", "reassign", "faults", "--cancel"), "NO_REASSIGNMENT_IN_PROGRESS: no partition of faults is being"),
        (("topic", "reassign", "nothing", "--assignment", "1"), "nothing does not exist"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    cluster: LocalCluster, arguments: tuple[object, ...], complaint: str
) -> None:
    """Each refusal exits with 1, has Kafka's name and says what is wrong or what to do."""
    replica(cluster, "topic", "create", "faults", "--assignment", "1,2,3")
    described(cluster, "faults", lambda _: True)
    result = replica(cluster, *arguments, stdin="a\n")
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {complaint}")
    assert len(result.output.splitlines()) == 1


def test_the_cluster_is_described(cluster: LocalCluster) -> None:
    """cluster describe names the controller and every broker with its address."""
    table = succeed(cluster, "cluster", "describe")
    (found,) = json.loads(succeed(cluster, "cluster", "describe", "--format", "json"))
    assert found["cluster_id"] == "test"
    assert found["controller_id"] in cluster.ids
    assert {row["broker_id"]: row["address"] for row in found["brokers"]} == dict(cluster.addresses)
    assert all(address in table for address in cluster.addresses.values())


def test_lines_of_a_pipe_are_sent_as_they_come(cluster: LocalCluster) -> None:
    """produce acknowledges a line while the next one has not come yet, and ends with its input."""
    create(cluster, "pipe", "--partitions", 1, "--replication-factor", 1)
    bootstrap = next(iter(cluster.addresses.values()))
    arguments = command("produce", "pipe", "--bootstrap", bootstrap)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as producing:
        assert producing.stdin is not None
        assert producing.stdout is not None
        for number in range(3):
            producing.stdin.write(f"{number}\n")
            producing.stdin.flush()
            assert producing.stdout.readline() == f"0\t{number}\n"
        producing.stdin.close()
        assert producing.wait(PATIENCE_SECONDS) == 0
