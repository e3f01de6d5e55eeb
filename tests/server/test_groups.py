"""Groups of a replica: how they are named, which machines they get, and which starts are refused for their sake."""

from __future__ import annotations

from pathlib import Path

import grpc.aio
import pytest

from replica.cli.start import server_options_from, start_command
from replica.core.config import GroupConfig, InvalidConfigError
from replica.core.messages import ApplyRequest, ApplyResponse
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from replica.machines import Answered, PlainCommand, committed_batch, decode_outcome, encode_entry
from replica.records import encode_batch
from replica.rpc.channels import channel_options
from replica.rpc.codec import APPLY
from replica.server.groups import make_groups, parse_groups
from replica.server.options import ServerOptions
from tests.machines.test_registry import distribution
from tests.server.local_cluster import LocalCluster, run_replica
from tests.server.test_refused_start import files_of
from tests.server.topics import Topics, eventually

ONE = ReplicaId(1)
KV = TopicPartition("kv", 0)


def options_of(*arguments: str) -> ServerOptions:
    """The options of a server that is started with these arguments and what is required."""
    required = ["--data-dir", "d", "--listen", "127.0.0.1:0", "--voter", "1=127.0.0.1:1"]
    return server_options_from(start_command().make_context("start", [*required, *arguments]).params)


def test_groups_are_read_from_arguments_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as there are groups; in the environment with blanks between. A machine's name may hold anything."""
    assert options_of().groups == {}
    assert options_of("--group", "kv=key-value", "--group", "n=mine=2").groups == {"kv": "key-value", "n": "mine=2"}
    monkeypatch.setenv("REPLICA_GROUP", "kv=key-value n=counter")
    monkeypatch.setenv("REPLICA_GROUP_TICK_INTERVAL_MS", "70")
    options = options_of("--group-snapshot-max-interval-ms", "900")
    assert options.groups == {"kv": "key-value", "n": "counter"}
    assert options.group == GroupConfig(tick_interval_ms=70, snapshot_max_interval_ms=900)


@pytest.mark.parametrize("entry", ["", "kv", "kv=", "=counter"])
def test_what_is_no_group_is_named(entry: str) -> None:
    """An entry without a name or a machine is refused with what it should look like."""
    with pytest.raises(InvalidConfigError, match="is no group; give NAME=MACHINE"):
        parse_groups([entry])


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        (["kv=counter", "kv=lock"], "group kv is given twice, with machine counter and lock"),
        (["a/b=counter"], "'a/b' cannot be a group's name: give 1 to 249 letters"),
        (["..=counter"], "'..' cannot be a group's name"),
        (["__cluster_metadata=counter"], "__cluster_metadata is the cluster's own log"),
    ],
)
def test_names_that_no_log_can_have_are_refused(entries: list[str], complaint: str) -> None:
    """A group's name could be a topic's, is given once, and is not that of the metadata log."""
    with pytest.raises(InvalidConfigError, match=complaint):
        ServerOptions(data_dir=Path("d"), listen="a:1", voters={ONE: "a:1"}, groups=parse_groups(entries))


TRAITS_OF_SESSIONS = """
from replica.machines.counter import Counter

class Clashing(Counter):
    def traits(self): return {"sessions.window": 1}
"""


def test_a_machine_whose_traits_do_not_fit_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that the limits of sessions have is as broken as any other trait."""
    (tmp_path / "clashing_machine.py").write_text(TRAITS_OF_SESSIONS, encoding="utf-8")
    distribution(tmp_path, "clashing", {"clashing": "clashing_machine:Clashing"})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidConfigError, match="group kv cannot be hosted: two traits"):
        make_groups({"kv": "clashing"})


def test_every_group_has_a_machine_of_its_own() -> None:
    """Fresh, under the name of its log; two groups never share one. A machine that there is not is named."""
    made = make_groups({"a": "counter", "b": "counter"})
    assert made.keys() == {TopicPartition("a", 0), TopicPartition("b", 0)}
    command = encode_entry(PlainCommand(command=b"1"))
    made[TopicPartition("a", 0)].apply(committed_batch(encode_batch([command], base_offset=0, leader_epoch=1)))
    assert [machine.query(b"") for machine in made.values()] == [Answered(reply=b"1"), Answered(reply=b"0")]
    with pytest.raises(InvalidConfigError, match="group a cannot be hosted: there is no state machine 'teapot'"):
        make_groups({"a": "teapot"})


def refused(cluster: LocalCluster, *options: object) -> str:
    """Start in vain, and see that nothing has changed; the last word of the replica."""
    before = files_of(cluster.data_dir(ONE))
    ended = run_replica(*cluster.start_arguments(ONE), *options, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert files_of(cluster.data_dir(ONE)) == before
    return ended.stderr.splitlines()[-1]


@pytest.mark.cluster
def test_a_group_without_a_machine_is_refused_before_anything_is_made(lone: LocalCluster) -> None:
    """A machine that is not installed costs nothing: the next start finds no log that it would not know."""
    assert refused(lone, "--group", "kv=teapot").startswith(
        "replica: cannot start: group kv cannot be hosted: there is no state machine 'teapot'"
    )


async def written(address: str) -> ApplyResponse:
    """Apply one command of a counter."""
    request = ApplyRequest(topic_partition=KV, entries=(encode_entry(PlainCommand(command=b"1")),), timeout_ms=5000)
    async with grpc.aio.insecure_channel(address, options=channel_options()) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(APPLY.full_name)
        response = APPLY.response.decode(await call(APPLY.request.encode(request), wait_for_ready=True))
    assert isinstance(response, ApplyResponse)
    return response


@pytest.mark.cluster
async def test_a_hosted_group_serves_and_must_be_named_again(lone: LocalCluster) -> None:
    """It applies what comes, also after a restart; without the option its log is nobody's, and is refused."""
    totals = []
    for _ in range(2):
        lone.start(options=("--group", "kv=counter"))
        applied = await eventually(lambda: written(lone.addresses[ONE]), lambda answer: answer.error is ErrorCode.NONE)
        totals += [decode_outcome(outcome) for outcome in applied.outcomes]
        assert lone.stop(ONE) == 0
    assert totals == [Answered(reply=b"1"), Answered(reply=b"2")]
    assert "start the replica with --group kv=MACHINE if that is its group" in refused(lone)


@pytest.mark.cluster
async def test_a_group_and_a_topic_cannot_share_a_name(lone: LocalCluster) -> None:
    """A group cannot be named as a topic of which the disk holds a partition, whatever its number."""
    lone.start()
    async with Topics(lone.addresses) as topics:
        await topics.create(partitions=2, replication_factor=1, min_isr=1)
        await topics.write(0, "kept")
    assert lone.stop(ONE) == 0
    assert "is a partition of topic t, so that no group can have that name" in refused(lone, "--group", "t=counter")
