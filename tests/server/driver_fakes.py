"""Fakes of the driver's ports: a scripted core, logs in memory, peers that answer on demand, a noting observer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from replica.core import effects as fx
from replica.core.events import Event, LogDirectoryFailed
from replica.core.lanes import Place, Question, place_of
from replica.core.messages import ListOffsetsResponse, PeerRequest, ProduceRequest, ProduceResponse, Request, Response
from replica.core.reading import read_ranges
from replica.errors import ErrorCode
from replica.ids import CallId, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.records import RecordBatch
from replica.server.leader_addresses import HeardLeaders, LeaderAddresses
from replica.storage import (
    Answer,
    DamagedLogError,
    FailedDirectoryError,
    OutOfDescriptorsError,
    StorageEffect,
    StorageError,
    StorageReport,
)

LOG = TopicPartition("log", 0)
PATIENCE_SECONDS = 10.0

Script = Callable[[Event], tuple[fx.Effect, ...]]


class ScriptedCore:
    """A core that answers each event as its script says, and remembers them all."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.events: list[Event] = []
        self.deadline_ms: int | None = None
        self.watched_peers: frozenset[ReplicaId] = frozenset()
        self._depth = 0

    def step(self, event: Event, now_ms: int) -> tuple[fx.Effect, ...]:
        """Take one event; a step inside a step is a mistake of the driver."""
        assert self._depth == 0, f"{event} came inside another step"
        self._depth += 1
        try:
            self.events.append(event)
            return self.script(event)
        finally:
            self._depth -= 1

    def seen(self, kind: type[Event]) -> list[Event]:
        """Return the events of one kind so far, in order."""
        return [event for event in self.events if isinstance(event, kind)]


class FakeWatch:
    """A watch that notes whom it was to watch, one after the other, and whether it was stopped."""

    def __init__(self) -> None:
        self.watched: list[frozenset[ReplicaId]] = []
        self.is_stopped = False

    def watch(self, replica_ids: frozenset[ReplicaId]) -> None:
        """Note them."""
        self.watched.append(replica_ids)

    async def stop(self) -> None:
        """Note that."""
        self.is_stopped = True


class FakeLog:
    """A log that notes what is done to it in ``journal``, and fails or waits where it is told to."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.failing: str | None = None
        self.damage: DamagedLogError | FailedDirectoryError | OutOfDescriptorsError | None = None
        self.flush_failure: FailedDirectoryError | None = None
        self.memory_is_short = False
        self.on_append: Callable[[], None] = lambda: None
        self.end_offset = Offset(0)
        self.flush_may_end = threading.Event()
        self.flush_may_end.set()
        self.flush_began = threading.Event()
        self.flushes = 0
        self.platter = threading.Lock()
        self.shelf = threading.Lock()
        """Neither a flush nor a snapshot that is stored goes on while the log is cut, as in a real one."""
        self.store_may_end = threading.Event()
        self.store_may_end.set()
        self.store_began = threading.Event()

    def flush(self) -> Offset:
        """Wait until the test lets it end; return the end as it was at the beginning."""
        with self.platter:
            end_offset = self.end_offset
            self.flushes += 1
            self.flush_began.set()
            assert self.flush_may_end.wait(PATIENCE_SECONDS), "the test never let the flush end"
            if self.flush_failure is not None:
                raise self.flush_failure
            if self.memory_is_short:
                raise MemoryError("of 3 bytes")
            if self.failing == "flush":
                raise StorageError("the platter is gone: /data/0.log")
            return end_offset

    def store_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Wait until the test lets it end, and note it."""
        with self.shelf:
            self.store_began.set()
            assert self.store_may_end.wait(PATIENCE_SECONDS), "the test never let the snapshot end"
            self.note(f"snapshot {snapshot_id.end_offset} of {len(data)}")

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Note the batches and move the end."""
        self.on_append()
        self.note(f"append {len(batches)}")
        self.end_offset = batches[-1].end_offset if batches else self.end_offset

    def cut(self, what: str, end_offset: Offset) -> None:
        """Note that the log was cut, or begun anew, and move the end."""
        with self.shelf, self.platter:
            self.note(f"{what} {end_offset}")
            self.end_offset = end_offset

    def read(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes:
        """Note the range and return it as text."""
        self.note(f"read {start_offset}..{end_offset}")
        return f"{start_offset}..{end_offset}".encode()

    def note(self, what: str) -> None:
        """Write down what was done, unless that is what fails."""
        if self.memory_is_short:
            raise MemoryError("of 3 bytes")
        if self.damage is not None:
            raise self.damage
        if self.failing == what.split(maxsplit=1)[0]:
            raise StorageError(f"cannot {what}: /data/0.log")
        self.journal.append(what)


class FakeStorage:
    """Logs in memory; ``report`` is what the core is told of the next effect that reads."""

    def __init__(self) -> None:
        self.logs = {LOG: FakeLog()}
        self.reports: list[StorageReport] = []
        self.slow: tuple[type[fx.Effect], ...] = ()
        """Which effects wait for the disk."""
        self.swift: tuple[type[fx.Effect], ...] = ()
        """With which of them the disk is done at once."""
        self.disk_may_go_on = threading.Event()

    @property
    def stores(self) -> Mapping[TopicPartition, FakeLog]:
        """The logs that there are now."""
        return self.logs

    def place_of(self, effect: fx.Effect, requests: Mapping[CallId, Request]) -> Place:
        """Return the place as the real storage does."""
        return place_of(effect, requests)

    def waits_for_disk(self, effect: fx.Effect) -> bool:
        """Tell whether the test wants the effect to be performed in a thread."""
        return isinstance(effect, self.slow)

    def perform(self, effect: StorageEffect) -> StorageReport | Answer | None:
        """Do to a log what the effect says, or note it."""
        if isinstance(effect, self.slow) and not isinstance(effect, self.swift):
            assert self.disk_may_go_on.wait(PATIENCE_SECONDS), "the test never let the disk go on"
        match effect:
            case fx.StoreQuorumState(topic_partition=name, state=state):
                self.logs[name].note(f"quorum-state {state.leader_epoch}")
            case fx.StoreEpochs(topic_partition=name, entries=entries):
                self.logs[name].note(f"epochs {len(entries)}")
            case fx.Append(topic_partition=name, batches=batches):
                self.logs[name].append(batches)
            case fx.Truncate(topic_partition=name, end_offset=end_offset):
                self.logs[name].cut("truncate", end_offset)
            case fx.StartLogAt(topic_partition=name, start_offset=start_offset):
                self.logs[name].cut("start-at", start_offset)
            case fx.InstallSnapshot(topic_partition=name, snapshot_id=snapshot_id):
                self.logs[name].cut("install", snapshot_id.end_offset)
            case fx.CreateLog(topic_partition=name):
                assert name not in self.logs, name
                self.logs[name] = FakeLog()
            case fx.DeleteLog(topic_partition=name):
                self.logs.pop(name)
            case fx.ReplyWithRecords() | fx.ReplyWithOffset() | fx.ReplyWithSnapshot():
                return self.answer(effect)
            case _:
                return self.reports.pop(0) if self.reports else None
        return None

    def on_failed(self, failure: FailedDirectoryError) -> LogDirectoryFailed:
        """Tell of all logs: they lie in one directory."""
        return LogDirectoryFailed(directory=f"{failure.directory}", logs=tuple(self.logs), reason=f"{failure}")

    def told(self, request: Request | None, response: Response) -> Response:
        """Tell writers of nothing but the failure, as the real storage does."""
        is_write = isinstance(request, ProduceRequest)
        return ProduceResponse(error=ErrorCode.KAFKA_STORAGE_ERROR) if is_write else response

    def answer(self, question: Question) -> Answer:
        """Answer with what the logs hold, as text, or with their errors."""
        match question:
            case fx.ReplyWithRecords():
                damage: list[DamagedLogError] = []
                return Answer(
                    response=question.response.with_records(read_ranges(question, partial(self.read, damage))),
                    damage=tuple(damage),
                )
            case fx.ReplyWithOffset(topic_partition=name, response=response, end_offset=end_offset):
                damaged: list[DamagedLogError] = []
                if self.read(damaged, name, Offset(0), end_offset, 0) is None:
                    return Answer(
                        response=ListOffsetsResponse(error=ErrorCode.KAFKA_STORAGE_ERROR), damage=tuple(damaged)
                    )
                return Answer(response=replace(response, offset=end_offset))
            case fx.ReplyWithSnapshot():
                data = f"{question.position}, at most {question.max_bytes}".encode()
                return Answer(response=question.response.with_data(data))

    def read(
        self, damage: list[DamagedLogError], log: TopicPartition, start: Offset, end: Offset, max_bytes: int
    ) -> bytes | None:
        """Read a log as the real storage does: of one that is damaged, or cannot be opened now, nothing."""
        try:
            return self.logs[log].read(start, end, max_bytes)
        except DamagedLogError as error:
            damage.append(error)
        except OutOfDescriptorsError:
            pass
        return None


class FakeTransport:
    """Peers that answer when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[ReplicaId, PeerRequest]] = []
        self.answers: list[asyncio.Future[Response]] = []

    async def call(self, replica_id: ReplicaId, request: PeerRequest, timeout_ms: int) -> Response:
        """Wait for the answer that the test sets."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.calls.append((replica_id, request))
        self.answers.append(answer)
        return await answer


def knowing_nobody() -> LeaderAddresses:
    """Leaders' addresses of a replica that knows none, and has no quorum log."""
    return LeaderAddresses(told={}, heard=HeardLeaders(cluster_id="", logs=()))


class NotingObserver:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.steps: list[Event] = []
        self.flushed: list[Offset] = []
        self.unreachable: list[ReplicaId] = []
        self.halted: list[str] = []

    def on_step(self, event: Event, effects: tuple[fx.Effect, ...], now_ms: int) -> None:
        """Note the step."""
        self.steps.append(event)

    def on_flushed(self, topic_partition: TopicPartition, end_offset: Offset, seconds: float) -> None:
        """Note the flush."""
        self.flushed.append(end_offset)

    def on_peer_unreachable(self, replica_id: ReplicaId, request: PeerRequest, reason: str) -> None:
        """Note the peer."""
        self.unreachable.append(replica_id)

    def on_halted(self, reason: str, error: Exception | None) -> None:
        """Note the reason."""
        self.halted.append(reason)


async def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Let the loop turn until ``condition`` holds; fail with ``what`` when patience ends."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while not condition():
        assert loop.time() < deadline, f"{what} did not happen within {PATIENCE_SECONDS} s"
        await asyncio.sleep(0.001)
