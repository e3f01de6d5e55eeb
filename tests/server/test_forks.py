"""A process that uses gRPC can start others by a fork, as a harness does that has just used it and starts Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKS = 300
"""Of so many about ten abort where gRPC handles forks itself."""
FORK_OFTEN = """
import asyncio, os, subprocess, sys
import replica
import grpc.aio

async def talk():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel("127.0.0.1:%d" % port)
    for _ in range(20):
        try:
            await channel.unary_unary("/no/method")(b"")
        except grpc.aio.AioRpcError:
            pass
    return server, channel

kept = asyncio.new_event_loop().run_until_complete(talk())
ends = [subprocess.Popen(["true"], preexec_fn=lambda: None).wait() for _ in range(int(sys.argv[1]))]
print(sum(end == 0 for end in ends), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_children_of_a_process_that_uses_grpc_reach_their_program() -> None:
    """None aborts between fork and exec."""
    command = [sys.executable, "-c", FORK_OFTEN, str(FORKS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    assert int(done.stdout) == FORKS
