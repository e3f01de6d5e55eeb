"""Attacks on the memory and the event loop of a real cluster of three, beside one honest writer.

Owns the attacks; each is bounded in count and time, and speaks to loopback only. One line of JSON for each: the
broker's resident memory before it and at its height, the honest writer's rate alone (before and after it, in the mean)
and meanwhile (records a second with acks=all), and the longest that one of its writes took.
``python -m benchmarks.hostile_clients [NAME ...]``.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio

from benchmarks import brokers
from replica.core.messages import (
    CreateTopicRequest,
    FetchPartition,
    FetchRequest,
    ListOffsetsRequest,
    ProduceRequest,
    ProduceRequests,
)
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition
from replica.records import encode_batch
from replica.rpc.codec import CREATE_TOPIC, FETCH, LIST_OFFSETS, PRODUCE

ALONE_S = 5.0
ATTACK_S = 15.0
LOG = TopicPartition("hostile", 0)
FILL_BATCHES = 32
BATCH_BYTES = 1 << 20

Attack = Callable[[str], Awaitable[None]]


def connection(address: str) -> grpc.aio.Channel:
    """A connection that nobody else in this process has, and that sends messages of any size."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    return grpc.aio.insecure_channel(address, options=options)


def bytes_call(channel: grpc.aio.Channel, name: str) -> Callable[..., Awaitable[bytes]]:
    """The call of a method without its codec."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(name)
    return call


def fetch(*, max_wait_ms: int, offset: int, min_bytes: int = 1) -> bytes:
    """A consumer's Fetch of the one partition, for as much as a broker gives."""
    part = FetchPartition(topic_partition=LOG, fetch_offset=Offset(offset), max_bytes=64 << 20)
    return FETCH.request.encode(
        FetchRequest(partitions=(part,), max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=64 << 20)
    )


async def unread_answers(address: str) -> None:
    """400 Fetches of the whole log on one connection that takes nothing of the answers, and answers pings."""
    await frames(address, FETCH.full_name, [(fetch(max_wait_ms=0, offset=0), True)] * 400)


async def unfinished_uploads(address: str) -> None:
    """180 messages of 32 MiB, each but for its last byte."""
    body = bytes((32 << 20) - 1)
    await frames(address, PRODUCE.full_name, [(body, False)] * 180)


async def allowed_uploads(address: str) -> None:
    """180 messages as large as a server takes, each but for its last byte."""
    body = bytes((4 << 20) - 100)
    await frames(address, PRODUCE.full_name, [(body, False)] * 180)


async def parked_fetches(address: str) -> None:
    """4,500 fetches of one connection that wait for more than comes."""
    async with connection(address) as channel:
        call = bytes_call(channel, FETCH.full_name)
        latest = LIST_OFFSETS.request.encode(ListOffsetsRequest(topic_partition=LOG, latest=True))
        end_offset = LIST_OFFSETS.response.decode(await bytes_call(channel, LIST_OFFSETS.full_name)(latest)).offset
        request = fetch(max_wait_ms=30_000, offset=end_offset or 0, min_bytes=1 << 30)
        waits = [asyncio.ensure_future(call(request, timeout=ATTACK_S)) for _ in range(4500)]
        await asyncio.gather(*waits, return_exceptions=True)


async def refused_fetches(address: str) -> None:
    """Fetches of 2 and of 32 MiB that name far too many partitions, one after the other, again and again."""
    part = FetchPartition(topic_partition=LOG, fetch_offset=Offset(0))
    one = FETCH.request.encode(FetchRequest(partitions=(part,), max_bytes=1))
    async with connection(address) as channel:
        call = bytes_call(channel, FETCH.full_name)
        give_up = time.monotonic() + ATTACK_S
        while time.monotonic() < give_up:
            for size in (2 << 20, (32 << 20) - 100):
                with suppress(grpc.aio.AioRpcError):
                    await call(one * (size // len(one)), timeout=60)
            await asyncio.sleep(0.1)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (unread_answers, unfinished_uploads, allowed_uploads, parked_fetches, refused_fetches)
}


async def frames(address: str, path: str, messages: list[tuple[bytes, bool]]) -> None:
    """Speak HTTP/2 by hand: gRPC's own client would read answers, and end what it begins."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, _frames, address, path, messages)


def _frames(address: str, path: str, messages: list[tuple[bytes, bool]]) -> None:
    host, _, port = address.rpartition(":")
    give_up = time.monotonic() + ATTACK_S
    with socket.create_connection((host, int(port))) as sock:
        speaker = Http2(sock, give_up)
        with suppress(OSError):
            speaker.begin()
            for message, ends in messages:
                speaker.open(path, message, ends=ends)
            while time.monotonic() < give_up:
                if not speaker.pump():
                    time.sleep(0.01)


class Http2:
    """As much of HTTP/2 as an attacker needs: pings are answered, the peer's windows kept, and no answer is taken."""

    def __init__(self, sock: socket.socket, give_up: float) -> None:
        self._sock = sock
        self._give_up = give_up
        self._stream = -1
        self._window = 65_535
        self._initial = 65_535
        self._windows: dict[int, int] = {}
        self._left: dict[int, tuple[memoryview, bool]] = {}
        self._heard = b""

    def begin(self) -> None:
        """The preface, with a window of nothing for answers."""
        self._sock.settimeout(max(0.1, self._give_up - time.monotonic()))
        self._send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"\x00\x04" + bytes(4)))

    def open(self, path: str, message: bytes, *, ends: bool) -> None:
        """Begin a call; its message goes out as the windows allow it, and is complete if it ``ends``."""
        self._stream += 2
        named = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"x"),
                 (b"content-type", b"application/grpc"), (b"te", b"trailers"))  # fmt: skip
        head = b"".join(b"\x00" + _text(name) + _text(value) for name, value in named)
        self._send(_frame(1, 4, self._stream, head))
        size = len(message) if ends else len(message) + 1
        self._windows[self._stream] = self._initial
        self._left[self._stream] = memoryview(b"\x00" + size.to_bytes(4, "big") + message), ends
        self.pump()

    def pump(self) -> bool:
        """Hear what windows and pings say, and send what the windows allow."""
        sent = False
        self._hear()
        for stream in list(self._left):
            left, ends = self._left[stream]
            piece = min(len(left), self._window, self._windows[stream], 16_384)
            if piece <= 0:
                continue
            last = ends and piece == len(left)
            self._send(_frame(0, int(last), stream, bytes(left[:piece])))
            self._window -= piece
            self._windows[stream] -= piece
            sent = True
            if piece == len(left):
                del self._left[stream]
            else:
                self._left[stream] = left[piece:], ends
        return sent

    def _hear(self) -> None:
        self._sock.setblocking(False)
        with suppress(BlockingIOError):
            while heard := self._sock.recv(1 << 16):
                self._heard += heard
        self._sock.settimeout(max(0.1, self._give_up - time.monotonic()))
        while len(self._heard) >= 9:
            size = int.from_bytes(self._heard[:3], "big")
            if len(self._heard) < 9 + size:
                return
            kind, flags, stream = self._heard[3], self._heard[4], int.from_bytes(self._heard[5:9], "big")
            self._on_frame(kind, flags, stream, self._heard[9 : 9 + size])
            self._heard = self._heard[9 + size :]

    def _on_frame(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        if kind == 4 and not flags & 1:
            for at in range(0, len(body), 6):
                if body[at : at + 2] == b"\x00\x04":
                    initial = int.from_bytes(body[at + 2 : at + 6], "big")
                    self._windows = {each: window + initial - self._initial for each, window in self._windows.items()}
                    self._initial = initial
            self._send(_frame(4, 1, 0, b""))
        elif kind == 6 and not flags & 1:
            self._send(_frame(6, 1, 0, body))
        elif kind == 8 and stream == 0:
            self._window += int.from_bytes(body, "big")
        elif kind == 8 and stream in self._windows:
            self._windows[stream] += int.from_bytes(body, "big")
        elif kind == 3 or (kind == 1 and flags & 1):
            self._left.pop(stream, None)

    def _send(self, data: bytes) -> None:
        self._sock.sendall(data)


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def _text(text: bytes) -> bytes:
    assert len(text) < 127, text
    return bytes((len(text),)) + text


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class Writer:
    """The honest one: one record with acks=all after the other."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.done = 0
        self.longest_s = 0.0

    async def run(self) -> None:
        """Write until cancelled."""
        write = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=20_000, records=encode_batch([b"v"]).data)
        request = PRODUCE.request.encode(ProduceRequests(requests=(write,)))
        async with connection(self._address) as channel:
            call = bytes_call(channel, PRODUCE.full_name)
            while True:
                began = time.monotonic()
                try:
                    (response,) = PRODUCE.response.decode(await call(request, timeout=60)).responses
                    self.done += response.error is ErrorCode.NONE
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)
                finally:
                    self.longest_s = max(self.longest_s, time.monotonic() - began)


async def rate_of(address: str, until: Awaitable[object]) -> tuple[float, float]:
    """Write beside ``until``; returns records a second, and the longest write in seconds."""
    writer = Writer(address)
    writing = asyncio.ensure_future(writer.run())
    began = time.monotonic()
    await until
    seconds = time.monotonic() - began
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    return writer.done / seconds, writer.longest_s


async def highest(pid: int, until: asyncio.Future[None]) -> int:
    """The most memory that a process holds meanwhile."""
    most = resident_bytes(pid)
    while not until.done():
        await asyncio.sleep(0.05)
        with suppress(OSError, IndexError):
            most = max(most, resident_bytes(pid))
    return most


async def measure(name: str, running: brokers.Brokers) -> dict[str, object]:
    """Attack the leader of the partition; returns the figures."""
    leader = await prepared(running.addresses)
    address, process = running.addresses[leader - 1], running.processes[leader - 1]
    earlier, earlier_longest_s = await rate_of(address, asyncio.sleep(ALONE_S))
    before = resident_bytes(process.pid)
    attack = asyncio.ensure_future(apart(name, address))
    watch = asyncio.ensure_future(highest(process.pid, attack))
    beside, longest_s = await rate_of(address, asyncio.wait([attack]))
    later, later_longest_s = await rate_of(address, asyncio.sleep(ALONE_S))
    alone = (earlier + later) / 2
    return {
        "attack": name,
        "mebibytes_before": before >> 20,
        "mebibytes_at_most": await watch >> 20,
        "writes_per_second_alone": round(alone, 1),
        "writes_per_second_beside": round(beside, 1),
        "beside_of_alone": round(beside / alone, 2),
        "longest_write_alone_ms": round(max(earlier_longest_s, later_longest_s) * 1000),
        "longest_write_beside_ms": round(longest_s * 1000),
        "alive": process.poll() is None,
    }


async def apart(name: str, address: str) -> None:
    """Attack from a process of its own, with the lowest priority.

    So the honest writer shares neither an event loop nor, where it wants it, a core with what no attacker would run on
    the brokers' machine: what is measured is what the brokers have to do.
    """
    words = (sys.executable, "-m", "benchmarks.hostile_clients", "attack", name, address)
    await (await asyncio.create_subprocess_exec(*words)).wait()


async def prepared(addresses: Sequence[str]) -> int:
    """Create the topic, fill it, and return the id of who leads it."""
    create = CREATE_TOPIC.request.encode(CreateTopicRequest(name=LOG.topic, partition_count=1, replication_factor=3))
    records = encode_batch([bytes(BATCH_BYTES - 1000)]).data
    write = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=20_000, records=records)
    fill = PRODUCE.request.encode(ProduceRequests(requests=(write,)))
    filled = 0
    for turn in range(600):
        address = addresses[turn % len(addresses)]
        async with connection(address) as channel:
            with suppress(grpc.aio.AioRpcError):
                if turn < 60:
                    await bytes_call(channel, CREATE_TOPIC.full_name)(create, timeout=5)
                while filled < FILL_BATCHES:
                    answer = await bytes_call(channel, PRODUCE.full_name)(fill, timeout=20)
                    if PRODUCE.response.decode(answer).responses[0].error is not ErrorCode.NONE:
                        break
                    filled += 1
                else:
                    return turn % len(addresses) + 1
        await asyncio.sleep(0.2)
    raise TimeoutError("nobody leads the partition")


async def _attack(name: str, address: str) -> None:
    assert address.startswith("127.0.0.1:"), address
    os.nice(19)
    await ATTACKS[name](address)


def main(names: list[str]) -> None:
    """Run the attacks that are named, or all, each on a cluster of its own; ``attack NAME ADDRESS`` is one alone."""
    if names[:1] == ["attack"]:
        asyncio.run(_attack(*names[1:]))
        return
    for name in names or list(ATTACKS):
        with brokers.running(3) as running:
            sys.stdout.write(json.dumps(asyncio.run(measure(name, running))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
