"""The ``replica`` command without a cluster: what it says, how it exits, and how little it imports."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.cli.start import server_options_from, start_command
from replica.core.config import BrokerConfig, ControllerConfig, GroupConfig, LogFlush, QuorumConfig
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import TopicRecord
from replica.core.metadata.snapshots import encode_image
from replica.core.partition.producer_state import scan
from replica.core.quorum.snapshot_header import encode_header
from replica.core.quorum.voter_history import VoterHistory
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId, TopicId
from replica.machines import AppliedLog, PlainCommand, committed_batch, encode_entry
from replica.machines.registry import make_machine
from replica.records import Compression, Record, encode_batch, leader_change_batch, voters_batch
from replica.server.options import ProcessRole, ServerOptions
from replica.storage.producer_snapshots import encode_snapshot
from replica.storage.snapshots import checkpoint_name
from replica.voters import Voter, VoterSet

HEAVY = ("grpc", "google.protobuf", "structlog", "prometheus_client", "pyarrow", "numpy", "asyncio")

VOTERS = VoterSet((Voter(replica_id=ReplicaId(1), directory_id="AAAAAAAAAAAAAAAAAAAAAQ", address="a:1"),))


@pytest.fixture
def free_address() -> Iterator[str]:
    """An address whose port is held by this test and refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def replica(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def start_values(*arguments: str) -> dict[str, object]:
    required = ["--data-dir", "d", "--listen", "127.0.0.1:0", "--voter", "1=127.0.0.1:1"]
    return start_command().make_context("start", [*required, *arguments]).params


def watched(*arguments: object) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """How the command ends, and what it has loaded."""
    command = [sys.executable, "-X", "importtime", "-m", "replica.cli", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    loaded = {line.rsplit("|")[-1].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}
    return ended, loaded


def test_help_imports_nothing_heavy() -> None:
    """``replica --help`` starts without gRPC, protobuf or an event loop."""
    script = (
        "import sys; from replica.cli.__main__ import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_a_health_check_is_cheap_and_fails_by_its_exit_code(free_address: str) -> None:
    """``replica health``, asked every few seconds, loads gRPC and little else; if nobody serves it exits with 1."""
    ended, loaded = watched("health", "--address", free_address)
    (told,) = [line for line in ended.stderr.splitlines() if not line.startswith("import time:")]
    assert ended.returncode == 1
    assert told.startswith(f"Error: {free_address} is not serving: UNAVAILABLE")
    assert "grpc" in loaded
    assert not loaded & {"google.protobuf", "structlog", "replica.core.replica", "replica.rpc.codec", "numpy"}


def test_a_start_loads_nothing_to_draw_with(tmp_path: Path) -> None:
    """What writes log lines would load what draws tracebacks, for a tenth of all that a start computes."""
    ended, loaded = watched("start", "--data-dir", tmp_path, "--listen", "127.0.0.1:0", "--replica-id", 1)
    assert "is not a formatted data directory" in ended.stderr
    assert "structlog" in loaded
    assert not loaded & {"rich.console", "pygments", "numpy"}


def test_a_health_check_asks_one_question(free_address: str) -> None:
    """Alive, ready or a service by its name: whoever asks two at once is told so, and nobody is dialled."""
    for questions in (("--live", "--ready"), ("--ready", "--service", "replica.v1.ReplicaService")):
        result = replica("health", "--address", free_address, *questions)
        assert (result.exit_code, "ask one question" in result.output) == (2, True)
    result = replica("health", "--address", free_address, "--ready", "--timeout-ms", 200)
    assert (result.exit_code, "is not serving" in result.output) == (1, True)


def test_format_makes_a_directory_once(tmp_path: Path) -> None:
    """A directory is formatted once; a second time is refused and changes nothing."""
    arguments = ("format", "--data-dir", tmp_path / "d", "--cluster-id", "c", "--replica-id", 1, "--no-initial-voters")
    first = replica(*arguments)
    assert first.exit_code == 0
    assert "replica 1 of cluster c" in first.output
    meta = (tmp_path / "d" / "meta.properties").read_bytes()
    second = replica(*arguments)
    assert second.exit_code == 1
    assert "is formatted already" in second.output
    assert (tmp_path / "d" / "meta.properties").read_bytes() == meta


@pytest.mark.parametrize(
    ("part", "prefix"), [(QuorumConfig, ""), (BrokerConfig, ""), (ControllerConfig, ""), (GroupConfig, "group_")]
)
def test_every_parameter_of_the_core_is_an_option(part: type[Any], prefix: str) -> None:
    """Each field of the core's configurations can be set by an option of its name, whose help shows its default."""
    params = {param.name: param for param in start_command().params}
    for field in fields(part):
        param = params[prefix + field.name]
        assert isinstance(param, click.Option)
        shown = f"--{(prefix + field.name).replace('_', '-')}" if field.default is True else str(field.default)
        assert field.default is False or shown in str(param.show_default)


def test_a_parameter_that_several_parts_know_is_set_for_all() -> None:
    """One option of a shared name reaches each part; where it is not given, each has its own default."""
    options = server_options_from(start_values("--message-max-bytes", "5000", "--log-flush", "os"))
    assert (options.quorum.message_max_bytes, options.broker.message_max_bytes) == (5000, 5000)
    assert options.broker == BrokerConfig(message_max_bytes=5000, log_flush=LogFlush.OS)
    assert options.controller == ControllerConfig()


def test_roles_and_addresses_of_a_broker_are_read() -> None:
    """Roles are a list with commas."""
    given = start_values(
        "--roles", "broker", "--advertised-address", "b:2", "--rack", "r", "--min-insync-replicas", "2"
    )
    options = server_options_from(given)
    assert options.roles == {ProcessRole.BROKER}
    assert (options.advertised_address, options.rack, options.controller.min_insync_replicas) == ("b:2", "r", 2)


def test_defaults_are_those_of_the_server() -> None:
    """An option that is not given has the default of ServerOptions."""
    given: dict[str, Any] = {"data_dir": Path("d"), "listen": "127.0.0.1:0", "voters": {ReplicaId(1): "127.0.0.1:1"}}
    assert server_options_from(start_values()) == ServerOptions(**given)


def test_options_become_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments and REPLICA_ variables arrive in the server's options."""
    monkeypatch.setenv("REPLICA_FETCH_TIMEOUT_MS", "900")
    monkeypatch.setenv("REPLICA_DIAL", "1=127.0.0.1:7 2=127.0.0.1:8")
    options = server_options_from(start_values("--election-timeout-ms", "77", "--no-elr-enable"))
    assert options.quorum == QuorumConfig(election_timeout_ms=77, fetch_timeout_ms=900)
    assert options.controller == ControllerConfig(elr_enable=False)
    assert options.voters == {ReplicaId(1): "127.0.0.1:1"}
    assert options.dial == {ReplicaId(1): "127.0.0.1:7", ReplicaId(2): "127.0.0.1:8"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--voter", "nonsense"], "is not ID=HOST:PORT"),
        (["--listen", "nowhere"], "listen: 'nowhere' is not HOST:PORT"),
        (["--advertised-address", "a:0"], "advertised_address: the port in 'a:0' is not between 1 and 65535"),
        (["--voter", "1=127.0.0.1:2"], "replica 1 is named twice"),
        (["--fetch-max-wait-ms", "5000"], "must be below fetch_timeout_ms"),
        (["--request-timeout-ms", "500"], "must be below request_timeout_ms"),
        (["--cluster-id", "c" * 250], "cluster_id has 250 bytes; at most 249"),
        (["--group", "kv"], "'kv' is no group; give NAME=MACHINE"),
        (["--roles", "king"], "'king' is no role; give broker, controller"),
        (["--replica-lag-time-max-ms", "100"], "must be at most replica_lag_time_max_ms"),
    ],
)
def test_bad_options_are_named(arguments: list[str], complaint: str) -> None:
    """An option that no replica should start with is refused in one sentence, before anything is opened."""
    required = ["start", "--data-dir", "d", "--listen", "127.0.0.1:0", "--voter", "1=127.0.0.1:1"]
    result = replica(*required, *arguments)
    assert result.exit_code == 1
    assert complaint in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fetch-max-bytes", str(64 << 20)], "67108864 is not in the range 1<=x<=8388608"),
        (["--message-max-bytes", str(9 << 20)], "9437184 is not in the range 1<=x<=8388608"),
        (["--election-timeout-ms", "0"], "0 is not in the range 1<=x<=2147483647"),
        (["--client-calls-max", "0"], "0 is not in the range 1<=x<=1000000"),
        (["--producer-ids-per-hour", "0"], "0 is not in the range 1<=x<=100000"),
        (["--group-answer-bytes-max", str(17 << 20)], "17825792 is not in the range 1<=x<=16777216"),
    ],
)
def test_a_number_out_of_range_is_named(arguments: list[str], complaint: str) -> None:
    """A number that no replica can work with is refused with the option and the range."""
    result = replica("start", "--data-dir", "d", "--listen", "127.0.0.1:0", *arguments)
    assert result.exit_code == 2
    assert f"Invalid value for '{arguments[0]}'" in result.output
    assert complaint in result.output


def test_a_segment_is_printed_batch_by_batch(tmp_path: Path) -> None:
    """dump-log prints offsets, epoch, record count and CRC verdict of each batch, and exits with 0 if all is well."""
    file = tmp_path / "0.log"
    control = encode_batch([b"x"], base_offset=2, leader_epoch=3, is_control=True)
    file.write_bytes(encode_batch([b"a", b"b"], base_offset=0, leader_epoch=3).data + control.data)
    result = replica("dump-log", file)
    first, second = result.output.splitlines()
    assert result.exit_code == 0
    assert first.startswith("offsets: 0..1 epoch: 3 records: 2 position: 0 ")
    assert first.endswith("crc: ok")
    assert second.startswith("offsets: 2..2 epoch: 3 records: 1 control ")


def test_a_dump_tells_what_producers_put_into_the_header(tmp_path: Path) -> None:
    """dump-log prints producer, epoch, sequence numbers and codec of a batch, and its records if asked to."""
    file = tmp_path / "0.log"
    record = Record(offset=Offset(0), timestamp_ms=7, key=b"k", value=b"v", headers=(("h", b"x"),))
    batch = encode_batch(
        [record], leader_epoch=3, producer_id=9, producer_epoch=1, base_sequence=5, compression=Compression.ZSTD
    )
    file.write_bytes(batch.data)
    (line,) = replica("dump-log", file).output.splitlines()
    assert " producer: 9 producer-epoch: 1 sequences: 5..5 compression: zstd " in line
    assert replica("dump-log", "--records", file).output.splitlines() == [
        line,
        "  0: timestamp: 7 key: k value: v h: x",
    ]


def test_a_dump_of_the_metadata_log_is_text(tmp_path: Path) -> None:
    """dump-log prints the records of the metadata log and who was elected, without being asked to."""
    file = tmp_path / "__cluster_metadata-0" / "0.log"
    file.parent.mkdir()
    voters = [ReplicaId(1), ReplicaId(2)]
    elected = leader_change_batch(
        leader_id=ReplicaId(1), voters=voters, granting_voters=voters[:1], base_offset=Offset(0), leader_epoch=Epoch(2)
    )
    created = metadata_batch([TopicRecord(name="orders", topic_id=TopicId(1))], Offset(1), Epoch(2))
    file.write_bytes(elected.data + created.data)
    named = voters_batch(voters=VOTERS, base_offset=Offset(2), leader_epoch=Epoch(2))
    with file.open("ab") as segment:
        segment.write(named.data)
    lines = replica("dump-log", file).output.splitlines()
    assert lines[1] == "  leader: 1 voters: 1,2 granted by: 1"
    assert lines[5] == "  voters: 1=a:1=AAAAAAAAAAAAAAAAAAAAAQ"
    assert lines[3] == '  1: TopicRecord {"name":"orders","topic_id":1}'


def test_a_dump_of_a_snapshot_of_the_metadata_is_text(tmp_path: Path) -> None:
    """dump-log prints the records of its image, and refuses one whose seal does not fit with 1."""
    snapshot_id = SnapshotId(Offset(40), Epoch(3))
    image = MetadataImage().apply_all([TopicRecord(name="orders", topic_id=TopicId(1))])
    file = tmp_path / "__cluster_metadata-0" / checkpoint_name(snapshot_id)
    file.parent.mkdir()
    file.write_bytes(encode_header(VoterHistory(base=VOTERS)) + encode_image(image, snapshot_id).data)
    result = replica("dump-log", file)
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "end-offset: 40 epoch: 3 records: 1 crc: ok",
            '  TopicRecord {"name":"orders","topic_id":1}',
            "  voters: 1=a:1=AAAAAAAAAAAAAAAAAAAAAQ",
        ],
    )
    file.write_bytes(file.read_bytes().replace(b"orders", b"Orders"))
    result = replica("dump-log", file)
    assert (result.exit_code, "error: " in result.output) == (1, True)


def test_damage_is_printed_and_fails(tmp_path: Path) -> None:
    """dump-log names a batch whose CRC is wrong and goes on, names trailing garbage, and exits with 1."""
    good = encode_batch([b"a"], base_offset=0, leader_epoch=3).data
    file = tmp_path / "0.log"
    behind = encode_batch([b"b"], base_offset=1, leader_epoch=3).data
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]) + behind + b"?")
    result = replica("dump-log", file)
    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert "crc: WRONG error: " in lines[0]
    assert lines[1].endswith("crc: ok")
    assert "error: " in lines[2]


def test_a_dump_of_a_snapshot_tells_who_has_produced(tmp_path: Path) -> None:
    """dump-log prints each batch by which a producer is recognised, and refuses a damaged snapshot with 1."""
    file = tmp_path / "00000000000000000007.snapshot"
    batch = encode_batch([b"a", b"b"], base_offset=5, producer_id=9, producer_epoch=1, base_sequence=3, timestamp_ms=7)
    content = encode_snapshot(scan([batch]))
    file.write_bytes(content)
    result = replica("dump-log", file)
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        ["producer: 9 producer-epoch: 1 sequences: 3..4 offsets: 5..6 timestamp: 7"],
    )
    file.write_bytes(content[:-1])
    result = replica("dump-log", file)
    assert result.exit_code == 1
    assert "error: " in result.output


def test_status_without_an_answer_fails(free_address: str) -> None:
    """status still prints its table when nobody answers, and exits with 1."""
    result = replica("status", "--bootstrap", free_address, "--timeout-ms", 200)
    assert result.exit_code == 1
    assert result.output.splitlines()[1].split()[:3] == [free_address, "-", "unreachable"]


def test_dump_of_a_state_machines_snapshot(tmp_path: Path) -> None:
    """dump-log prints what a snapshot is of and how much it holds, and exits with 1 if its seal does not fit."""
    log = AppliedLog(make_machine("counter"), name="counter")
    batch = encode_batch([encode_entry(PlainCommand(command=b"41"))], base_offset=0, leader_epoch=2)
    log.apply(committed_batch(batch))
    data = encode_header(VoterHistory(base=VOTERS)) + log.snapshot().data
    file = tmp_path / "00000000000000000001-0000000002.checkpoint"
    file.write_bytes(data)
    result = replica("dump-log", file)
    assert result.output.startswith("end-offset: 1 epoch: 2 machine: counter log-time: ")
    assert result.output.splitlines()[0].endswith("sessions: 0 machine-bytes: 2 crc: ok")
    assert result.exit_code == 0
    file.write_bytes(data[:-1])
    result = replica("dump-log", file)
    assert (result.exit_code, "the checksum of a snapshot" in result.output) == (1, True)


def test_dump_of_a_snapshot_with_its_voters(tmp_path: Path) -> None:
    """A snapshot says who votes as of its end; dump-log says it too, or that it is damaged."""
    log = AppliedLog(make_machine("counter"), name="counter")
    log.apply(committed_batch(encode_batch([encode_entry(PlainCommand(command=b"41"))], base_offset=0, leader_epoch=2)))
    data = encode_header(VoterHistory(base=VOTERS)) + log.snapshot().data
    file = tmp_path / "00000000000000000001-0000000002.checkpoint"
    file.write_bytes(data)
    result = replica("dump-log", file)
    assert result.output.splitlines()[1:] == ["  voters: 1=a:1=AAAAAAAAAAAAAAAAAAAAAQ"]
    file.write_bytes(data[:20])
    result = replica("dump-log", file)
    assert (result.exit_code, "ends inside its voters" in result.output) == (1, True)
