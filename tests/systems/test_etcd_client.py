"""etcd's client against a gateway that fails on command: which failures are definite and which are unknown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'highwater-log[systems]'")
from aiohttp import web

from nemesis.cluster.store import Answer
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.systems.etcd import client as etcd
from nemesis.systems.etcd.client import EtcdStore
from tests.systems.store_outcomes import get, outcome, put

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]
DONE = {"header": {"revision": "7"}}


class Gateway:
    """A member that answers as ``reply`` says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.reply: Reply = told(200, DONE)
        self.asked: list[tuple[str, Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, await request.json()))
        return await self.reply(request)


def told(status: int, body: dict[str, Any]) -> Reply:
    """An answer with that body."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=json.dumps(body), content_type="application/json")

    return reply


def refused(code: int, error: str) -> Reply:
    """An error of gRPC, in the gateway's form."""
    return told(503, {"error": error, "message": error, "code": code})


async def silence(request: web.Request) -> web.StreamResponse:
    """No answer in time."""
    await asyncio.sleep(etcd.OPERATION_S_MAX * 10)
    raise AssertionError("nobody waits so long")


async def hang_up(request: web.Request) -> web.StreamResponse:
    """The connection ends in the place of an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Gateway, str]]:
    """A member and its address; operations are given little time."""
    monkeypatch.setattr(etcd, "OPERATION_S_MAX", 0.5)
    monkeypatch.setattr(etcd, "REQUEST_S_MAX", 0.2)
    gateway = Gateway()
    app = web.Application()
    app.router.add_post("/{path:.*}", gateway.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield gateway, f"{host}:{port}"
    await runner.cleanup()


async def nowhere() -> str:
    """An address at which nobody listens, nor will: a port below those that are given out."""
    return "127.0.0.1:1"


@pytest.mark.parametrize(
    ("reply", "of_change"),
    [
        (told(200, DONE), Answer(revision=7)),
        (refused(8, "etcdserver: too many requests"), NotDoneError),
        (refused(14, "etcdserver: request timed out"), UnknownOutcomeError),
        (refused(14, "etcdserver: leader changed"), UnknownOutcomeError),
        (silence, UnknownOutcomeError),
        (hang_up, UnknownOutcomeError),
    ],
    ids=["done", "too-many", "timed-out", "leader-changed", "silence", "hang-up"],
)
async def test_a_change_is_not_done_only_if_that_is_certain(
    gateway: tuple[Gateway, str], reply: Reply, of_change: Answer | type[Exception]
) -> None:
    """What may have happened is unknown, and only what a member refused is not done; a read is never unknown."""
    member, address = gateway
    member.reply = reply

    assert await outcome(EtcdStore([address]), put) == of_change
    assert await outcome(EtcdStore([address]), get) in (Answer(revision=7), NotDoneError)


async def test_a_change_without_a_connection_is_not_done() -> None:
    """Where nobody listens nothing was sent."""
    assert await outcome(EtcdStore([await nowhere()]), put) is NotDoneError


async def test_who_cannot_be_reached_is_passed_over(gateway: tuple[Gateway, str]) -> None:
    """The next member is asked if the first certainly did nothing."""
    member, address = gateway

    assert await outcome(EtcdStore([await nowhere(), address]), put) == Answer(revision=7)
    assert [path for path, _ in member.asked] == ["/v3/kv/put"]


async def test_a_change_that_may_be_done_is_not_sent_again(gateway: tuple[Gateway, str]) -> None:
    """After a lost answer no member is asked once more."""
    member, address = gateway
    member.reply = hang_up

    assert await outcome(EtcdStore([address, address]), put) is UnknownOutcomeError
    assert len(member.asked) == 1


async def test_stale_reads_are_asked_for_by_etcds_name(gateway: tuple[Gateway, str]) -> None:
    """Only a client of stale reads asks for serializable ones."""
    member, address = gateway
    for stale_reads in (False, True):
        client = EtcdStore([address], stale_reads=stale_reads)
        await client.get("a")
        await client.close()

    assert [body.get("serializable", False) for _, body in member.asked] == [False, True]
