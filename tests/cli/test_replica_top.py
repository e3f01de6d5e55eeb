"""``replica top``: two readings of each page become one row, and the rows one view of the cluster."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from click.testing import CliRunner, Result
from prometheus_client import generate_latest

from replica.cli.__main__ import main
from replica.cli.top import watch
from replica.cli.top_rows import Page, page_of, quantile, read_page, rows_of, summary_of
from replica.core.metadata.replay import METADATA_LOG
from replica.core.partition.roles import CommittedIsr, Leader, RemoteReplica
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.server.metrics import Metrics
from replica.server.metrics_page import serve_page
from tests.server.observer_fakes import FakeEnd, FakePartition, FakeReplica, FakeRole, FakeView

ONE, TWO = ReplicaId(1), ReplicaId(2)
ORDERS = TopicPartition("orders", 0)


def leading(end_offset: int) -> tuple[FakeReplica, Metrics]:
    """The active controller, which leads a partition up to here; replica 2 has fetched up to 100."""
    role = Leader(
        epoch_start_offset=Offset(0),
        isr_state=CommittedIsr(isr=frozenset({ONE, TWO})),
        remotes={TWO: RemoteReplica(log_end_offset=Offset(100))},
        shrink_check_at_ms=0,
    )
    replica = FakeReplica(
        logs={METADATA_LOG: FakeView(role=FakeRole("leader"), leader_id=ONE)},
        partitions={ORDERS: FakePartition(role=role, log=FakeEnd(log_end_offset=Offset(end_offset)))},
        is_active_controller=True,
    )
    return replica, Metrics(replica)


def following() -> tuple[FakeReplica, Metrics]:
    """The other one."""
    replica = FakeReplica(replica_id=TWO, logs={METADATA_LOG: FakeView(leader_id=ONE)})
    return replica, Metrics(replica)


def reading(address: str, metrics: Metrics, at_s: float) -> Page:
    """What is read of a page at this time."""
    return page_of(address, generate_latest(metrics.registry).decode(), at_s)


def test_two_readings_are_a_row_each_with_rates_between_them() -> None:
    """Roles, counts and lags are those of the second; what was written, asked and refused is told a second."""
    replica, leader = leading(100)
    _, follower = following()
    leader.is_ready = True
    before = [reading("a:1", leader, 10.0), reading("b:1", follower, 10.0)]
    replica.partitions[ORDERS].log = FakeEnd(log_end_offset=Offset(120))
    for _ in range(50):
        leader.requests.of_clients["Produce"].observe(0.002)
    leader.requests.on_errors("Produce", ["NOT_ENOUGH_REPLICAS"] * 10)
    leader.on_flushed(ORDERS, 0.002)
    now = [reading("a:1", leader, 12.0), reading("b:1", follower, 12.0)]
    first, second = rows_of(before, now)
    shown = ("id", "role", "ready", "hosts", "lag", "records/s", "calls/s", "errors/s")
    assert [first[column] for column in shown] == ["1", "controller", True, 1, None, 10, 25, 5]
    assert [second[column] for column in shown] == ["2", "follower", False, 0, 20, 0, 0, 0]
    assert 1.0 <= first["flush"] <= 3.0
    assert second["flush"] is None
    assert first["mib"] > 0
    assert summary_of(before, now).startswith("controller 1; 0 partitions led, 0 under-replicated")
    assert "; 10 records/s; 2 of 2 pages read" in summary_of(before, now)


def test_a_process_that_began_anew_has_no_rate() -> None:
    """A counter that is less than before tells nothing of what was in between."""
    _, metrics = leading(100)
    metrics.requests.of_clients["Produce"].observe(0.002)
    metrics.requests.of_clients["Produce"].observe(0.002)
    before = reading("a:1", metrics, 10.0)
    _, fresh = leading(100)
    fresh.requests.of_clients["Produce"].observe(0.002)
    (row,) = rows_of([before], [reading("a:1", fresh, 12.0)])
    assert row["calls/s"] is None


def test_what_a_new_leader_has_followed_is_not_written_by_it() -> None:
    """A log counts for a replica that has led it at both readings, and not from its first lead on."""
    replica, metrics = leading(100)
    led = replica.partitions[ORDERS].role
    replica.partitions[ORDERS].role = FakeRole("follower")
    before = reading("a:1", metrics, 10.0)
    replica.partitions[ORDERS].role = led
    replica.partitions[ORDERS].log = FakeEnd(log_end_offset=Offset(900))
    (row,) = rows_of([before], [reading("a:1", metrics, 12.0)])
    assert row["records/s"] == 0


def test_without_an_active_controller_that_is_said() -> None:
    """Nobody then knows what is offline, and no number is invented."""
    _, metrics = following()
    page = reading("b:1", metrics, 1.0)
    assert summary_of([page], [page]).startswith("no active controller among them; ")
    assert "offline" not in summary_of([page], [page])


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {0.1: 0.0, 1.0: 100.0, float("inf"): 100.0}, 0.1 + 0.9 * 0.99),
        ({0.1: 5.0, float("inf"): 5.0}, {0.1: 5.0, float("inf"): 6.0}, 0.1),
        ({0.1: 5.0, float("inf"): 5.0}, {0.1: 5.0, float("inf"): 5.0}, None),
        ({0.1: 5.0, float("inf"): 5.0}, {0.1: 1.0, float("inf"): 9.0}, None),
        ({}, {}, None),
    ],
    ids=["within_a_bucket", "above_the_last_bound", "nothing_between", "began_anew", "no_histogram"],
)
def test_a_quantile_is_estimated_between_two_readings(
    before: dict[float, float], now: dict[float, float], expected: float | None
) -> None:
    """Evenly within a bucket, at most the last bound, and absent where nothing was counted."""
    found = quantile(0.99, before, now)
    assert found == (None if expected is None else pytest.approx(expected))


@contextmanager
def page_server(text: bytes, status: int = 200) -> Iterator[str]:
    """Answer every question with this text; yields the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"<html>what is this</html>", 200),
        (b'replica_info{replica_id="1"} 1\n', 404),
        (b'replica_info{replica_id="1"} NaN\nreplica_info 1e999\n', 200),
        (b"\xff\xfe{{{\n" * 100, 200),
    ],
    ids=["another_page", "another_status", "no_numbers", "garbage"],
)
def test_what_is_no_page_of_a_replica_is_a_failure(text: bytes, status: int) -> None:
    """Whoever else answers at the address is told as unreachable, whatever he says."""
    with page_server(text, status) as address:
        page = read_page(address)
    assert page.failure is not None
    assert rows_of([page], [page])[0]["role"] == "unreachable"


def test_a_hostile_page_reaches_no_terminal() -> None:
    """Labels with control characters, and metrics without the labels that they have, neither show nor break a row."""
    text = (
        'replica_info{replica_id="1"} 1\n'
        'replica_role{topic="__cluster_metadata",role="\x1b[2Jleader"} 1\n'
        "replica_follower_lag 5\n"
        'replica_flush_seconds_bucket{le="much"} 5\n'
        'replica_log_end_offset{topic="t"} 5\n'
    )
    page = page_of("a:1", text, 1.0)
    (row,) = rows_of([page], [page_of("a:1", text, 2.0)])
    assert "\x1b" not in str(row)
    assert row["id"] == "1"


def top(*arguments: str) -> Result:
    """Call the command."""
    return CliRunner().invoke(main, ["top", *arguments])


def test_once_prints_a_table_of_all_pages() -> None:
    """Pages are named one by one or with commas; one that cannot be read is a row and a line, and no reason to fail."""
    with ExitStack() as served:
        ports = []
        for registry in (leading(100)[1].registry, following()[1].registry):
            port, stop = serve_page(registry, "127.0.0.1", 0)
            served.callback(stop)
            ports.append(port)
        gone = served.enter_context(page_server(b"nothing"))
        addresses = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        result = top("--metrics", addresses, "--metrics", gone, "--interval-ms", "100", "--once")
    assert result.exit_code == 0, result.output
    summary, _, head, first, second, third, failure = result.output.splitlines()
    assert summary.startswith("controller 1; ")
    assert summary.endswith("; 2 of 3 pages read")
    assert max(map(len, (head, first, second, third))) <= 120, "as wide as many terminals are"
    assert head.split()[:5] == ["ADDRESS", "ID", "ROLE", "READY", "LEADS"]
    assert [line.split()[2] for line in (first, second, third)] == ["controller", "follower", "unreachable"]
    assert failure == f"{gone}: no page of a replica's metrics"


def test_without_any_page_it_fails() -> None:
    """As status does, it still prints, and exits with 1; an address that is none is a usage error."""
    with page_server(b"nothing") as gone:
        assert top("--metrics", gone, "--interval-ms", "100", "--once").exit_code == 1
    refused = top("--metrics", "nowhere", "--once")
    assert (refused.exit_code, "'nowhere' is not HOST:PORT" in refused.output) == (2, True)


def test_it_goes_on_until_it_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    """Each table is of the last two readings, with a pause between them."""
    _, metrics = leading(100)
    times = iter((1.0, 2.0, 3.0, 4.0))
    waits: list[None] = []

    def read() -> Sequence[Page]:
        return [reading("a:1", metrics, next(times))]

    def sleep() -> None:
        waits.append(None)
        if len(waits) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(read, once=False, sleep=sleep)
    assert capsys.readouterr().out.count("controller 1; ") == 3
