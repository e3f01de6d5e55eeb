"""TLS: who is let in, what a side that is not believed learns, and certificates that are renewed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from replica.cli.certs import certs
from replica.core.messages import DescribeReplicaRequest, DescribeReplicaResponse
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.rpc.channels import server_options
from replica.rpc.codec import method_of
from replica.rpc.tls import TlsError, TlsFiles
from replica.rpc.transport import GrpcTransport, NotAppliedError
from replica.server.health_check import UnhealthyError, check_health

ONE = ReplicaId(1)
ASK = DescribeReplicaRequest(topic_partition=METADATA_LOG)
ANSWER = DescribeReplicaResponse(error=ErrorCode.NOT_CONTROLLER)


def files_of(folder: Path, name: str | None, *, ca: Path | None = None) -> TlsFiles:
    """The files of a name, or of nobody; made if need be."""
    if name is not None and not (folder / f"{name}.pem").exists():
        made = CliRunner().invoke(certs, ["--dir", str(folder), name])
        assert made.exit_code == 0, made.output
    ca_file = ca or folder / "ca.pem"
    if name is None:
        return TlsFiles(ca_file=ca_file)
    return TlsFiles(ca_file=ca_file, cert_file=folder / f"{name}.pem", key_file=folder / f"{name}-key.pem")


@asynccontextmanager
async def serving(files: TlsFiles, *, with_client_auth: bool = True) -> AsyncIterator[str]:
    """Serve one method by TLS; yields the address."""
    method = method_of(ASK)

    async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while isinstance(await context.read(), bytes):
            await context.write(method.response.encode(ANSWER))

    server = grpc.aio.server(options=server_options())
    service, _, name = method.full_name.strip("/").partition("/")
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    credentials = files.server_credentials(with_client_auth=with_client_auth)
    address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)


async def asked(address: str, tls: TlsFiles | None) -> object:
    """One call on a connection of its own."""
    transport = GrpcTransport(lambda _: address, tls=tls)
    try:
        return await transport.call(ONE, ASK, 3000)
    finally:
        await transport.close()


async def test_whoever_is_believed_is_served(tmp_path: Path) -> None:
    """Both sides show a certificate of the same authority."""
    server, client = files_of(tmp_path, "replica"), files_of(tmp_path, "client")
    async with serving(server) as address:
        assert await asked(address, client) == ANSWER


@pytest.mark.parametrize("who", ["nobody", "of another authority", "without TLS"])
async def test_whoever_is_not_believed_does_nothing(who: str, tmp_path: Path) -> None:
    """A call fails, and is known not to have been carried out."""
    server = files_of(tmp_path, "replica")
    other = files_of(tmp_path / "other", "client", ca=tmp_path / "ca.pem")
    tls = {"nobody": files_of(tmp_path, None), "of another authority": other, "without TLS": None}[who]
    async with serving(server) as address:
        with pytest.raises(NotAppliedError):
            await asked(address, tls)


async def test_a_server_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    """Whoever sits on the way and serves in the place of a replica is told nothing."""
    impostor = files_of(tmp_path / "other", "replica")
    client = files_of(tmp_path, "client")
    async with serving(impostor, with_client_auth=False) as address:
        with pytest.raises(NotAppliedError):
            await asked(address, client)


async def test_where_clients_need_no_certificate_they_still_check_the_servers(tmp_path: Path) -> None:
    """One that only believes the authority is served."""
    async with serving(files_of(tmp_path, "replica"), with_client_auth=False) as address:
        assert await asked(address, files_of(tmp_path, None)) == ANSWER


async def test_renewed_files_count_from_the_next_connection_on(tmp_path: Path) -> None:
    """A server goes over to another authority while it runs; before that its clients are not believed."""
    server, client = files_of(tmp_path, "replica"), files_of(tmp_path, "client")
    files_of(tmp_path / "next", "replica")
    next_client = files_of(tmp_path / "next", "client")
    async with serving(server) as address:
        with pytest.raises(NotAppliedError):
            await asked(address, next_client)
        for name in ("ca.pem", "replica-key.pem", "replica.pem"):
            (tmp_path / "next" / name).replace(tmp_path / name)
        (tmp_path / "next" / "ca.pem").write_bytes((tmp_path / "ca.pem").read_bytes())
        assert await asked(address, next_client) == ANSWER
        with pytest.raises(NotAppliedError):
            await asked(address, client)


async def test_files_that_are_half_renewed_change_nothing(tmp_path: Path) -> None:
    """With a key that is not the certificate's, and without any, those go on that there were."""
    server, client = files_of(tmp_path, "replica"), files_of(tmp_path, "client")
    async with serving(server) as address:
        for key in ((tmp_path / "client-key.pem").read_bytes(), b""):
            (tmp_path / "replica-key.pem").write_bytes(key)
            assert await asked(address, client) == ANSWER
        (tmp_path / "replica-key.pem").unlink()
        assert await asked(address, client) == ANSWER


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("ca.pem", "ca.pem has no certificates that can be read"),
        ("client.pem", "client.pem and .*client-key.pem are not a certificate and its key"),
        ("client-key.pem", "client.pem and .*client-key.pem are not a certificate and its key"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(spoil: str, told: str, tmp_path: Path) -> None:
    """Nothing is dialled with it, so that nothing was done."""
    client = files_of(tmp_path, "client")
    (tmp_path / spoil).write_text("no certificate")
    with pytest.raises(TlsError, match=told):
        client.channel_credentials()
    with pytest.raises(NotAppliedError, match=told):
        await asked("127.0.0.1:1", client)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    """And so is a server that would not say who it is."""
    client = files_of(tmp_path, "client")
    with pytest.raises(TlsError, match="go together"):
        TlsFiles(ca_file=client.ca_file, cert_file=client.cert_file).check()
    with pytest.raises(TlsError, match="a replica must say who it is"):
        TlsFiles(ca_file=client.ca_file).server_credentials(with_client_auth=True)


async def test_a_health_check_is_refused_like_anybody(tmp_path: Path) -> None:
    """Without files it learns nothing of a replica that serves by TLS; files that cannot be read are named."""
    client = files_of(tmp_path, "client")
    async with serving(files_of(tmp_path, "replica")) as address:
        with pytest.raises(UnhealthyError, match="is not serving: UNAVAILABLE"):
            await asyncio.to_thread(check_health, address, service="", timeout_ms=3000)
        with pytest.raises(UnhealthyError, match="is not serving: UNIMPLEMENTED"):  # It is let in, and there is none.
            await asyncio.to_thread(check_health, address, service="", timeout_ms=3000, tls=client)
        (tmp_path / "ca.pem").write_text("")
        with pytest.raises(UnhealthyError, match=r"ca\.pem"):
            await asyncio.to_thread(check_health, address, service="", timeout_ms=3000, tls=client)
