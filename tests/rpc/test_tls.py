"""TLS: who is let in, what a side that is not believed learns, and certificates that are renewed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from replica.core.messages import DescribeReplicaRequest, DescribeReplicaResponse
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.rpc.channels import server_options
from replica.rpc.codec import method_of
from replica.rpc.tls import TlsError, TlsFiles
from replica.rpc.transport import (
    NOT_APPLIED_KEY,
    DeniedError,
    GrpcTransport,
    NotAppliedError,
    TransportError,
)
from replica.server.health_check import UnhealthyError, check_health
from tests.rpc.certificates import files_of

ONE = ReplicaId(1)
ASK = DescribeReplicaRequest(topic_partition=METADATA_LOG)
Handle = Callable[[object, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[None]]
ANSWER = DescribeReplicaResponse(error=ErrorCode.NOT_CONTROLLER)


@asynccontextmanager
async def serving(
    files: TlsFiles, *, with_client_auth: bool = True, handle: Handle | None = None
) -> AsyncIterator[str]:
    """Serve one method by TLS, which answers all or does what ``handle`` says; yields the address."""
    method = method_of(ASK)

    async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while isinstance(await context.read(), bytes):
            await context.write(method.response.encode(ANSWER))

    server = grpc.aio.server(options=server_options())
    service, _, name = method.full_name.strip("/").partition("/")
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(handle or serve)
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


@asynccontextmanager
async def noting(files: TlsFiles, seen: list[str | bytes | None]) -> AsyncIterator[str]:
    """Serve one method by TLS, and note for each stream what it says of its caller; yields the address."""
    method = method_of(ASK)

    async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        seen.append(dict(context.invocation_metadata() or ()).get("authorization"))
        while isinstance(await context.read(), bytes):
            await context.write(method.response.encode(ANSWER))

    async with serving(files, with_client_auth=False, handle=serve) as address:
        yield address


async def test_a_token_is_shown_and_shown_anew_when_its_file_changes(tmp_path: Path) -> None:
    """Streams that have shown an old token are used no more, one that is being replaced changes nothing."""
    server, token = files_of(tmp_path, "replica"), tmp_path / "token"
    token.write_text("one\n")
    client = replace(files_of(tmp_path, None), token_file=token)
    seen: list[str | bytes | None] = []
    async with noting(server, seen) as address:
        transport = GrpcTransport(lambda _: address, tls=client)
        for content in ("one", "one", "two", "", "two words", "three"):
            if token.read_text().strip() != content:
                changed_ns = token.stat().st_mtime_ns + 1_000_000
                token.write_text(content)
                os.utime(token, ns=(changed_ns, changed_ns))
            assert await transport.call(ONE, ASK, 3000) == ANSWER
        token.unlink()
        assert await transport.call(ONE, ASK, 3000) == ANSWER
        await transport.close()
    assert seen == ["Bearer one", "Bearer two", "Bearer three"]


@pytest.mark.parametrize("content", ["", "two words", "x" * 4097, "gehe\u00efm", None])
async def test_what_is_no_token_is_named_by_its_file_alone(content: str | None, tmp_path: Path) -> None:
    """Nothing is dialled with it, and nothing of it is said."""
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    client = replace(files_of(tmp_path, "client"), token_file=token)
    with pytest.raises(TlsError, match="token has no token that can be read") as told:
        client.check()
    assert not content or content not in str(told.value)
    with pytest.raises(NotAppliedError, match="token has no token that can be read"):
        await asked("127.0.0.1:1", client)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED])
async def test_whoever_is_denied_is_told_for_good(code: grpc.StatusCode, tmp_path: Path) -> None:
    """With the mark of what was certainly not done, no client is to try again; without it nothing is known."""
    server, client = files_of(tmp_path, "replica"), files_of(tmp_path, "client")
    marks = [((NOT_APPLIED_KEY, "1"),), ()]

    async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await context.read()
        await context.abort(code, "it is not you", marks.pop(0))

    async with serving(server, handle=serve) as address:
        with pytest.raises(DeniedError, match="it is not you"):
            await asked(address, client)
        with pytest.raises(TransportError, match="it is not you") as unknown:
            await asked(address, client)
    assert not isinstance(unknown.value, NotAppliedError)
