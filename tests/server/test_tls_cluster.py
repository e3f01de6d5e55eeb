"""Replicas and clients by mutual TLS: everything goes by it, and certificates are renewed while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.failures import ClientError
from replica.client.producer import Producer
from replica.ids import ReplicaId
from replica.rpc.tls import TlsFiles
from tests.server.local_cluster import LocalCluster, run_replica

pytestmark = pytest.mark.cluster

REPLICA, CLIENT = "replica", "client"
WRITES = 60


def make(folder: Path, *names: str) -> None:
    """Make these certificates, or renew them."""
    run_replica("certs", "--dir", folder, *names)


def files_of(folder: Path, name: str) -> TlsFiles:
    """The files of one of them."""
    return TlsFiles(ca_file=folder / "ca.pem", cert_file=folder / f"{name}.pem", key_file=folder / f"{name}-key.pem")


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of certificates; commands and replicas that are started are told of those of a replica."""
    folder = tmp_path / "tls"
    make(folder, REPLICA, CLIENT)
    for name, path in {"CA": "ca.pem", "CERT": f"{REPLICA}.pem", "KEY": f"{REPLICA}-key.pem"}.items():
        monkeypatch.setenv(f"REPLICA_TLS_{name}_FILE", str(folder / path))
    return folder


@pytest.fixture
def cluster(tmp_path: Path, certificates: Path) -> Iterator[LocalCluster]:
    """Three replicas that believe nobody without a certificate."""
    del certificates
    with LocalCluster(tmp_path) as cluster:
        cluster.format()
        cluster.start()
        yield cluster


async def test_writes_go_on_while_certificates_are_renewed(cluster: LocalCluster, certificates: Path) -> None:
    """No write is lost, also not through a replica that is killed and comes back with the new certificates.

    Whoever has no certificate of this authority is told nothing and changes nothing.
    """
    addresses = [*cluster.addresses.values()]
    view = ViewConfig(tls=files_of(certificates, CLIENT))
    async with Admin(addresses, view) as admin, Producer(addresses, view_config=view) as producer:
        while sum(not broker.fenced for broker in (await admin.describe_cluster()).brokers) < len(addresses):
            await asyncio.sleep(0.1)
        await admin.create_topic("topic", partition_count=1, replication_factor=3)
        offsets = [(await producer.send("topic", b"first")).offset]
        make(certificates, REPLICA, CLIENT)
        for number in range(WRITES):
            if number == WRITES // 2:
                cluster.kill(ReplicaId(2))
                cluster.start(ReplicaId(2))
            offsets.append((await producer.send("topic", b"%d" % number)).offset)
        assert offsets == list(range(WRITES + 1))
    for tls in (None, TlsFiles(ca_file=certificates / "ca.pem")):
        async with Admin(addresses, ViewConfig(tls=tls, api_timeout_ms=2000)) as stranger:
            with pytest.raises(ClientError):
                await stranger.delete_topic("topic")


async def test_commands_take_the_files_from_their_environment(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asks a replica for itself, and what asks the cluster; without files each says that nobody answers."""
    address = cluster.addresses[ReplicaId(1)]
    asking = {
        "health": ("health", "--address", address),
        "status": ("status", "--bootstrap", f"1={address}"),
        "describe": ("cluster", "describe", "--bootstrap", address, "--timeout-ms", "3000"),
    }
    while run_replica(*asking["describe"], check=False).returncode != 0:
        await asyncio.sleep(0.1)
    assert {name: run_replica(*words, check=False).returncode for name, words in asking.items()} == dict.fromkeys(
        asking, 0
    )
    monkeypatch.delenv("REPLICA_TLS_CERT_FILE")
    half = run_replica(*asking["status"], check=False)
    assert (half.returncode, "a certificate and its key go together" in half.stderr) == (2, True)
    monkeypatch.setenv("REPLICA_TLS_CERT_FILE", "")
    empty = run_replica(*asking["status"], check=False)
    assert (empty.returncode, "REPLICA_TLS_CERT_FILE is empty" in empty.stderr) == (2, True)
    monkeypatch.delenv("REPLICA_TLS_CERT_FILE")
    for name in ("CA", "KEY"):
        monkeypatch.delenv(f"REPLICA_TLS_{name}_FILE")
    assert {name: run_replica(*words, check=False).returncode for name, words in asking.items()} == dict.fromkeys(
        asking, 1
    )
