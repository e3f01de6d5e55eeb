"""The driver and snapshots: stored beside everything else, installed in order, and read for a reply."""

from __future__ import annotations

import threading
import weakref

import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import capture_logs

from replica.core.effects import Append, Effect, InstallSnapshot, ReplyWithSnapshot, StoreSnapshot
from replica.core.events import Event, Flushed, RequestReceived, SnapshotStored, SnapshotTooLarge, StorageFailed, Ticked
from replica.core.messages import FetchSnapshotResponse
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, SnapshotId
from replica.machines import EncodedState
from replica.server.snapshot_lines import SnapshotLines
from tests.server.driver_fakes import LOG, wait_until
from tests.server.driver_rig import ASK, Rig, batch, flush, running
from tests.server.observer_fakes import FakeView

TAKEN = SnapshotId(Offset(5), Epoch(2))
LOADED = SnapshotId(Offset(40), Epoch(3))
STORE = StoreSnapshot(topic_partition=LOG, snapshot_id=TAKEN, state=EncodedState(b"state"), max_bytes=5)
TOO_LARGE = SnapshotTooLarge(topic_partition=LOG, snapshot_id=TAKEN, size_bytes=5)
STORED = SnapshotStored(topic_partition=LOG, snapshot_id=TAKEN, size_bytes=5)
INSTALL = InstallSnapshot(topic_partition=LOG, snapshot_id=LOADED, data=b"their state")


def step(rig: Rig, *effects: Effect) -> None:
    """Let the core ask for these effects, and for none afterwards."""
    rig.core.script = lambda event: effects if isinstance(event, Ticked) else ()
    rig.driver.submit(Ticked())
    rig.core.script = lambda _: ()


async def begin_store(rig: Rig) -> None:
    """Have a snapshot stored that does not end before it may."""
    rig.log.store_may_end.clear()
    step(rig, STORE)
    await wait_until(rig.log.store_began.is_set, "the snapshot")


async def test_a_snapshot_is_stored_beside_flushes_and_appends() -> None:
    """While a snapshot is written the log goes on and is flushed; the report comes when the snapshot is durable."""
    async with running(lambda _: ()) as rig:
        await begin_store(rig)
        step(rig, Append(topic_partition=LOG, batches=(batch(0),)), flush(1))
        await wait_until(lambda: bool(rig.core.seen(Flushed)), "the flush")
        assert rig.core.seen(SnapshotStored) == []
        rig.log.store_may_end.set()
        await wait_until(lambda: bool(rig.core.seen(SnapshotStored)), "the snapshot's report")
        assert rig.core.seen(SnapshotStored) == [STORED]
        assert rig.log.journal == ["append 1", "snapshot 5 of 5"]


class Encoding:
    """A state that remembers in which threads it was encoded, and fails if it shall."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.threads: list[threading.Thread] = []
        self._failure = failure

    def encode(self) -> bytes:
        """Some bytes."""
        self.threads.append(threading.current_thread())
        if self._failure is not None:
            raise self._failure
        return b"state"


async def test_a_state_is_encoded_in_another_thread() -> None:
    """Once, and not on the event loop, which runs in this one."""
    state = Encoding()
    async with running(lambda _: ()) as rig:
        step(rig, replace(STORE, state=state))
        await wait_until(lambda: bool(rig.core.seen(SnapshotStored)), "the report")
        (thread,) = state.threads
        assert thread is not threading.current_thread()


async def test_a_state_that_is_too_large_is_not_stored() -> None:
    """The core hears how large it would be; nothing is written, and the next may be tried."""
    async with running(lambda _: ()) as rig:
        step(rig, replace(STORE, max_bytes=4))
        await wait_until(lambda: bool(rig.core.seen(SnapshotTooLarge)), "the report")
        assert rig.core.seen(SnapshotTooLarge) == [TOO_LARGE]
        assert rig.log.journal == []
        step(rig, STORE)
        await wait_until(lambda: bool(rig.core.seen(SnapshotStored)), "the report")


async def test_a_state_that_cannot_be_encoded_fails_the_storage() -> None:
    """A mistake of a machine in another thread halts its replica, as in a step."""
    async with running(lambda _: ()) as rig:
        step(rig, replace(STORE, state=Encoding(ValueError("no ink"))))
        await wait_until(lambda: bool(rig.core.seen(StorageFailed)), "the failure")
        reason = "cannot store a snapshot of log-0: ValueError: no ink"
        assert rig.core.seen(StorageFailed) == [StorageFailed(reason=reason)]


async def test_a_view_is_given_back_in_the_thread() -> None:
    """The loop keeps nothing of it: to let go of millions of references would hold it up."""
    freed_by: list[threading.Thread] = []
    effects = [replace(STORE, state=Encoding())]
    weakref.finalize(effects[0].state, lambda: freed_by.append(threading.current_thread()))
    async with running(lambda event: (effects.pop(),) if isinstance(event, Ticked) and effects else ()) as rig:
        rig.log.store_may_end.clear()
        rig.driver.submit(Ticked())
        await wait_until(rig.log.store_began.is_set, "the snapshot")
        rig.driver.submit(Ticked())
        rig.log.store_may_end.set()
        await wait_until(lambda: bool(rig.core.seen(SnapshotStored)), "the report")
        await wait_until(lambda: bool(freed_by), "the end of the view")
    assert freed_by != [threading.current_thread()]


async def test_a_snapshot_that_cannot_be_stored_fails_the_storage() -> None:
    """The core hears of it as of any other failure, and not that the snapshot is stored."""
    async with running(lambda _: ()) as rig:
        rig.log.failing = "snapshot"
        step(rig, STORE)
        await wait_until(lambda: bool(rig.core.seen(StorageFailed)), "the failure")
        assert rig.core.seen(StorageFailed) == [StorageFailed(reason="cannot snapshot 5 of 5: /data/0.log")]
        assert rig.core.seen(SnapshotStored) == []


@pytest.mark.parametrize(
    ("effect", "what"), [(STORE, "store a snapshot of"), (flush(1), "flush")], ids=["a snapshot", "a flush"]
)
async def test_a_failure_that_nobody_foresaw_fails_the_storage(effect: Effect, what: str) -> None:
    """What is raised in another thread is heard of, whatever it is: the core would wait for ever."""
    async with running(lambda _: ()) as rig:
        rig.log.memory_is_short = True
        step(rig, effect)
        await wait_until(lambda: bool(rig.core.seen(StorageFailed)), "the failure")
        assert rig.core.seen(StorageFailed) == [StorageFailed(reason=f"cannot {what} log-0: MemoryError: of 3 bytes")]


async def test_an_installation_waits_for_the_snapshot_on_its_way_and_silences_it() -> None:
    """Two snapshots of a log are never written at once, and of one that is overtaken the core hears nothing."""
    async with running(lambda _: ()) as rig:
        await begin_store(rig)
        ending = threading.Timer(0.05, rig.log.store_may_end.set)
        ending.start()
        step(rig, INSTALL)
        ending.join()
        assert rig.log.journal == ["snapshot 5 of 5", "install 40"]
        step(rig, flush(40))
        await wait_until(lambda: bool(rig.core.seen(Flushed)), "a report that comes after")
        assert rig.core.seen(SnapshotStored) == []


async def test_a_snapshot_in_line_is_dropped_by_an_installation() -> None:
    """One that has not begun is not written at all; the next one of that log is reported as ever."""
    async with running(lambda _: ()) as rig:
        step(rig, STORE, INSTALL, replace(STORE, snapshot_id=LOADED))
        await wait_until(lambda: bool(rig.core.seen(SnapshotStored)), "the report")
        assert rig.core.seen(SnapshotStored) == [replace(STORED, snapshot_id=LOADED)]


async def test_an_installation_waits_for_the_flush_in_flight() -> None:
    """A flush that began before says nothing of the log that begins anew."""
    async with running(lambda _: ()) as rig:
        rig.log.end_offset = Offset(50)
        rig.log.flush_may_end.clear()
        step(rig, flush(50))
        await wait_until(rig.log.flush_began.is_set, "the flush")
        rig.log.flush_may_end.set()
        step(rig, INSTALL, flush(40))
        await wait_until(lambda: bool(rig.core.seen(Flushed)), "the flush's report")
        assert rig.core.seen(Flushed) == [Flushed(topic_partition=LOG, end_offset=Offset(40))]
        assert rig.log.flushes == 2


async def test_a_second_snapshot_on_its_way_is_a_mistake_of_the_core() -> None:
    """At most one of a log: the replica halts rather than mix up their reports."""
    async with running(lambda _: ()) as rig:
        await begin_store(rig)
        step(rig, STORE)
        assert "a snapshot of log-0 is on its way already" in rig.observer.halted[0]


async def test_a_stop_waits_for_the_snapshot_and_says_nothing_of_it() -> None:
    """No file is written behind the back of a log that is closed next."""
    async with running(lambda _: ()) as rig:
        await begin_store(rig)
        ending = threading.Timer(0.05, rig.log.store_may_end.set)
        ending.start()
        await rig.driver.stop()
        assert not rig.log.shelf.locked()
        ending.join()
        assert rig.core.seen(SnapshotStored) == []


async def test_a_reply_with_a_snapshot_is_read_as_it_is_made() -> None:
    """ReplyWithSnapshot is answered with what storage reads."""
    response = FetchSnapshotResponse(error=ErrorCode.NONE, snapshot_id=TAKEN, size_bytes=99, position=7)

    def script(event: Event) -> tuple[Effect, ...]:
        if not isinstance(event, RequestReceived):
            return ()
        return (
            ReplyWithSnapshot(
                call_id=event.call_id,
                response=response,
                topic_partition=LOG,
                snapshot_id=TAKEN,
                position=7,
                max_bytes=20,
            ),
        )

    async with running(script) as rig:
        assert await rig.driver.call(ASK) == response.with_data(b"7, at most 20")


@pytest.mark.parametrize("installed", [False, True])
def test_a_line_for_each_snapshot(installed: bool) -> None:
    """One line when a snapshot is durable, one when the leader's takes the log's place; none when one is begun."""
    lines = SnapshotLines(logger=structlog.get_logger())
    with capture_logs() as captured:
        lines.on_step(Ticked(), (STORE,), {})
        assert captured == []
        lines.on_step(Ticked() if installed else STORED, (INSTALL,) if installed else (), {})
    name, (end_offset, epoch, size) = (
        ("snapshot_installed", (40, 3, 11)) if installed else ("snapshot_stored", (5, 2, 5))
    )
    expected = {"log": "log-0", "end_offset": end_offset, "epoch": epoch, "size_bytes": size, "log_level": "info"}
    assert captured == [{"event": name, **expected}]


def test_a_warning_for_a_snapshot_that_is_too_large() -> None:
    """The log grows meanwhile: whoever looks after it must know."""
    lines = SnapshotLines(logger=structlog.get_logger())
    with capture_logs() as captured:
        lines.on_step(TOO_LARGE, (), {})
    expected = {"log": "log-0", "end_offset": 5, "epoch": 2, "size_bytes": 5, "log_level": "warning"}
    assert captured == [{"event": "snapshot_too_large", **expected}]


def test_a_warning_for_each_snapshot_that_is_rejected() -> None:
    """Whoever cannot load what its leader has says so each time, and nothing when it follows anew."""
    lines = SnapshotLines(logger=structlog.get_logger())
    with capture_logs() as captured:
        for rejected in (0, 1, 1, 2, 0, 1):
            lines.on_step(Ticked(), (), {LOG: FakeView(snapshots_rejected=rejected)})
    assert [line.pop("times") for line in captured] == [1, 2, 1]
    assert captured == 3 * [{"event": "snapshot_rejected", "log": "log-0", "leader_id": 2, "log_level": "warning"}]
