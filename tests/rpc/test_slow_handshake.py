"""A TLS handshake that takes its time comes to its end."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import grpc.aio

from replica.cli.certs import make_certificates
from replica.rpc.channels import channel_options
from replica.rpc.tls import TlsFiles

LATE_S = 0.4
"""How much later each piece of the conversation arrives: a handshake has three."""


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one direction, late, to its end."""
    try:
        while chunk := await reader.read(1 << 16):
            await asyncio.sleep(LATE_S)
            writer.write(chunk)
    finally:
        writer.close()


async def link(
    port: int, links: list[asyncio.Task[None]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carry one connection to that port of this machine; it is then one of the ``links``."""
    if (task := asyncio.current_task()) is not None:
        links.append(task)
    onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(carry(reader, onward_writer), carry(onward_reader, writer), return_exceptions=True)
    await asyncio.gather(writer.wait_closed(), onward_writer.wait_closed(), return_exceptions=True)


async def test_a_handshake_may_take_longer_than_a_plain_connection(tmp_path: Path) -> None:
    """Where each piece of it comes late, a channel by TLS becomes ready; it is not broken off again and again."""
    for _ in make_certificates(tmp_path, ["one"], ["127.0.0.1"], 1):
        pass
    files = TlsFiles(ca_file=tmp_path / "ca.pem", cert_file=tmp_path / "one.pem", key_file=tmp_path / "one-key.pem")
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", files.server_credentials(with_client_auth=True))
    await server.start()
    links: list[asyncio.Task[None]] = []
    slow = await asyncio.start_server(partial(link, port, links), "127.0.0.1", 0)
    address = f"127.0.0.1:{slow.sockets[0].getsockname()[1]}"
    options = channel_options(with_tls=True)
    async with grpc.aio.secure_channel(address, files.channel_credentials(), options=options) as channel:
        async with asyncio.timeout(60):
            await channel.channel_ready()
    slow.close()
    await server.stop(0)
    await asyncio.gather(*links)
