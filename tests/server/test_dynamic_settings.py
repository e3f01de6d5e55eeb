"""Settings of running processes by the command line: told, shown with where they come from, refused, and kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from replica.ids import ReplicaId
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster, run_replica
from tests.server.topics import Topics

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("dynamic_settings")]  # They share a cluster.

ONE = ReplicaId(1)


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of one that runs, for all tests of this file."""
    with LocalCluster(tmp_path_factory.mktemp("lone"), size=1) as cluster:
        cluster.format()
        cluster.start()
        asyncio.run(wait_written(cluster))
        yield cluster


async def wait_written(cluster: LocalCluster) -> None:
    """Wait until the broker is let in."""
    async with Topics(cluster.addresses) as topics:
        await topics.create(partitions=1, replication_factor=1, min_isr=1)


def replica(cluster: LocalCluster, *arguments: object) -> tuple[int, str]:
    """The exit code of a command, and what it says."""
    ended = run_replica(*arguments, "--bootstrap", cluster.addresses[ONE], "--timeout-ms", 20_000, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def wait_line(cluster: LocalCluster, is_it: Callable[[dict[str, object]], bool]) -> None:
    """Wait until a replica has written such a line."""

    async def until_there() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(map(is_it, cluster.lines(ONE))):
                await asyncio.sleep(0.05)

    asyncio.run(until_there())


def test_a_setting_is_gone_by_at_once_and_after_a_restart(lone: LocalCluster) -> None:
    """What one broker is told counts for more than what all are told, and that for more than options."""
    assert replica(lone, "config", "set", "--all", "client-calls-max=77", "stop-grace-ms=400")[0] == 0
    assert replica(lone, "config", "set", "--broker", 1, "client-calls-max=78") == (
        0,
        "broker 1: client-calls-max=78\n",
    )
    wait_line(lone, lambda line: line.get("event") == "settings_changed" and line.get("client_calls_max") == 78)
    code, told = replica(lone, "config", "show", "--broker", 1, "--origin", "--client-calls-max", 5, "--format", "json")
    assert code == 0, told
    rows = {row["setting"]: (row["value"], row["origin"], row["place"]) for row in json.loads(told)}
    assert rows["client-calls-max"] == (78, "dynamic", "this broker")
    assert rows["stop-grace-ms"] == (400, "dynamic", "all brokers")
    assert rows["connections-max"] == (1000, "default", None)
    table = replica(lone, "config", "show", "--broker", 1, "--origin")[1].splitlines()
    assert [line.split(None, 2)[1:] for line in table if line.startswith("client-calls-max ")] == [
        ["78", "dynamic, this broker"]
    ]
    assert lone.stop(ONE) == 0
    before = len(lone.lines(ONE))
    lone.start()
    wait_line(lone, lambda line: line in lone.lines(ONE)[before:] and line.get("client_calls_max") == 78)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("request-bytes-max=8000000", "request_bytes_max needs a restart"),
        ("data-dir=x", "data_dir is no setting that a running replica can be told"),
        (
            "replica-fetch-wait-max-ms=30000",
            "replica_fetch_wait_max_ms (30000) must be below replica_socket_timeout_ms",
        ),
        ("log-level=loud", "it must be debug or info or warning or error"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(lone: LocalCluster, entry: str, sentence: str) -> None:
    """By the controller, with exit code 1."""
    code, told = replica(lone, "config", "set", "--broker", 1, entry)
    assert (code, sentence in told, len(told.splitlines())) == (1, True, 1), told


def test_quotas_are_set_shown_and_taken_back(lone: LocalCluster) -> None:
    """Of one user and of all others."""
    assert replica(lone, "quota", "set", "--user", "shop", "--requests", 5, "--produce-bytes", 1000)[0] == 0
    assert replica(lone, "quota", "set", "--default", "--fetch-bytes", 2000)[0] == 0
    assert json.loads(replica(lone, "quota", "describe", "--format", "json")[1]) == [
        {"user": "all", "setting": "consumer-byte-rate", "value": "2000"},
        {"user": "shop", "setting": "producer-byte-rate", "value": "1000"},
        {"user": "shop", "setting": "request-rate", "value": "5"},
    ]
    assert replica(lone, "quota", "unset", "--user", "shop", "--requests")[0] == 0
    assert replica(lone, "quota", "unset", "--default")[0] == 0
    assert json.loads(replica(lone, "quota", "describe", "--format", "json")[1]) == [
        {"user": "shop", "setting": "producer-byte-rate", "value": "1000"},
    ]
