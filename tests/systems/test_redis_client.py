"""Redis's client against a sentinel and a server that fail on command: which failures are definite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("redis", reason="redis is not installed: pip install 'highwater-log[systems]'")

from nemesis.cluster.store import Answer, Found
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.systems.redis import client as redis_client
from nemesis.systems.redis.client import Address, RedisStore
from tests.systems.store_outcomes import get, outcome, put

HELLO = b"%1\r\n+proto\r\n:3\r\n"
SILENCE, HANG_UP = b"silence", b"hang-up"


class Server:
    """A sentinel and a server in one: says that it is the master, and answers all else with ``reply``."""

    def __init__(self) -> None:
        self.reply = b"+OK\r\n"
        self.is_master_known = True
        self.asked: list[tuple[bytes, ...]] = []
        self.address: Address = ("", 0)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while command := await _command(reader):
                answer = self._answer(command)
                if answer == HANG_UP:
                    break
                if answer != SILENCE:
                    writer.write(answer)
        finally:
            writer.close()

    def _answer(self, command: tuple[bytes, ...]) -> bytes:
        match command[0].upper():
            case b"HELLO":
                return HELLO
            case b"CLIENT" | b"SELECT" | b"PING":
                return b"+OK\r\n"
            case b"SENTINEL":
                return self._masters() if self.is_master_known else b"*0\r\n"
            case _:
                self.asked.append(command)
                return self.reply

    def _masters(self) -> bytes:
        words = {"name": "main", "ip": self.address[0], "port": str(self.address[1]), "flags": "master"}
        words |= {"num-other-sentinels": "0", "num-slaves": "0", "quorum": "1"}
        flat = [word for pair in words.items() for word in pair]
        return b"*1\r\n*%d\r\n" % len(flat) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in flat)


async def _command(reader: asyncio.StreamReader) -> tuple[bytes, ...]:
    """The next command, as an array of strings; none at the end."""
    head = await reader.readline()
    if not head:
        return ()
    words = []
    for _ in range(int(head[1:])):
        length = int((await reader.readline())[1:])
        words.append((await reader.readexactly(length + 2))[:-2])
    return tuple(words)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server that listens; operations are given little time."""
    monkeypatch.setattr(redis_client, "OPERATION_S_MAX", 0.5)
    monkeypatch.setattr(redis_client, "ANSWER_S_MAX", 0.3)
    server = Server()
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0) as listening:
        server.address = listening.sockets[0].getsockname()[:2]
        yield server


@pytest.mark.parametrize(
    ("reply", "of_change"),
    [
        (b"+OK\r\n", Answer(revision=None)),
        (b"-READONLY You can't write against a read only replica.\r\n", NotDoneError),
        (b"-LOADING Redis is loading the dataset in memory\r\n", NotDoneError),
        (b"-ERR unknown command\r\n", NotDoneError),
        (SILENCE, UnknownOutcomeError),
        (HANG_UP, UnknownOutcomeError),
    ],
    ids=["done", "readonly", "loading", "error", "silence", "hang-up"],
)
async def test_a_change_is_not_done_only_if_the_server_says_so(
    server: Server, reply: bytes, of_change: Answer | type[Exception]
) -> None:
    """What was sent and not refused may have happened, and it is sent once only."""
    server.reply = reply

    assert await outcome(RedisStore([server.address]), put) == of_change
    assert len(server.asked) == 1


@pytest.mark.parametrize("reply", [b"-READONLY no\r\n", SILENCE, HANG_UP])
async def test_a_read_is_never_unknown(server: Server, reply: bytes) -> None:
    """A read that earns no answer has done no harm."""
    server.reply = reply

    assert await outcome(RedisStore([server.address]), get) is NotDoneError


async def test_without_a_master_nothing_is_done(server: Server) -> None:
    """Where the sentinels know no master nothing was sent to anybody."""
    server.is_master_known = False

    assert await outcome(RedisStore([server.address]), put) is NotDoneError
    assert server.asked == []


async def test_a_key_with_a_slash_is_a_field(server: Server) -> None:
    """What is below a prefix is one hash, so that it is read at one moment."""
    await outcome(RedisStore([server.address]), lambda client: client.put("set-1/7", 7))
    server.reply = b"*4\r\n$1\r\n7\r\n$1\r\n7\r\n$1\r\n9\r\n$1\r\n9\r\n"
    answer = await outcome(RedisStore([server.address]), lambda client: client.get_all("set-1/"))

    assert server.asked == [(b"HSET", b"set-1", b"7", b"7"), (b"HGETALL", b"set-1")]
    found = {f"set-1/{number}": Found(value=number, changed_at=None) for number in (7, 9)}
    assert answer == Answer(revision=None, found=found)
