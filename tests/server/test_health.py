"""Alive and ready apart: what makes a replica ready, and how a probe hears of either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc.aio
import pytest
import structlog
from grpc_health.v1 import health_pb2_grpc  # type: ignore[import-untyped]  # ships no types
from msgspec.structs import replace
from structlog.testing import capture_logs

from replica.core.metadata.image import BrokerRegistration, MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import BrokerEpoch, Offset, ReplicaId
from replica.server.health import LEADERLESS_LOOKS_MAX, Health, Readiness
from replica.server.health_check import LIVENESS, READINESS, UnhealthyError, check_health
from replica.server.metrics import Metrics
from tests.server.observer_fakes import FakeReplica, FakeView

ONE, TWO = ReplicaId(1), ReplicaId(2)
OWN = BrokerEpoch(7)
REGISTERED = BrokerRegistration(
    broker_id=ONE,
    broker_epoch=OWN,
    incarnation_id="i",
    directory_id="d",
    flushes=True,
    address="h:1",
    rack=None,
    fenced=False,
    in_controlled_shutdown=False,
)


def image_of(registration: BrokerRegistration | None) -> MetadataImage:
    """Metadata with this broker and no other."""
    return MetadataImage(brokers={} if registration is None else {ONE: registration})


@dataclass
class Replica:
    """A broker that is ready, until a test says otherwise."""

    log: FakeView = field(default_factory=lambda: FakeView(high_watermark=Offset(10)))
    fake: FakeReplica = field(
        default_factory=lambda: FakeReplica(image=image_of(REGISTERED), metadata_offset=Offset(10), broker_epoch=OWN)
    )

    def __post_init__(self) -> None:
        self.fake.logs[METADATA_LOG] = self.log

    def readiness(self) -> Readiness:
        """After a first look, by which it knows what is committed."""
        readiness = Readiness(self.fake)
        readiness.look()
        return readiness


def test_who_does_not_know_yet_what_is_committed_is_not_ready() -> None:
    """At the first look nobody is; at the second one who has applied what the first saw is."""
    readiness = Readiness(Replica().fake)
    assert readiness.look() == "knows of nobody who leads the metadata log"
    assert readiness.look() is None


@pytest.mark.parametrize(
    ("registration", "obstacle"),
    [
        (None, "has not registered as a broker yet"),
        (replace(REGISTERED, broker_epoch=BrokerEpoch(6)), "has not registered as a broker yet"),
        (replace(REGISTERED, fenced=True), "is fenced as a broker"),
        (replace(REGISTERED, in_controlled_shutdown=True), "is let go by the controller"),
        (REGISTERED, None),
    ],
    ids=["unregistered", "earlier_incarnation", "fenced", "let_go", "unfenced"],
)
def test_a_broker_is_ready_while_its_controller_counts_on_it(
    registration: BrokerRegistration | None, obstacle: str | None
) -> None:
    """What the metadata says of this incarnation decides, and nothing of an earlier one."""
    replica = Replica()
    replica.fake.image = image_of(registration)
    assert replica.readiness().look() == obstacle


def test_a_controller_alone_needs_no_registration() -> None:
    """A replica that is no broker is ready with the metadata."""
    replica = Replica()
    replica.fake.image, replica.fake.is_broker, replica.fake.broker_epoch = MetadataImage(), False, None
    assert replica.readiness().look() is None


def test_who_lags_behind_the_metadata_is_not_ready() -> None:
    """What was committed at the last look must be applied by now; what came since may be on its way."""
    replica = Replica()
    readiness = replica.readiness()
    replica.log.high_watermark = Offset(12)
    assert readiness.look() is None
    assert readiness.look() == "has applied the metadata log up to 10, and 12 are committed"
    replica.fake.metadata_offset = Offset(12)
    assert readiness.look() is None


def test_an_election_sends_nobody_away_and_isolation_does() -> None:
    """Without a leader of the metadata log, and without its high watermark, a broker stays ready for a while."""
    replica = Replica()
    readiness = replica.readiness()
    replica.log.leader_id, replica.log.high_watermark = None, None
    assert {readiness.look() for _ in range(LEADERLESS_LOOKS_MAX)} == {None}
    assert readiness.look() == "knows of nobody who leads the metadata log"
    replica.log.leader_id = TWO
    assert readiness.look() is None


@asynccontextmanager
async def serving(health: Health) -> AsyncIterator[str]:
    """Answer probes on loopback; yields the address."""
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)


async def answers(address: str, *names: str) -> list[str | None]:
    """What is wrong by the answer to each question; None where nothing is."""

    def ask(name: str) -> str | None:
        try:
            check_health(address, service=name, timeout_ms=5000)
        except UnhealthyError as error:
            return str(error).removeprefix(f"{address} ")
        return None

    return [await asyncio.to_thread(ask, name) for name in names]


async def test_a_probe_hears_of_life_and_readiness_apart() -> None:
    """From the start on it is alive; it is ready when a look finds it so, and no more when it is about to stop."""
    replica = Replica()
    metrics = Metrics(replica.fake)
    health = Health(view=replica.fake, metrics=metrics, logger=structlog.get_logger())
    await health.begin()
    async with serving(health) as address:
        names = (LIVENESS, "", READINESS, "replica.v1.ReplicaService")
        unready = ["is alive but is not ready", "is alive but does not serve replica.v1.ReplicaService"]
        assert await answers(address, *names) == [None, None, *unready]
        for _ in range(2):
            await health.look()
        assert await answers(address, *names) == [None] * 4
        assert metrics.registry.get_sample_value("replica_ready") == 1
        await health.end()
        assert await answers(address, *names) == [None, None, *unready]
        assert metrics.registry.get_sample_value("replica_ready") == 0
        (unknown,) = await answers(address, "no.such.Service")
        assert "NOT_FOUND" in (unknown or "")


async def test_a_change_is_one_line_with_its_reason() -> None:
    """Ready, not ready and why, and who was let go unasked; what stays as it is is told once."""
    replica = Replica()
    health = Health(view=replica.fake, metrics=Metrics(replica.fake), logger=structlog.get_logger())
    with capture_logs() as lines:
        for _ in range(3):
            await health.look()
        replica.fake.image = image_of(replace(REGISTERED, in_controlled_shutdown=True))
        for _ in range(2):
            await health.look()
        replica.fake.image = image_of(REGISTERED)
        await health.look()
    assert [(line["event"], line["log_level"], line.get("reason")) for line in lines] == [
        ("ready", "info", None),
        ("let_go_unasked", "warning", None),
        ("not_ready", "warning", "is let go by the controller"),
        ("let_in_again", "warning", None),
        ("ready", "info", None),
    ]
