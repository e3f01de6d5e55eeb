"""One follower on a bench with a disk of plain lists, and a leader of plain lists that answers it.

Owns the conversation between the two: what the follower asks is answered by the leader's log as Kafka's leader does,
from its epoch cache, without any of the product's leader code. Checks after every call that disk and replica agree, and
that start, high watermark and end of the log are in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.log.recovered import RecoveredLog
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition import following, producer_state
from replica.core.partition.roles import Follower
from replica.core.partition.state import PartitionState
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import (
    Epoch,
    EpochEndOffset,
    EpochEntry,
    Offset,
    PartitionEpoch,
    ReplicaId,
    TopicId,
    TopicPartition,
)
from replica.records import RecordBatch
from tests.core.disk import Disk
from tests.core.harness import batches_of, epochs_of
from tests.core.ruled import rules_now

LOG = TopicPartition("topic", 0)
TOPIC_ID = TopicId(7)
CONFIG = BrokerConfig()
BACKOFF_MS = CONFIG.replica_fetch_backoff_ms
LEADER = ReplicaId(1)
OWN_ID = ReplicaId(2)

Answer = m.FetchedPartition | m.ListOffsetsResponse

A = TypeVar("A", bound=following.Asked)


class FollowerBench:
    """Broker 2's replica, which follows broker 1 in epoch 5 unless something else is said."""

    def __init__(
        self,
        *,
        log: Sequence[tuple[int, int]] = (),
        batches: Sequence[RecordBatch] | None = None,
        log_start: int = 0,
        epochs: Mapping[int, int] | None = None,
        high_watermark: int = 0,
        leader_epoch: int = 5,
        config: BrokerConfig = CONFIG,
        rules: Rules | None = None,
    ) -> None:
        found = batches_of(*log, start=log_start) if batches is None else list(batches)
        self.disk = Disk(batches=found, start=Offset(log_start))
        self.disk.epochs = epochs_of(found) if epochs is None else entries_of(epochs)
        self.looking_for: list[Offset] = []
        self.effects: list[fx.Effect] = []
        self.now_ms = 1_000
        self.state = PartitionState(
            topic_partition=LOG,
            topic_id=TOPIC_ID,
            replica_id=OWN_ID,
            cluster_id="cluster",
            config=config,
            recovered=RecoveredLog(
                log_start_offset=Offset(log_start),
                log_end_offset=self.disk.end,
                epochs=self.disk.epochs,
                topic_id=TOPIC_ID,
                high_watermark=Offset(high_watermark),
                producers=producer_state.scan(found),
            ),
            rules=rules or rules_now(),
            emit=self._perform,
        )
        self.follow(1, leader_epoch)

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def batches(self) -> list[RecordBatch]:
        """What is on the disk."""
        return self.disk.batches

    @property
    def end(self) -> int:
        """The replica's log end offset."""
        return self.state.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The replica's high watermark."""
        return self.state.high_watermark

    @property
    def ends(self) -> tuple[int, int, int]:
        """Log start, high watermark and log end."""
        return self.state.log.log_start_offset, self.high_watermark, self.end

    @property
    def epochs(self) -> dict[int, int]:
        """The epoch cache, as ``{epoch: start_offset}``."""
        return {entry.epoch: entry.start_offset for entry in self.state.log.epochs.entries}

    @property
    def role(self) -> Follower:
        """The follower's role."""
        assert isinstance(self.state.role, Follower), self.state.role
        return self.state.role

    # --- calls ------------------------------------------------------------------------------------------------------

    def follow(self, leader_id: int | None, epoch: int) -> None:
        """Let the controller name the leader of a new epoch."""
        leader = None if leader_id is None else ReplicaId(leader_id)
        self.state.registration = PartitionRegistration(
            replicas=(ReplicaId(1), ReplicaId(2), ReplicaId(3)),
            isr=(ReplicaId(1), ReplicaId(2)),
            leader_id=leader,
            leader_epoch=Epoch(epoch),
            partition_epoch=PartitionEpoch(epoch),
        )
        self.effects = []
        following.begin_following(self.state, leader)
        self.check()

    def ask(self) -> following.Asked | None:
        """Return what the follower wants of its leader now."""
        self.effects = []
        asked = following.next_request(self.state, self.now_ms)
        self.check()
        return asked

    def asks(self, kind: type[A]) -> A:
        """Return what the follower wants of its leader now, which is of this kind."""
        asked = self.ask()
        assert isinstance(asked, kind), asked
        return asked

    def fetches(self) -> m.FetchPartition:
        """Return the follower's fetch, which it must want."""
        return self.asks(m.FetchPartition)

    def take(self, asked: following.Asked, answer: Answer, *, flush: bool = True) -> None:
        """Hand the follower its leader's answer, and flush what it appended."""
        self.effects = []
        match asked, answer:
            case m.FetchPartition(), m.FetchedPartition():
                following.on_fetched(self.state, asked, answer, self.now_ms)
            case m.ListOffsetsRequest(), m.ListOffsetsResponse():
                following.on_leader_offset(self.state, asked, answer, self.now_ms)
            case _:
                raise AssertionError(f"{answer} is no answer to {asked}")
        self.check()
        self.find_batches()
        if flush:
            self.flush_all()

    def find_batches(self) -> None:
        """Tell where the batches begin that were looked for."""
        looking_for, self.looking_for = self.looking_for, []
        for offset in looking_for:
            (base_offset,) = (each.base_offset for each in self.batches if each.base_offset <= offset < each.end_offset)
            following.on_batch_found(self.state, offset, base_offset)
            self.check()

    def flush_all(self) -> None:
        """Finish every flush that was asked for."""
        while self.disk.owed:
            self.state.log.flushed(self.disk.flush())

    def check(self) -> None:
        """Compare the replica with its disk."""
        log = self.state.log
        assert log.log_end_offset == self.disk.end, (log.log_end_offset, self.disk.end)
        assert log.log_start_offset == self.disk.start, (log.log_start_offset, self.disk.start)
        assert log.epochs.entries == self.disk.epochs, (log.epochs.entries, self.disk.epochs)
        assert log.log_start_offset <= self.high_watermark <= log.log_end_offset, self.ends

    def _perform(self, effect: fx.Effect) -> None:
        self.effects.append(effect)
        match effect:
            case fx.StoreEpochs(entries=entries):
                self.disk.epochs = entries
            case fx.Append(batches=batches):
                self.disk.append(batches)
            case fx.Flush(end_offset=end_offset):
                self.disk.owed.append(end_offset)
            case fx.Truncate(end_offset=end_offset):
                self.disk.cut(end_offset)
            case fx.StartLogAt(start_offset=start_offset):
                self.disk.begin_anew(start_offset)
            case fx.RaiseLogStart(log_start_offset=log_start_offset):
                self.disk.begin_at(log_start_offset)
            case fx.ScanProducers():
                pass
            case fx.FindBatch(offset=offset):
                self.looking_for.append(offset)
            case _:
                raise AssertionError(f"a follower does not ask for {effect}")


@dataclass
class LeaderLog:
    """The log of a leader, which answers what a follower asks. Its cache knows the epoch that it leads in.

    (As every leader's: it assigns its epoch when it begins to lead, KAFKA-7415.)
    """

    batches: list[RecordBatch]
    leader_epoch: int = 5
    log_start: int = 0
    high_watermark: int = 0
    cache: LeaderEpochCache = field(default_factory=LeaderEpochCache)

    @property
    def end(self) -> int:
        """Where the log ends."""
        return self.batches[-1].end_offset if self.batches else self.log_start

    def answer(self, asked: following.Asked) -> Answer:
        """Answer as Kafka's leader does: first fencing, then the log's start, then divergence, then records."""
        error = ErrorCode.NONE
        if asked.current_leader_epoch != self.leader_epoch:
            stale = (asked.current_leader_epoch or 0) < self.leader_epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
        match asked:
            case m.FetchPartition():
                return self._fetched(asked) if error is ErrorCode.NONE else refused(error)
            case m.ListOffsetsRequest():
                assert asked.replica_id == OWN_ID, asked
                offset = Offset(self.end if asked.latest else self.log_start)
                return m.ListOffsetsResponse(error=error, offset=offset if error is ErrorCode.NONE else None)

    def _fetched(self, asked: m.FetchPartition) -> m.FetchedPartition:
        answer = m.FetchedPartition(
            topic_partition=LOG,
            error=ErrorCode.NONE,
            high_watermark=Offset(self.high_watermark),
            log_start_offset=Offset(self.log_start),
        )
        last = asked.last_fetched_epoch
        epoch_end = None if last is None else self.cache.end_offset_for(last, Offset(self.end))
        if asked.fetch_offset < self.log_start or (last is not None and epoch_end is None):
            return refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch_end is not None and (epoch_end.epoch != last or epoch_end.end_offset < asked.fetch_offset):
            return replace(answer, diverging_epoch=epoch_end)
        if asked.fetch_offset > self.end:
            return refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        return replace(answer, records=data_of(each for each in self.batches if each.end_offset > asked.fetch_offset))


class Answering(Protocol):
    """Anything that answers what a follower asks."""

    def answer(self, asked: following.Asked) -> Answer:
        """Answer one request."""


def leader_log(
    *epochs_and_counts: tuple[int, int], leader_epoch: int = 5, start: int = 0, high_watermark: int | None = None
) -> LeaderLog:
    """Build a leader with batches of one record each; all of them are committed unless something else is said."""
    log = LeaderLog(batches_of(*epochs_and_counts, start=start), leader_epoch=leader_epoch, log_start=start)
    log.high_watermark = log.end if high_watermark is None else high_watermark
    log.cache = LeaderEpochCache(epochs_of(log.batches))
    log.cache.assign(Epoch(leader_epoch), Offset(log.end))
    return log


def converse(bench: FollowerBench, leader: Answering, *, rounds: int = 30) -> list[tuple[following.Asked, Answer]]:
    """Let the two talk until a fetch brings nothing more; return what was asked and answered."""
    talk: list[tuple[following.Asked, Answer]] = []
    for _ in range(rounds):
        asked = bench.ask()
        if asked is None:
            retry_at_ms = following.fetch_deadline_ms(bench.state)
            assert retry_at_ms is not None, bench.role
            bench.now_ms = retry_at_ms
            continue
        answer = leader.answer(asked)
        talk.append((asked, answer))
        bench.take(asked, answer)
        if isinstance(answer, m.FetchedPartition) and _brings_nothing(answer):
            return talk
    raise AssertionError(f"no end after {rounds} rounds: {bench.ends}, {talk[-3:]}")


def _brings_nothing(answer: m.FetchedPartition) -> bool:
    return (answer.error, answer.diverging_epoch, answer.records) == (ErrorCode.NONE, None, b"")


# --- words ----------------------------------------------------------------------------------------------------------


def entries_of(epochs: Mapping[int, int]) -> tuple[EpochEntry, ...]:
    """Write an epoch cache."""
    return tuple(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in epochs.items())


def data_of(batches: Iterable[RecordBatch]) -> bytes:
    """Lay batches out as a Fetch carries them."""
    return b"".join(batch.data for batch in batches)


def end_of(epoch: int, end_offset: int) -> EpochEndOffset:
    """Say where an epoch ends."""
    return EpochEndOffset(Epoch(epoch), Offset(end_offset))


def fetched(
    batches: Iterable[RecordBatch] = (), *, high_watermark: int | None = None, log_start: int | None = None
) -> m.FetchedPartition:
    """Answer a fetch with records."""
    return m.FetchedPartition(
        topic_partition=LOG,
        error=ErrorCode.NONE,
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        log_start_offset=None if log_start is None else Offset(log_start),
        records=data_of(batches),
    )


def diverging(epoch: int, end_offset: int, *, high_watermark: int = 0) -> m.FetchedPartition:
    """Answer a fetch with where the logs part."""
    return replace(fetched(high_watermark=high_watermark), diverging_epoch=end_of(epoch, end_offset))


def refused(error: ErrorCode) -> m.FetchedPartition:
    """Refuse a fetch."""
    return m.FetchedPartition(topic_partition=LOG, error=error)


def offset(value: int | None, *, error: ErrorCode = ErrorCode.NONE) -> m.ListOffsetsResponse:
    """Answer ListOffsets."""
    return m.ListOffsetsResponse(error=error, offset=None if value is None else Offset(value))
