"""The gRPC options that matter, watched as they act: gRPC ignores a name it does not know without a word."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from replica.bounds import MESSAGE_BYTES_MAX
from replica.rpc.channels import OPTIONS, Side, channel_options, server_options

HANG = "/test.Echo/Hang"
ECHO = "/test.Echo/Echo"

ECHO_SERVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc
from replica.rpc.channels import server_options
server = grpc.server(ThreadPoolExecutor(2), options=server_options())
echo = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Echo": echo}),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""


@asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """A server in this process that echoes, or hangs; yields its address."""

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    async def hang(request: bytes, context: Any) -> bytes:
        await asyncio.sleep(float(request))
        return b"held"

    server = grpc.aio.server(options=server_options(request_bytes_max=MESSAGE_BYTES_MAX))
    handlers: dict[str, Any] = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Hang": grpc.unary_unary_rpc_method_handler(hang),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def rpc(channel: grpc.aio.Channel, method: str) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return a call of bytes for bytes."""
    callable_: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    return callable_


@pytest.fixture
def echo_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, which can be paused; yields it and its address."""
    process = subprocess.Popen([sys.executable, "-c", ECHO_SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, f"127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("side", [Side.CHANNEL, Side.SERVER])
def test_no_option_stands_twice_and_each_has_its_reason(side: Side) -> None:
    """For either end of a connection the table names every option once, for a stated reason."""
    names = [option.name for option in OPTIONS if option.side in (side, Side.BOTH)]
    assert len(set(names)) == len(names)
    assert all(option.reason for option in OPTIONS)


async def test_a_taken_port_is_refused() -> None:
    """A second server on one port is refused instead of sharing its traffic."""
    async with echo_server() as address:
        second = grpc.aio.server(options=server_options())
        with pytest.raises(RuntimeError):
            second.add_insecure_port(address)
        await second.stop(None)


async def test_a_message_above_the_default_limit_passes() -> None:
    """A message of 8 MiB passes in both directions; gRPC's default stops at 4."""
    async with echo_server() as address, grpc.aio.insecure_channel(address, options=channel_options()) as channel:
        message = bytes(8 << 20)
        assert await rpc(channel, ECHO)(message, timeout=10) == message


async def test_keepalive_does_not_end_a_long_poll() -> None:
    """A call that stays silent while its client pings three times a second is answered: the server minds no pings."""
    hasty = [*((name, value) for name, value in channel_options() if name != "grpc.keepalive_time_ms"),
             ("grpc.keepalive_time_ms", 300)]  # fmt: skip
    async with echo_server() as address, grpc.aio.insecure_channel(address, options=hasty) as channel:
        assert await rpc(channel, HANG)(b"5", timeout=20) == b"held"


async def test_a_paused_peer_is_noticed(echo_process: tuple[subprocess.Popen[str], str]) -> None:
    """A call to a process that was stopped fails within a few seconds instead of at its deadline of 20."""
    process, address = echo_process
    async with grpc.aio.insecure_channel(address, options=channel_options()) as channel:
        assert await rpc(channel, ECHO)(b"x", timeout=10) == b"x"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # A thread on another core may answer before it stands still.
        began = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await rpc(channel, ECHO)(b"x", timeout=20)
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - began < 6
