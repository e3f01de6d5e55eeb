"""Replicas with an authorizer: they find each other by their certificates, and clients get what the list allows."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # ships no types
    reflection_pb2,
    reflection_pb2_grpc,
)

from replica.client import (
    Admin,
    AdminError,
    ClusterUnreachableError,
    Consumer,
    KeyValueClient,
    NotAuthorizedError,
    NotWrittenError,
    Producer,
    ProducerConfig,
    ReadFailedError,
    ViewConfig,
)
from replica.core.messages import BrokerHeartbeatRequest, ReadIndexRequest
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId, TopicPartition
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import DeniedError, GrpcTransport
from tests.core.metadata.test_acls import entry
from tests.rpc.certificates import files_of
from tests.server.local_cluster import LocalCluster, run_replica
from tests.server.topics import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
STARTING_SECONDS = 120

PATIENT = (
    *("--election-timeout-ms", "1000"),
    *("--fetch-timeout-ms", "2000"),
    *("--request-timeout-ms", "2000"),
    *("--broker-session-timeout-ms", "5000"),
)
"""How fast replicas fail over does not matter here, and a machine may be busy."""
ADMIN = ("--authorizer", "acl", "--super-user", "User:admin", "--group", "kv=key-value", *PATIENT)
ORDERS = TopicPartition("orders", 0)


class OwnCertificates(LocalCluster):
    """Replicas each of which has a certificate of its own."""

    def start_arguments(self, replica_id: ReplicaId) -> tuple[object, ...]:
        """With its files, before the command's name."""
        return (
            *tls_arguments(files_of(self.folder / "tls", f"replica-{replica_id}")),
            *super().start_arguments(replica_id),
        )


def tls_arguments(files: TlsFiles) -> tuple[object, ...]:
    """How a command is told of files."""
    return ("--tls-ca-file", files.ca_file, "--tls-cert-file", files.cert_file, "--tls-key-file", files.key_file)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCertificates]:
    """Three of them, with an authorizer and a group."""
    cluster = OwnCertificates(tmp_path)
    cluster.format()
    cluster.start(options=ADMIN)
    yield cluster
    cluster.close()


def view_of(cluster: LocalCluster, name: str) -> ViewConfig:
    """How a client with this certificate finds its way."""
    return ViewConfig(tls=files_of(cluster.folder / "tls", name))


async def wait_active(admin: Admin, count: int = 3) -> None:
    """Wait until so many brokers are let in."""

    async def active() -> int:
        try:
            return sum(broker.is_active for broker in (await admin.describe_cluster()).brokers)
        except ClusterUnreachableError:  # It is only starting.
            return 0

    async with asyncio.timeout(STARTING_SECONDS):
        while await active() != count:
            await asyncio.sleep(0.1)


def acl(cluster: LocalCluster, *words: str, who: str = "admin") -> subprocess.CompletedProcess[str]:
    """Run ``replica acl`` with the certificate of ``who``."""
    files = tls_arguments(files_of(cluster.folder / "tls", who))
    bootstrap = ("--bootstrap", ",".join(cluster.addresses.values()))
    return run_replica(*files, "acl", *words, *bootstrap, check=False)


async def test_clients_get_what_the_list_allows(cluster: OwnCertificates) -> None:
    """Denied at first, allowed by an entry, denied again when it goes; refusals are definite, and at once."""
    addresses = [*cluster.addresses.values()]
    async with Admin(addresses, view_of(cluster, "admin")) as admin:
        await wait_active(admin)
        await admin.create_topic(
            "orders", partition_count=1, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
        shop = view_of(cluster, "shop")
        async with Admin(addresses, shop) as refused:
            with pytest.raises(AdminError, match="User:shop may not create topic other") as denied:
                await refused.create_topic("other")
            assert (denied.value.error, denied.value.may_be_done) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False)
            with pytest.raises(AdminError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await refused.create_acls([entry("allow User:shop all topic *")])
            with pytest.raises(NotAuthorizedError):
                await refused.describe_topic("orders")
            assert await refused.list_topics() == []
        async with asyncio.timeout(10), Producer(addresses, view_config=shop) as producer:
            with pytest.raises(NotWrittenError, match="TOPIC_AUTHORIZATION_FAILED"):
                await producer.send("orders", b"lost")
        granted = acl(cluster, "add", "--principal", "User:shop", "--operation", "write", "--topic", "orders")
        assert (granted.returncode, granted.stdout) == (0, "allow User:shop write topic orders\n"), granted.stderr
        assert "User:shop" in acl(cluster, "list").stdout

        async def written() -> int | None:
            async with Producer(addresses, ProducerConfig(enable_idempotence=True), view_config=shop) as producer:
                try:
                    return (await producer.send("orders", b"kept")).offset
                except NotWrittenError:  # Its leader has not applied the entry yet.
                    return None

        assert await eventually(written, lambda offset: offset is not None) == 0
        async with asyncio.timeout(20), Consumer(addresses, view_config=shop) as consumer:
            with pytest.raises(ReadFailedError, match="TOPIC_AUTHORIZATION_FAILED"):
                consumer.assign([ORDERS])
                consumer.seek(ORDERS, 0)
                await consumer.poll(timeout_ms=10_000)
        mistaken = acl(
            cluster, "remove", "--principal", "User:shop", "--operation", "write", "--topic", "orders", who="shop"
        )
        assert (mistaken.returncode, "CLUSTER_AUTHORIZATION_FAILED" in mistaken.stderr) == (1, True), mistaken.stderr
        assert (
            acl(cluster, "remove", "--principal", "User:shop", "--operation", "write", "--topic", "orders").returncode
            == 0
        )
        assert await admin.describe_acls() == ()
        assert await eventually(written, lambda offset: offset is None) is None
    audit = [line for replica_id in cluster.ids for line in cluster.lines(replica_id) if line["event"] == "audit"]
    assert {"allowed", "denied"} == {line["outcome"] for line in audit}
    assert ("User:admin", "CreateTopic", "topic orders") in {
        (line["principal"], line["rpc"], line["resource"]) for line in audit if line["outcome"] == "allowed"
    }


@pytest.mark.long
async def test_a_list_survives_all_replicas(cluster: OwnCertificates) -> None:
    """After a restart of everybody a client that was allowed is never told that it is not, whoever answers first."""
    addresses = [*cluster.addresses.values()]
    async with Admin(addresses, view_of(cluster, "admin")) as admin:
        await wait_active(admin)
        await admin.create_topic("orders", partition_count=1, replication_factor=3)
        await admin.create_acls([entry("allow User:shop all topic orders")])
    for replica_id in cluster.ids:
        cluster.kill(replica_id)
    cluster.start(options=ADMIN)

    async def written() -> int | str | None:
        async with Producer(addresses, view_config=view_of(cluster, "shop")) as producer:
            try:
                return (await producer.send("orders", b"v")).offset
            except NotWrittenError as error:  # Nobody listens yet.
                return str(error)

    assert await eventually(written, lambda found: "nobody described the cluster" not in str(found)) == 0


async def test_groups_have_rights_of_their_own(cluster: OwnCertificates) -> None:
    """Who may not write into a group's machine is told at once; who may, does."""
    addresses = [*cluster.addresses.values()]
    async with Admin(addresses, view_of(cluster, "admin")) as admin:
        await wait_active(admin)
        async with asyncio.timeout(20), KeyValueClient(addresses, view_config=view_of(cluster, "shop")) as store:
            with pytest.raises(NotWrittenError, match="GROUP_AUTHORIZATION_FAILED"):
                await store.put(b"k", b"v")
        await admin.create_acls([entry("allow User:shop write group kv"), entry("allow User:shop read group kv")])

        async def put() -> bool:
            async with KeyValueClient(addresses, view_config=view_of(cluster, "shop")) as store:
                try:
                    await store.put(b"k", b"v")
                except NotWrittenError:
                    return False
                return await store.get(b"k") == b"v"

        assert await eventually(put, lambda is_done: is_done)


async def test_nobody_speaks_for_a_replica_without_its_certificate(cluster: OwnCertificates) -> None:
    """Neither a super user nor another replica: what forgeries were refused by knowledge alone end at the door."""
    async with Admin([*cluster.addresses.values()], view_of(cluster, "admin")) as admin:
        await wait_active(admin)
        brokers = (await admin.describe_cluster()).brokers
        (told,) = (broker for broker in brokers if broker.broker_id == 2)
        for name in ("admin", "replica-1"):
            transport = GrpcTransport(cluster.addresses.__getitem__, tls=files_of(cluster.folder / "tls", name))
            for replica_id in cluster.ids:
                forged = (
                    BrokerHeartbeatRequest(
                        broker_id=ReplicaId(2),
                        broker_epoch=BrokerEpoch(told.broker_epoch),
                        incarnation_id=told.incarnation_id,
                        cluster_id="test",
                        metadata_offset=Offset(1 << 40),
                        want_shut_down=True,
                    ),
                    ReadIndexRequest(
                        topic_partition=METADATA_LOG, replica_id=ReplicaId(2), current_leader_epoch=Epoch(1)
                    ),
                )
                for request in forged:
                    with pytest.raises(DeniedError, match="takes the certificate of replica-2"):
                        await transport.call(replica_id, request, 5000)
            await transport.close()
        assert (await admin.describe_cluster()).brokers == brokers


@pytest.mark.parametrize(
    ("options", "code"), [((), grpc.StatusCode.OK), (("--no-reflection",), grpc.StatusCode.UNIMPLEMENTED)]
)
async def test_reflection_can_be_switched_off(options: tuple[str, ...], code: grpc.StatusCode, tmp_path: Path) -> None:
    """By default everybody who is let in learns what RPCs there are; without, nobody does."""
    with LocalCluster(tmp_path, size=1) as lone:
        lone.format()
        lone.start(options=options)
        async with grpc.aio.insecure_channel(lone.addresses[ReplicaId(1)]) as channel:
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
                iter([request]), wait_for_ready=True, timeout=60
            )
            try:
                assert await call.read() is not grpc.aio.EOF
                found = grpc.StatusCode.OK
            except grpc.aio.AioRpcError as error:
                found = error.code()
            assert found is code
