"""What hostile clients do to a replica: each attack is a function of its address and the time that it may take.

Owns the attacks, which speak HTTP/2 by hand, or not even that: gRPC's own client would read answers, and end what it
begins. All come from ``HOSTILE``, an address of this machine that no honest client has, and speak to loopback only.

    python -m benchmarks.attacks half_open 127.0.0.1:9001 10
"""

from __future__ import annotations

import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache

from replica.core.messages import FetchPartition, FetchRequest, ListOffsetsRequest, ProduceRequest, ProduceRequests
from replica.ids import Offset, TopicPartition
from replica.records import encode_batch
from replica.rpc.codec import FETCH, LIST_OFFSETS, PRODUCE
from replica.server.descriptors import raise_descriptor_limit

HOSTILE = "127.0.0.2"
LOG = TopicPartition("hostile", 0)
MIB = 1 << 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Attack = Callable[[str, float], None]
"""What is done to an address, until a time of the monotonic clock."""


def garbage(address: str, give_up_s: float) -> None:
    """Connections that send 64 KiB of noise, half of them behind a right beginning, one after the other."""
    noise = random.Random(1)
    while time.monotonic() < give_up_s:
        with suppress(OSError), dialled(address, give_up_s) as sock:
            sock.sendall(noise.choice((b"", _PREFACE)) + noise.randbytes(64 << 10))
            sock.recv(1 << 16)


def half_open(address: str, give_up_s: float) -> None:
    """1100 connections that say nothing; one that is closed is dialled again."""
    with ExitStack() as held:
        silent = dict[int, socket.socket]()
        poll = select.poll()
        while time.monotonic() < give_up_s:
            for _ in range(min(100, 1100 - len(silent))):
                with suppress(OSError):
                    sock = held.enter_context(dialled(address, give_up_s))
                    poll.register(sock, select.POLLIN)
                    silent[sock.fileno()] = sock
            for descriptor, _ in poll.poll(100):
                with suppress(OSError):
                    if silent[descriptor].recv(1 << 16):  # The replica speaks first.
                        continue
                poll.unregister(descriptor)
                silent.pop(descriptor).close()


def unread_answers(address: str, give_up_s: float) -> None:
    """400 Fetches of the whole log on each of 8 connections that take nothing of the answers, and answer pings."""
    speak(address, give_up_s, FETCH.full_name, fetch(), at_once=400, connections=8)


def parked_fetches(address: str, give_up_s: float) -> None:
    """500 Fetches that wait for more than comes, on each of 8 connections."""
    waiting = fetch(max_wait_ms=30_000, min_bytes=1 << 30)
    speak(address, give_up_s, FETCH.full_name, waiting, at_once=500, connections=8)


def unfinished_uploads(address: str, give_up_s: float) -> None:
    """180 messages as large as a server takes, each but for its last byte; one that is ended is begun anew."""
    body = bytes(4 * MIB - 100)
    press(address, give_up_s, PRODUCE.full_name, body, at_once=180, claims_bytes=len(body) + 1)


def giant_claims(address: str, give_up_s: float) -> None:
    """Lengths of up to 4 GiB with little behind: of a message, of a field in it, of a batch of records."""
    records = encode_batch([b"v"]).data
    write = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=records)
    batch = bytearray(PRODUCE.request.encode(ProduceRequests(requests=(write,))))
    begins = batch.index(records)
    batch[begins + 8 : begins + 12] = batch[begins + 57 : begins + 61] = b"\x7f\xff\xff\xff"  # Its length, its records.
    for message in (bytes(batch), b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\xff\xff\xff\xff\x0f" * 1000):
        press(address, (time.monotonic() + give_up_s) / 2, PRODUCE.full_name, message, at_once=50)
    press(address, give_up_s, PRODUCE.full_name, b"", at_once=50, claims_bytes=(1 << 32) - 1)


def refused_fetches(address: str, give_up_s: float) -> None:
    """Fetches of 2 MiB that name far too many partitions, four at once, again and again."""
    one = fetch()
    press(address, give_up_s, FETCH.full_name, one * (2 * MIB // len(one)), at_once=4)


def tiny_requests(address: str, give_up_s: float) -> None:
    """Questions of 30 bytes, 500 at once on each of 8 connections, as fast as they are answered."""
    request = LIST_OFFSETS.request.encode(ListOffsetsRequest(topic_partition=LOG, latest=True))
    press(address, give_up_s, LIST_OFFSETS.full_name, request, at_once=500, connections=8)


def heavy_writes(address: str, give_up_s: float) -> None:
    """Batches of 1 MiB with acks=1, eight at once, as fast as they are taken."""
    records = encode_batch([bytes(MIB - 1000)]).data
    write = ProduceRequest(topic_partition=LOG, acks=1, timeout_ms=1000, records=records)
    press(address, give_up_s, PRODUCE.full_name, PRODUCE.request.encode(ProduceRequests(requests=(write,))), at_once=8)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        garbage,
        half_open,
        unread_answers,
        parked_fetches,
        unfinished_uploads,
        giant_claims,
        refused_fetches,
        tiny_requests,
        heavy_writes,
    )
}


def fetch(*, max_wait_ms: int = 0, min_bytes: int = 1) -> bytes:
    """A consumer's Fetch of the one partition from its beginning, for as much as a broker gives."""
    part = FetchPartition(topic_partition=LOG, fetch_offset=Offset(0), max_bytes=64 << 20)
    return FETCH.request.encode(
        FetchRequest(partitions=(part,), max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=64 << 20)
    )


def dialled(address: str, give_up_s: float) -> socket.socket:
    """A connection from the hostile address."""
    host, _, port = address.rpartition(":")
    assert host == "127.0.0.1", address
    patience_s = max(0.1, give_up_s - time.monotonic())
    return socket.create_connection((host, int(port)), timeout=patience_s, source_address=(HOSTILE, 0))


def speak(address: str, give_up_s: float, path: str, message: bytes, *, at_once: int, connections: int) -> None:
    """Begin so many calls on each connection, and take nothing of the answers."""
    with ExitStack() as held:
        speakers = [held.enter_context(Http2(address, give_up_s, window=0)) for _ in range(connections)]
        for speaker in speakers:
            for _ in range(at_once):
                speaker.open(path, message, claims_bytes=len(message))
        while time.monotonic() < give_up_s:
            if sum(speaker.pump() for speaker in speakers) == 0:
                time.sleep(0.005)


def press(
    address: str,
    give_up_s: float,
    path: str,
    message: bytes,
    *,
    at_once: int,
    connections: int = 1,
    claims_bytes: int | None = None,
) -> None:
    """Keep so many calls under way on each connection; one that is closed is dialled again."""
    with ExitStack() as held:
        speakers = list[Http2]()
        while time.monotonic() < give_up_s:
            speakers = [speaker for speaker in speakers if not speaker.is_closed]
            with suppress(OSError):
                while len(speakers) < connections:
                    speakers.append(held.enter_context(Http2(address, give_up_s)))
            for speaker in speakers:
                for _ in range(at_once - speaker.under_way):
                    speaker.open(path, message, claims_bytes=len(message) if claims_bytes is None else claims_bytes)
            if sum(speaker.pump() for speaker in speakers) == 0:
                time.sleep(0.005)


class Http2:
    """As much of HTTP/2 as an attacker needs: pings are answered, and the peer's windows kept.

    With a ``window`` of 0 it takes nothing of any answer.
    """

    def __init__(self, address: str, give_up_s: float, *, window: int = 65_535) -> None:
        self._sock = dialled(address, give_up_s)
        self._takes = window > 0
        self._stream = -1
        self._window = self._initial = 65_535
        self._windows: dict[int, int] = {}
        self._left: dict[int, tuple[memoryview, bool]] = {}
        self._heard = b""
        self._unsent = bytearray(_PREFACE + _frame(4, 0, 0, b"\x00\x04" + window.to_bytes(4, "big")))
        self.is_closed = False

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    @property
    def under_way(self) -> int:
        """How many calls have not ended."""
        return len(self._windows)

    def open(self, path: str, message: bytes, *, claims_bytes: int) -> None:
        """Begin a call, with a message that claims to be so long; if it is, the call is complete with it."""
        self._stream += 2
        named = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"x"),
                 (b"content-type", b"application/grpc"), (b"te", b"trailers"))  # fmt: skip
        head = b"".join(b"\x00" + _text(name) + _text(value) for name, value in named)
        self._unsent += _frame(1, 4, self._stream, head)
        self._windows[self._stream] = self._initial
        self._left[self._stream] = memoryview(_framed(message, claims_bytes)), claims_bytes == len(message)

    def pump(self) -> bool:
        """Hear what there is, and send what the windows allow. Returns whether anything was sent."""
        if self.is_closed:
            return False
        try:
            self._hear()
            for stream in tuple(self._left):
                if self._window <= 0 or len(self._unsent) > MIB:
                    break
                self._send_some(stream)
            self._sock.setblocking(False)
            with suppress(BlockingIOError):
                sent = self._sock.send(self._unsent)
                del self._unsent[:sent]
                return sent > 0
        except OSError:
            self.is_closed = True
        return False

    def _send_some(self, stream: int) -> None:
        left, ends = self._left[stream]
        piece = min(len(left), self._window, self._windows[stream], 16_384)
        if piece <= 0:
            return
        is_all = piece == len(left)
        self._unsent += _frame(0, int(ends and is_all), stream, bytes(left[:piece]))
        self._window -= piece
        self._windows[stream] -= piece
        self._left[stream] = left[piece:], ends
        if is_all:
            del self._left[stream]

    def _hear(self) -> None:
        self._sock.setblocking(False)
        with suppress(BlockingIOError):
            while heard := self._sock.recv(1 << 18):
                self._heard += heard
            raise ConnectionError("the replica has closed the connection")
        at = 0
        while len(self._heard) >= at + 9 and len(self._heard) >= (ends := at + 9 + _number(self._heard[at : at + 3])):
            kind, flags, stream = self._heard[at + 3], self._heard[at + 4], _number(self._heard[at + 5 : at + 9])
            self._on_frame(kind, flags, stream, self._heard[at + 9 : ends])
            at = ends
        self._heard = self._heard[at:]

    def _on_frame(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        match kind:
            case 0 if self._takes and body:
                self._unsent += _frame(8, 0, 0, len(body).to_bytes(4, "big"))
                self._unsent += _frame(8, 0, stream, len(body).to_bytes(4, "big"))
            case 4 if not flags & 1:
                for at in range(0, len(body), 6):
                    if body[at : at + 2] == b"\x00\x04":
                        more = _number(body[at + 2 : at + 6]) - self._initial
                        self._initial += more
                        self._windows = {each: window + more for each, window in self._windows.items()}
                self._unsent += _frame(4, 1, 0, b"")
            case 6 if not flags & 1:
                self._unsent += _frame(6, 1, 0, body)
            case 8 if stream == 0:
                self._window += _number(body)
            case 8 if stream in self._windows:
                self._windows[stream] += _number(body)
        if kind == 3 or (kind in (0, 1) and flags & 1):
            self._left.pop(stream, None)
            self._windows.pop(stream, None)


@cache
def _framed(message: bytes, claims_bytes: int) -> bytes:
    return b"\x00" + claims_bytes.to_bytes(4, "big") + message


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _text(text: bytes) -> bytes:
    assert len(text) < 127, text
    return bytes((len(text),)) + text


def main(name: str, address: str, seconds: str, nice: str = "10") -> None:
    """Attack, and say when that begins; by default with a low priority: no attacker runs on the brokers' machine."""
    os.nice(int(nice))
    raise_descriptor_limit()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    with suppress(OSError):
        ATTACKS[name](address, time.monotonic() + float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
