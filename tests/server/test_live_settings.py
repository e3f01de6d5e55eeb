"""What a server does when its settings change while it runs: each part goes by the new ones, and back again."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import MappingProxyType

import pytest
import structlog
from structlog.testing import capture_logs

from replica.core.effects import ApplySettings
from replica.core.limits import Limits, LimitTable
from replica.core.messages import Request, Response
from replica.core.setting_kinds import UpdateMode, Value
from replica.core.settings import PARTS, SETTINGS
from replica.server import log_lines
from replica.server.housekeeping import Housekeeping
from replica.server.live_settings import LiveSettings
from replica.server.options import ServerOptions
from replica.server.service import ReplicaService
from replica.storage import LogConfig
from tests.server.test_housekeeping import FakeStorage, options

STARTED_WITH = {"request_rate": 9, "client_calls_max": 100, "log_flush_offset_checkpoint_interval_ms": 4000}


@dataclass
class FakeLogs:
    """The logs of a data directory."""

    config: LogConfig = field(default_factory=LogConfig)


@dataclass
class FakeLines:
    """Who writes lines of steps."""

    with_steps: bool = False


class Server:
    """A server of which nothing serves."""

    def __init__(self) -> None:
        async def call(_: Request) -> Response:
            raise AssertionError

        logger = structlog.get_logger()
        started_with: ServerOptions = options(**STARTED_WITH)
        self.service = ReplicaService(call=call, addresses={}, logger=logger)
        self.storage, self.logs, self.lines = FakeStorage(), FakeLogs(), FakeLines()
        self.house = Housekeeping(storage=self.storage, options=started_with, now_ms=0)
        self.settings = LiveSettings(
            options=started_with,
            service=self.service,
            house=self.house,
            storage=self.logs,
            observer=self.lines,
            logger=logger,
        )

    def tell(self, limits: LimitTable | None = None, left_out: str = "", **values: Value) -> None:
        reasons = {left_out: "it cannot be"} if left_out else {}
        self.settings.apply(ApplySettings(values=values, left_out=reasons, limits=limits or LimitTable()))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One that writes lines from info on, as tests do afterwards."""
    monkeypatch.setattr(log_lines, "_threshold", {"level": log_lines.LEVELS["info"]})
    return Server()


def test_every_part_goes_by_what_it_is_told(server: Server) -> None:
    """Limits of calls and answers, files, chores, waits at the end, lines; by the start's once that is taken back."""
    server.tell(
        client_calls_max=7,
        producer_ids_per_hour=8,
        answer_bytes_max=1 << 29,
        log_segment_bytes=2048,
        log_flush_offset_checkpoint_interval_ms=1000,
        handover_wait_ms=11,
        log_level="debug",
    )
    limits = server.service.limits
    assert (limits.client_calls_max, limits.producer_ids_per_hour, limits.answer_bytes_max) == (7, 8, 1 << 29)
    assert server.logs.config.segment_bytes == 2048
    assert server.house.deadline_ms == 1000
    assert server.settings.options.handover_wait_ms == 11
    assert server.lines.with_steps
    server.tell()
    assert server.service.limits.client_calls_max == 100
    assert server.logs.config.segment_bytes == LogConfig().segment_bytes
    assert server.house.deadline_ms == 4000
    assert server.settings.options == options(**STARTED_WITH)
    assert not server.lines.with_steps


def test_quotas_of_users_count_for_more_than_the_setting(server: Server) -> None:
    """Each as far as it says something: a user's own, those of all users, what is set of the broker, its start's."""
    shop = {"User:shop": Limits(consumer_byte_rate=5)}
    server.tell(LimitTable(default=Limits(producer_byte_rate=6), by_principal=MappingProxyType(shop)), request_rate=3)
    assert server.settings.limits.limits_of("User:shop") == Limits(
        consumer_byte_rate=5, producer_byte_rate=6, request_rate=3
    )
    server.tell()
    assert server.settings.limits.limits_of("User:shop") == Limits(request_rate=9)


def test_what_cannot_be_is_said(server: Server) -> None:
    """A line tells what holds, and one what the metadata says in vain."""
    with capture_logs() as lines:
        server.tell(left_out="stop_grace_ms", client_calls_max=7)
    assert [line["event"] for line in lines] == ["settings_changed", "setting_left_out"]
    assert lines[0]["client_calls_max"] == 7
    assert (lines[1]["setting"], lines[1]["reason"]) == ("stop_grace_ms", "it cannot be")


@pytest.mark.parametrize(("level", "written"), [("info", ["b", "c"]), ("error", ["c"]), ("debug", ["a", "b", "c"])])
def test_loggers_that_there_are_go_by_another_level(
    level: str, written: list[str], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is below it is written no more, or is from now on, by loggers that were used before."""
    before = structlog.get_config()
    try:
        log_lines.configure_logging(level="info", json=True)
        logger = structlog.get_logger().bind()
        logger.info("used")
        server.tell(log_level=level)
        capsys.readouterr()
        logger.debug("a")
        logger.info("b")
        logger.error("c")
    finally:
        structlog.configure(**before)
    assert [line.split('"event": "')[1][0] for line in capsys.readouterr().err.splitlines()] == written


@pytest.mark.parametrize("name", [name for name, kind in SETTINGS.items() if kind.mode is not UpdateMode.READ_ONLY])
def test_who_can_be_told_a_setting_is_known(name: str) -> None:
    """What may change while replicas run is the server's, or of one part of the core that is handed other settings."""
    own = {part.field: {part.prefix + each.name for each in fields(part.config)} for part in PARTS}
    of_parts = [part for part, names in own.items() if name in names]
    of_server = name in ServerOptions.__dataclass_fields__
    assert of_server + len(of_parts) == 1
    assert of_server or of_parts[0] in ("broker", "controller", "metadata")
    assert SETTINGS[name].mode is (UpdateMode.CLUSTER_WIDE if "controller" in of_parts else UpdateMode.PER_BROKER)
