"""The driver and a log directory of which the disk refuses: the core is told of it first, and all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.core.effects import Append, CreateLog, Effect, Reply
from replica.core.events import Event, LogDirectoryFailed, RequestReceived, Started, StorageFailed, Ticked
from replica.core.messages import ProduceRequest, ProduceResponse
from replica.errors import ErrorCode
from replica.ids import TopicId, TopicPartition
from replica.storage import FailedDirectoryError
from tests.server.driver_fakes import LOG, wait_until
from tests.server.driver_rig import batch, flush, running

OTHER = TopicPartition("t", 3)
FAILURE = FailedDirectoryError(Path("/disk1"), "cannot append to log /disk1/log-0: no space")
WRITE = ProduceRequest(topic_partition=LOG, acks=1, timeout_ms=1000, records=batch(0).data)


def writing(event: Event) -> tuple[Effect, ...]:
    """Append to two logs, ask for a flush of each, and answer."""
    match event:
        case Started():
            return (CreateLog(topic_partition=OTHER, topic_id=TopicId(9)),)
        case RequestReceived(call_id=call_id):
            appends = (Append(topic_partition=name, batches=(batch(0),)) for name in (LOG, OTHER))
            answer = Reply(call_id=call_id, response=ProduceResponse(error=ErrorCode.NONE))
            return (*appends, flush(1), flush(1, OTHER), answer)
        case _:
            return ()


@pytest.mark.parametrize("slow", [(), (Append,)], ids=["on_the_loop", "in_a_thread"])
async def test_a_failed_append_takes_its_directory_only(slow: tuple[type[Effect], ...]) -> None:
    """The other log is written and flushed, the writer is not told that it is done, and nobody halts."""
    async with running(writing) as rig:
        rig.storage.slow = slow
        rig.storage.disk_may_go_on.set()
        rig.log.damage = FAILURE
        answer = await rig.driver.call(WRITE)
        assert answer == ProduceResponse(error=ErrorCode.KAFKA_STORAGE_ERROR)
        await wait_until(lambda: rig.storage.logs[OTHER].journal == ["append 1"], "the append to the other log")
        told = rig.core.seen(LogDirectoryFailed)
        assert told[0] == LogDirectoryFailed(directory="/disk1", logs=(LOG, OTHER), reason=str(FAILURE))
        await wait_until(lambda: rig.storage.logs[OTHER].flushes == 1, "the flush of the other log")
        rig.driver.submit(Ticked())
        assert rig.core.seen(Ticked)
        assert not rig.core.seen(StorageFailed)


async def test_a_failed_flush_takes_its_directory_only() -> None:
    """What is asked of it next is asked in vain, of others it is done."""
    async with running(writing) as rig:
        rig.log.flush_failure = FAILURE
        assert await rig.driver.call(WRITE) == ProduceResponse(error=ErrorCode.NONE)
        await wait_until(lambda: bool(rig.core.seen(LogDirectoryFailed)), "the failure")
        await wait_until(lambda: rig.storage.logs[OTHER].flushes == 1, "the flush of the other log")
        assert await rig.driver.call(WRITE) == ProduceResponse(error=ErrorCode.KAFKA_STORAGE_ERROR)
        assert not rig.core.seen(StorageFailed)
        assert not rig.driver.halted.is_set()
