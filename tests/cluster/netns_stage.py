"""Three echoing nodes in network namespaces, and whoever dials them: a program that is told what to do, line by line.

A process of its own, because it has to enter a network before it does anything else. Run as
``python -m tests.cluster.netns_stage FOLDER``; requests and answers are JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from inspect import isawaitable
from pathlib import Path
from typing import Any

from nemesis.cluster.netns_enter import enter
from nemesis.faults.catalogue import fault_from_json
from nemesis.faults.links import CLIENTS, CONTROL, LinkMode

SERVER = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 100
print("ready", flush=True)
Server(("0.0.0.0", {port}), Echo).serve_forever()
"""
DIALLER = """
import socket, sys, time
begin = time.monotonic()
try:
    with socket.create_connection(({host!r}, {port}), timeout={at_most_s}) as one:
        if {lingers}:
            sys.stdout.write("connected\\n"); sys.stdout.flush(); sys.stdin.readline()
        one.sendall(b"x" * {size} + b"\\n")
        answer = b""
        while not answer.endswith(b"\\n"):
            chunk = one.recv(65536)
            if not chunk:
                raise ConnectionResetError("it ended")
            answer += chunk
    print("answered")
except OSError as error:
    print("silent" if isinstance(error, TimeoutError) else "reset")
print(round(time.monotonic() - begin, 3))
"""
FIRST = (sys.executable, "-I", "-S", "-c")


class Stage:
    """What can be asked for, by name."""

    def __init__(self, folder: Path) -> None:
        from nemesis.cluster.netns import NetnsHost

        self.host = NetnsHost(folder, 3)
        self._lingering: list[subprocess.Popen[str]] = []

    async def open(self) -> dict[str, Any]:
        await self.host.open()
        for node in self.host.nodes:
            port = int(self.host.listen_address(node).rpartition(":")[2])
            await self.host.run(node, (*FIRST, SERVER.format(port=port)), self.host.folder(node) / "log")
        for node in self.host.nodes:
            while self._dialled(CONTROL, node) != "answered":
                await asyncio.sleep(0.02)
        return {"pids": self.host.pids}

    async def cut(self, key: str, links: list[list[int]], mode: str) -> None:
        await self.host.links.cut(key, frozenset((a, b) for a, b in links), LinkMode(mode))

    async def impair(self, key: str, links: list[list[int]], fault: dict[str, Any]) -> None:
        await self.host.links.impair(key, frozenset((a, b) for a, b in links), fault_from_json(fault), 1)  # type: ignore[arg-type]  # a network fault, says the test

    async def heal(self, key: str) -> None:
        await self.host.links.heal(key)

    def map(self) -> dict[str, str]:
        """How everyone fares who dials anyone."""
        pairs = [(a, b) for a in (*self.host.nodes, CLIENTS, CONTROL) for b in self.host.nodes if a != b]
        dialling = [self._dial(a, b, at_most_s=1.0) for a, b in pairs]
        return {f"{a} {b}": _said(one)[0] for (a, b), one in zip(pairs, dialling, strict=True)}

    def transfer_s(self, source: int, destination: int, size: int) -> float:
        """How long it takes to send so many bytes and have them back, or how long nothing was heard."""
        said, seconds = _said(self._dial(source, destination, size=size, at_most_s=10.0))
        assert said != "reset", said
        return float(seconds)

    def linger(self, source: int, destination: int) -> str:
        """Connect, and say nothing for now."""
        one = self._dial(source, destination, lingers=True, at_most_s=5.0)
        self._lingering.append(one)
        assert one.stdout is not None
        return one.stdout.readline().strip()

    def speak(self) -> list[str]:
        """Let those who have connected before say something; how they fare."""
        told = [_said(one, "go on\n")[0] for one in self._lingering]
        self._lingering.clear()
        return told

    def _dialled(self, source: int, destination: int) -> str:
        return _said(self._dial(source, destination))[0]

    def _dial(
        self, source: int, destination: int, *, size: int = 1, at_most_s: float = 1.0, lingers: bool = False
    ) -> subprocess.Popen[str]:
        host, _, port = self.host.addresses(source)[destination].rpartition(":")
        program = DIALLER.format(host=host, port=port, size=size, at_most_s=at_most_s, lingers=lingers)
        before, files = ((), ()) if source in (CLIENTS, CONTROL) else self.host.prefix(source)
        return subprocess.Popen(
            (*before, *FIRST, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=files
        )


def _said(one: subprocess.Popen[str], told: str = "") -> list[str]:
    return one.communicate(told, timeout=60)[0].split()


async def main() -> None:
    """Open the stage, and do what standard input says until it ends."""
    stage, is_interrupted = Stage(Path(sys.argv[1])), False
    try:
        answer: Any = await stage.open()
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # Of itself the loop is not woken by a signal that comes just before it begins to wait. It also undoes what a
        # shell does to those that it starts in the background: they ignore this signal, and so do their children.
        loop.add_signal_handler(signal.SIGINT, task.cancel)
        while True:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                break
            request = json.loads(line)
            answer = getattr(stage, request.pop("do"))(**request)
            if isawaitable(answer):
                answer = await answer
    except asyncio.CancelledError:
        is_interrupted = True
    finally:
        await stage.host.close()
    if is_interrupted:
        # Whoever reads standard input in a thread cannot be told, and would be waited for.
        os._exit(130)


if __name__ == "__main__":
    enter()
    asyncio.run(main())
