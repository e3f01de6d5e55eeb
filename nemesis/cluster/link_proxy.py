"""A TCP proxy on one directed link: source dials destination here, and every byte goes its way.

Owns the connections of one link, and what befalls them as a whole: reset, told twice, their answers lost. What befalls
the bytes of a direction is their way's business.

While a way is closed nothing is read from the sender beyond one chunk and asyncio's own bounded buffer, nothing is
written, and neither the end nor the breaking of a connection is passed on; a new connection is accepted and hangs. When
the way opens again, what was held is delivered late but in order, as a network that retransmits would: nothing is lost
from the middle of a stream. A refusing link aborts (RST) its connections and every new one.

Where the answers are in the bytes of one connection: of HTTP/2, or of any protocol in which one asks first.

Second connections to a destination, on which all that a source says is said again, and nobody hears the answers.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from nemesis.cluster.holds import CHUNK_BYTES
from nemesis.cluster.ways import Way, pump

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_BYTES = 9
_DATA, _HEADERS = 0, 1


class Conversation:
    """Listens to both sides of one connection, from its beginning."""

    def __init__(self) -> None:
        self._began = b""
        self._asks = _Frames()
        self._answers = _Frames()
        self._asked: set[int] = set()
        """The streams on which something was asked that no answer to has begun."""

    def on_asked(self, chunk: bytes) -> None:
        """The source said this."""
        preface = chunk[: len(PREFACE) - len(self._began)]
        self._began += preface
        if PREFACE.startswith(self._began):
            self._asked.update(stream for _, stream in self._asks.begun(chunk[len(preface) :]))

    def on_answered(self, chunk: bytes) -> list[int]:
        """The destination said this: where in it answers begin, each of them told once.

        Without HTTP/2 there is one answer in each chunk, once something was asked.
        """
        if not PREFACE.startswith(self._began):
            return [0]
        starts = []
        for start, stream in self._answers.begun(chunk):
            if stream in self._asked:
                self._asked.discard(stream)
                starts.append(start)
        return starts


class _Frames:
    """The frames of one side, which chunks cut anywhere."""

    def __init__(self) -> None:
        self._header = b""
        self._bytes_left = 0

    def begun(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Frames of headers and data in a chunk: where each begins, at 0 if that has gone already, and its stream."""
        position = 0
        while position < len(chunk):
            if self._bytes_left:
                passed = min(self._bytes_left, len(chunk) - position)
                self._bytes_left -= passed
                position += passed
                continue
            start = position - len(self._header)
            taken = chunk[position : position + _HEADER_BYTES - len(self._header)]
            self._header += taken
            position += len(taken)
            if len(self._header) == _HEADER_BYTES:
                if self._header[3] in (_DATA, _HEADERS):
                    yield max(0, start), int.from_bytes(self._header[5:], "big")
                self._bytes_left = int.from_bytes(self._header[:3], "big")
                self._header = b""


CONNECTIONS_MAX = 1024
LOOPBACK = "127.0.0.1"
_LINGER_ZERO = struct.pack("ii", 1, 0)


@dataclass(slots=True, kw_only=True)
class LosesReplies:
    """Which answers are lost: so many in a hundred, as the dice fall."""

    percent: int
    random: Random
    tally: Counter[str]

    def loses(self) -> bool:
        """Whether the answer that begins now is lost."""
        self.tally["replies"] += 1
        is_lost = self.random.random() * 100 < self.percent
        self.tally["lost"] += is_lost
        return is_lost


@dataclass(slots=True, kw_only=True)
class _Connection:
    """What is open of one connection, what was heard on it, and who tells it again."""

    writers: list[asyncio.StreamWriter]
    conversation: Conversation = field(default_factory=Conversation)
    copies: list[Copy] = field(default_factory=list)


class LinkProxy:
    """Listens where the source dials, and forwards to wherever the destination listens now.

    ``forward`` is the way of the bytes from source to destination, ``backward`` that of the answers. ``upstream`` is
    the destination's port, absent while it is down: then connections are reset, as a closed port would.
    """

    def __init__(self, *, forward: Way, backward: Way) -> None:
        self.upstream: int | None = None
        self._ways = (forward, backward)
        self._refuses = False
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._losses: dict[str, LosesReplies] = {}
        self._copies: dict[str, Copies] = {}

    async def start(self) -> int:
        """Take a free port and return it. It stays taken until ``close``."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0, limit=CHUNK_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Give the port back and abort every connection."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._connections)
        self.reset()
        for task in tasks:
            task.cancel()
        for copies in self._copies.values():
            tasks += copies.end()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many connections are open, hanging ones included."""
        return len(self._connections)

    # --- what befalls connections -------------------------------------------------------------------------------------

    def set_refusing(self, refuses: bool) -> None:
        """Reset all connections from now on, or let them through again."""
        self._refuses = refuses
        if refuses:
            self.reset()

    def reset(self) -> int:
        """Reset all connections that are open, and say how many; new ones are let through."""
        for connection in self._connections.values():
            for writer in connection.writers:
                reset(writer)
        return len(self._connections)

    def lose_replies(self, key: str, losses: LosesReplies) -> None:
        """Pass requests on, and break the connection where the answer would come, until ``mend(key)``."""
        self._losses[key] = losses

    def copy(self, key: str, copies: Copies) -> None:
        """Tell every conversation twice that begins from now on, until ``mend(key)``."""
        self._copies[key] = copies

    def mend(self, key: str) -> None:
        """Do neither any more because of this key."""
        self._losses.pop(key, None)
        if key in self._copies:
            self._copies.pop(key).end()

    # --- connections --------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = self._connections[task] = _Connection(writers=[writer])
        try:
            if len(self._connections) <= CONNECTIONS_MAX:
                await self._carry(connection, reader, writer)
        finally:
            for open_writer in self._connections.pop(task).writers:
                reset(open_writer)

    async def _carry(self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection from its first byte to its end."""
        forward, backward = self._ways
        if not self._refuses:
            # A handshake needs both directions.
            await forward.wait_open()
            await backward.wait_open()
        if self._refuses or self.upstream is None:
            return
        try:
            answers, onward = await asyncio.open_connection(LOOPBACK, self.upstream, limit=CHUNK_BYTES)
        except OSError:
            return
        connection.writers.append(onward)
        connection.copies += [copies.begin(LOOPBACK, self.upstream, forward) for copies in self._copies.values()]
        await asyncio.gather(
            pump(reader, onward, forward, self._asking(connection), reset),
            pump(answers, writer, backward, self._answering(connection), reset),
        )
        await _close(writer, onward)

    def _asking(self, connection: _Connection) -> Callable[[bytes], bytes]:
        def passing(chunk: bytes) -> bytes:
            connection.conversation.on_asked(chunk)
            for copy in connection.copies:
                copy.on_said(chunk)
            return chunk

        return passing

    def _answering(self, connection: _Connection) -> Callable[[bytes], bytes]:
        """Lets answers pass up to the first that is lost."""

        def passing(chunk: bytes) -> bytes:
            for position in connection.conversation.on_answered(chunk):
                if any(losses.loses() for losses in self._losses.values()):
                    return chunk[:position]
            return chunk

        return passing


def reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, with RST rather than FIN."""
    if writer.transport.is_closing():
        return
    raw = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()


async def _close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


COPIED_BYTES_MAX = 1 << 20
"""A conversation is copied so far; what is said later is not said again."""
COPIES_MAX = 64
"""So many copies of one fault live on a link; then the eldest is ended."""
_DISCARDED_BYTES = 1 << 16


class Copy:
    """One conversation, said again to ``host:port``, each byte ``delay_s`` later. Lives until ``end``.

    While ``way`` is closed nothing is said.
    """

    def __init__(self, host: str, port: int, way: Way, *, delay_s: float, tally: Counter[str]) -> None:
        self._address = (host, port)
        self._way = way
        self._delay_s = delay_s
        self._tally = tally
        self._said: deque[tuple[float, bytes]] = deque()
        self._bytes_left = COPIED_BYTES_MAX
        self._more = asyncio.Event()
        self._task = asyncio.create_task(self._say_again())

    def on_said(self, chunk: bytes) -> None:
        """The source said this."""
        copied = chunk[: self._bytes_left]
        self._bytes_left -= len(copied)
        if copied:
            self._said.append((asyncio.get_running_loop().time() + self._delay_s, copied))
            self._more.set()

    def end(self) -> asyncio.Task[None]:
        """Say nothing more, and let the connection go; the task that ends with it."""
        self._task.cancel()
        return self._task

    async def _say_again(self) -> None:
        try:
            answers, writer = await asyncio.open_connection(*self._address)
        except OSError:
            return
        self._tally["conversations"] += 1
        discarding = asyncio.create_task(_discard(answers))
        try:
            while True:
                await self._say_next(writer)
        except OSError:
            pass  # The destination has ended it.
        finally:
            discarding.cancel()
            writer.transport.abort()

    async def _say_next(self, writer: asyncio.StreamWriter) -> None:
        while not self._said:
            self._more.clear()
            await self._more.wait()
        due_s, chunk = self._said.popleft()
        await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
        await self._way.wait_open()
        writer.write(chunk)
        await writer.drain()
        self._tally["bytes"] += len(chunk)


class Copies:
    """The copies that one fault makes on one link."""

    def __init__(self, *, delay_s: float, tally: Counter[str]) -> None:
        self._delay_s = delay_s
        self._tally = tally
        self._copies: deque[Copy] = deque()

    def begin(self, host: str, port: int, way: Way) -> Copy:
        """Copy a conversation that begins."""
        if len(self._copies) == COPIES_MAX:
            self._copies.popleft().end()
        self._copies.append(Copy(host, port, way, delay_s=self._delay_s, tally=self._tally))
        return self._copies[-1]

    def end(self) -> list[asyncio.Task[None]]:
        """End them all; the tasks that end with them."""
        return [copy.end() for copy in self._copies]


async def _discard(answers: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await answers.read(_DISCARDED_BYTES):
            pass
