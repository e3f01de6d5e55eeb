"""The ``replica`` command without a cluster: what it says, how it exits, and how little it imports."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner, Result

from replica.cli import main
from replica.cli_start import server_options_from, start_command
from replica.core.config import QuorumConfig
from replica.core.messages import ProduceResponse
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.records import encode_batch
from replica.server.codec import PRODUCE
from replica.server.options import ServerOptions

HEAVY = ("grpc", "google.protobuf", "structlog", "prometheus_client", "pyarrow", "numpy", "asyncio")


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


def test_help_imports_nothing_heavy() -> None:
    """``replica --help`` starts without gRPC, protobuf or an event loop."""
    script = (
        "import sys; from replica.cli import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_a_health_check_is_cheap_and_fails_by_its_exit_code(free_address: str) -> None:
    """``replica health`` exits with 1 and one sentence if nobody serves, in under half a second of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-m", "replica.cli", "health", "--address", free_address],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Error: {free_address} is not serving: UNAVAILABLE")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_format_makes_a_directory_once(tmp_path: Path) -> None:
    """A directory is formatted once; a second time is refused and changes nothing."""
    arguments = ("format", "--data-dir", tmp_path / "d", "--cluster-id", "c", "--replica-id", 1)
    first = replica(*arguments)
    assert first.exit_code == 0
    assert "replica 1 of cluster c" in first.output
    meta = (tmp_path / "d" / "meta.properties").read_bytes()
    second = replica(*arguments)
    assert second.exit_code == 1
    assert "is formatted already" in second.output
    assert (tmp_path / "d" / "meta.properties").read_bytes() == meta


def test_every_parameter_of_the_quorum_is_an_option() -> None:
    """Each field of QuorumConfig can be set by an option of its name, and has the same default."""
    params = {param.name: param for param in start_command().params}
    for field in fields(QuorumConfig):
        assert params[field.name].default == field.default


def test_defaults_are_those_of_the_server() -> None:
    """An option that is not given has the default of ServerOptions."""
    given: dict[str, Any] = {"data_dir": Path("d"), "listen": "127.0.0.1:0", "voters": {ReplicaId(1): "127.0.0.1:1"}}
    assert server_options_from(start_values()) == ServerOptions(**given)


def test_options_become_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments and REPLICA_ variables arrive in the server's options."""
    monkeypatch.setenv("REPLICA_FETCH_TIMEOUT_MS", "900")
    monkeypatch.setenv("REPLICA_DIAL", "1=127.0.0.1:7 2=127.0.0.1:8")
    options = server_options_from(start_values("--election-timeout-ms", "77", "--no-truncate-on-fetch"))
    assert options.quorum == QuorumConfig(election_timeout_ms=77, fetch_timeout_ms=900, truncate_on_fetch=False)
    assert options.voters == {ReplicaId(1): "127.0.0.1:1"}
    assert options.dial == {ReplicaId(1): "127.0.0.1:7", ReplicaId(2): "127.0.0.1:8"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--voter", "nonsense"], "is not ID=HOST:PORT"),
        (["--voter", "1=127.0.0.1:2"], "replica 1 is named twice"),
        (["--fetch-max-wait-ms", "5000"], "must be below fetch_timeout_ms"),
        (["--request-timeout-ms", "500"], "must be below request_timeout_ms"),
        (["--fetch-max-bytes", str(64 << 20)], "fetch_max_bytes is 67108864; it must be at most 8388608"),
        (["--message-max-bytes", str(9 << 20)], "message_max_bytes is 9437184; it must be at most 8388608"),
        (["--election-timeout-ms", "0"], "must be above 0"),
        (["--client-calls-max", "0"], "client_calls_max is 0"),
    ],
)
def test_bad_options_are_named(arguments: list[str], complaint: str) -> None:
    """An option that no replica should start with is refused in one sentence, before anything is opened."""
    required = ["start", "--data-dir", "d", "--listen", "127.0.0.1:0", "--voter", "1=127.0.0.1:1"]
    result = replica(*required, *arguments)
    assert result.exit_code == 1
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


def test_a_write_to_nobody_is_definitely_not_written(free_address: str) -> None:
    """produce exits with 1 and says so when no replica could be reached at all."""
    result = replica("produce", "--bootstrap", f"1={free_address}", "--timeout-ms", 200, "a")
    assert result.exit_code == 1
    assert result.output.startswith("definitely not written: 'a'")


def time_out(request: bytes, context: object) -> bytes:
    """Answer a Produce as a leader that waited for its followers in vain."""
    return PRODUCE.encode_response(ProduceResponse(error=ErrorCode.REQUEST_TIMED_OUT))


def test_a_write_that_may_have_happened_is_unknown() -> None:
    """produce exits with 3 and says so when the leader took the write and could not say what became of it."""
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        handlers: dict[str, Any] = {PRODUCE.rpc: grpc.unary_unary_rpc_method_handler(time_out)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PRODUCE.service, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            result = replica("produce", "--bootstrap", f"1=127.0.0.1:{port}", "a")
        finally:
            server.stop(None).wait()
    assert result.exit_code == 3
    assert result.output.startswith("unknown whether written: 'a'")


def test_status_without_an_answer_fails(free_address: str) -> None:
    """status still prints its table when nobody answers, and exits with 1."""
    result = replica("status", "--bootstrap", f"1={free_address}", "--timeout-ms", 200)
    assert result.exit_code == 1
    assert result.output.splitlines()[1].split() == ["1", "unreachable"]
