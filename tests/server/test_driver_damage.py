"""The driver and a log that turns out to be damaged: that log is left alone, the core is told, and all else goes on."""

from __future__ import annotations

from replica.core.effects import Append, CreateLog, Effect, LogRange, Reply, ReplyWithOffset, ReplyWithRecords
from replica.core.events import Event, LogDamaged, RequestReceived, Started, Ticked
from replica.core.messages import FetchedPartition, FetchRequest, FetchResponse, ListOffsetsResponse
from replica.errors import ErrorCode
from replica.ids import Offset, TopicId, TopicPartition
from replica.storage import DamagedLogError, OutOfDescriptorsError
from tests.server.driver_fakes import LOG
from tests.server.driver_rig import ASK, batch, on, running

OTHER = TopicPartition("t", 3)
DAMAGE = DamagedLogError(LOG, "/data/0.log at byte 7 holds a corrupt batch", offset=Offset(5))
TOLD = LogDamaged(topic_partition=LOG, offset=Offset(5), reason="/data/0.log at byte 7 holds a corrupt batch")
CREATE = on(Started, lambda _: (CreateLog(topic_partition=OTHER, topic_id=TopicId(9)),))


def wanted(log: TopicPartition) -> LogRange:
    return LogRange(topic_partition=log, start_offset=Offset(0), end_offset=Offset(5), max_bytes=100)


def fetching(event: Event) -> tuple[Effect, ...]:
    """Answer each request with the records of two logs."""
    if not isinstance(event, RequestReceived):
        return ()
    parts = tuple(FetchedPartition(topic_partition=name, error=ErrorCode.NONE) for name in (LOG, OTHER))
    return (
        ReplyWithRecords(
            call_id=event.call_id,
            response=FetchResponse(partitions=parts),
            ranges=(wanted(LOG), wanted(OTHER)),
            max_bytes=100,
        ),
    )


async def test_a_fetch_is_answered_log_by_log() -> None:
    """The damaged log has failed, the other has records; the core hears of it next, and nobody halts."""
    async with running(CREATE) as rig:
        rig.core.script = fetching
        rig.log.damage = DAMAGE
        answer = await rig.driver.call(FetchRequest(partitions=()))
        assert isinstance(answer, FetchResponse)
        assert [(part.error, part.records) for part in answer.partitions] == [
            (ErrorCode.KAFKA_STORAGE_ERROR, b""),
            (ErrorCode.NONE, b"0..5"),
        ]
        assert rig.core.events[-1] == TOLD
        assert not rig.driver.halted.is_set()


def searching(event: Event) -> tuple[Effect, ...]:
    """Answer each request with the first offset since a time."""
    if not isinstance(event, RequestReceived):
        return ()
    response = ListOffsetsResponse(error=ErrorCode.NONE)
    return (
        ReplyWithOffset(
            call_id=event.call_id, response=response, topic_partition=LOG, timestamp_ms=5, end_offset=Offset(8)
        ),
    )


async def test_a_search_that_comes_upon_damage_is_answered() -> None:
    """So is a question for the first offset since a time."""
    async with running(searching) as rig:
        rig.log.damage = DAMAGE
        assert await rig.driver.call(ASK) == ListOffsetsResponse(error=ErrorCode.KAFKA_STORAGE_ERROR)
        assert rig.core.events[-1] == TOLD


async def test_a_read_without_a_descriptor_fails_alone() -> None:
    """A fetch and a search are told so; nothing is taken for damaged, nobody halts, and the next read is served."""
    async with running(CREATE) as rig:
        rig.core.script = fetching
        rig.log.damage = OutOfDescriptorsError("Too many open files")
        errors = [(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE), (ErrorCode.NONE, ErrorCode.NONE)]
        for expected in errors:
            answer = await rig.driver.call(FetchRequest(partitions=()))
            assert isinstance(answer, FetchResponse)
            assert tuple(part.error for part in answer.partitions) == expected
            rig.log.damage = None
        rig.core.script = searching
        rig.log.damage = OutOfDescriptorsError("Too many open files")
        assert await rig.driver.call(ASK) == ListOffsetsResponse(error=ErrorCode.KAFKA_STORAGE_ERROR)
        assert not rig.core.seen(LogDamaged)
        assert not rig.driver.halted.is_set()


async def test_all_else_of_the_step_is_done() -> None:
    """What is to be done with the damaged log is left out; what follows, of other logs and calls, is done."""

    def script(event: Event) -> tuple[Effect, ...]:
        match event:
            case Started():
                return CREATE(event)
            case RequestReceived(call_id=call_id):
                appends = (Append(topic_partition=name, batches=(batch(0),)) for name in (LOG, OTHER))
                return (*appends, Reply(call_id=call_id, response=ListOffsetsResponse(error=ErrorCode.NONE)))
            case _:
                return ()

    async with running(script) as rig:
        rig.log.damage = DAMAGE
        assert await rig.driver.call(ASK) == ListOffsetsResponse(error=ErrorCode.NONE)
        assert (rig.log.journal, rig.storage.logs[OTHER].journal) == ([], ["append 1"])
        assert rig.core.events[-1] == TOLD
        rig.driver.submit(Ticked())
        assert rig.core.seen(Ticked)
