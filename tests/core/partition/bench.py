"""One replica of a partition on a bench: calls in, effects out, with a disk of plain lists under it.

Owns the performing of effects (what is appended, stored and flushed, who was answered), and the words that scenarios
are written in. Broker 1 is the one under test; the brokers' epochs are ten times their ids. Checks by itself that no
call is answered twice, that the log begins and ends where the replica says, and that its epochs are the stored ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.core.log.recovered import ProducerEntry, RecoveredLog
from replica.core.log.serving import Read
from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.core.partition import Partition
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import (
    BrokerEpoch,
    CallId,
    Epoch,
    EpochEntry,
    Offset,
    PartitionEpoch,
    ReplicaId,
    TopicId,
    TopicPartition,
)
from replica.records import encode_batch
from tests.core.disk import Disk
from tests.core.harness import batches_of, epochs_of
from tests.core.ruled import rules_now

LOG = TopicPartition("topic", 0)
TOPIC_ID = TopicId(7)
CLUSTER = "cluster"
BROKER = ReplicaId(1)
CONFIG = BrokerConfig()
TOPIC = TopicConfig()

E = TypeVar("E")
R = TypeVar("R", bound=m.Response)


def ids(*replica_ids: int) -> tuple[ReplicaId, ...]:
    """Name replicas."""
    return tuple(ReplicaId(replica_id) for replica_id in replica_ids)


def broker(
    broker_id: int, *, epoch: int | None = None, fenced: bool = False, leaving: bool = False
) -> BrokerRegistration:
    """Register a broker, active unless something else is said."""
    return BrokerRegistration(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(10 * broker_id if epoch is None else epoch),
        incarnation_id=f"broker-{broker_id}-{epoch}",
        directory_id=f"disk-{broker_id}",
        flushes=True,
        address=f"broker-{broker_id}:9092",
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=leaving,
    )


def brokers(*others: BrokerRegistration) -> Mapping[ReplicaId, BrokerRegistration]:
    """Register brokers 1 to 4, with these in the places of their namesakes."""
    return {each.broker_id: each for each in (*(broker(number) for number in (1, 2, 3, 4)), *others)}


def registration(
    leader_id: int | None,
    epoch: int,
    *,
    partition_epoch: int | None = None,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED,
) -> PartitionRegistration:
    """Say who leads which epoch; everybody is in sync unless something else is said.

    A partition epoch that is not given is a hundred times the leader epoch, so that a new leader brings a newer one.
    """
    return PartitionRegistration(
        replicas=ids(*replicas),
        isr=ids(*(replicas if isr is None else isr)),
        leader_id=None if leader_id is None else ReplicaId(leader_id),
        leader_epoch=Epoch(epoch),
        partition_epoch=PartitionEpoch(100 * epoch if partition_epoch is None else partition_epoch),
        leader_recovery_state=recovery,
    )


class PartitionBench:
    """Broker 1's replica of a partition. ``now_ms`` is moved by ``elapse`` only.

    Every call of the partition goes through ``do`` or one of the words below; what it emitted is performed at once and
    stays in ``effects`` until the next one.
    """

    def __init__(
        self,
        *,
        log: Sequence[tuple[int, int]] = (),
        log_start: int = 0,
        epochs: tuple[EpochEntry, ...] | None = None,
        high_watermark: int | None = None,
        producers: tuple[ProducerEntry, ...] = (),
        config: BrokerConfig = CONFIG,
        rules: Rules | None = None,
        now_ms: int = 1_000_000,
    ) -> None:
        batches = batches_of(*log, start=log_start)
        self.disk = Disk(batches=batches, start=Offset(log_start))
        self.disk.epochs = epochs_of(batches) if epochs is None else epochs
        self.disk.flushed_end = self.disk.end
        self.config = config
        self.now_ms = now_ms
        self.effects: list[fx.Effect] = []
        self.replies: dict[CallId, m.Response] = {}
        self.calls: set[CallId] = set()
        self.brokers = brokers()
        self.topic = TOPIC
        self._call_ids = count(1)
        self.partition = Partition(
            topic_partition=LOG,
            topic_id=TOPIC_ID,
            replica_id=BROKER,
            cluster_id=CLUSTER,
            config=config,
            recovered=RecoveredLog(
                log_start_offset=Offset(log_start),
                log_end_offset=self.disk.end,
                epochs=self.disk.epochs,
                topic_id=TOPIC_ID,
                high_watermark=None if high_watermark is None else Offset(high_watermark),
                producers=producers,
            ),
            rules=rules or rules_now(),
            emit=self._emit,
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    def made(self, effect_type: type[E]) -> list[E]:
        """Return the effects of this type that the last call had."""
        return [effect for effect in self.effects if isinstance(effect, effect_type)]

    @property
    def open_calls(self) -> set[CallId]:
        """The calls that wait."""
        return self.calls - self.replies.keys()

    @property
    def high_watermark(self) -> int:
        """The replica's high watermark."""
        return self.partition.high_watermark

    @property
    def end(self) -> int:
        """The replica's log end offset."""
        return self.partition.log.log_end_offset

    @property
    def isr(self) -> set[int]:
        """The in-sync replicas as committed, as far as this replica knows."""
        return set(self.partition.in_sync_replicas)

    @property
    def maximal_isr(self) -> set[int]:
        """The in-sync replicas with those that are proposed."""
        return set(self.partition.maximal_isr)

    # --- metadata and time --------------------------------------------------------------------------------------------

    def metadata(
        self,
        told: PartitionRegistration,
        *,
        changed: Iterable[BrokerRegistration] = (),
        topic: TopicConfig | None = None,
    ) -> None:
        """Bring committed metadata: the registration, and the brokers and settings that changed with it."""
        self.brokers = {**self.brokers, **{each.broker_id: each for each in changed}}
        self.topic = topic or self.topic
        self._begin()
        self.partition.apply_metadata(told, self.brokers, self.topic, self.now_ms)
        self._end()

    def elapse(self, ms: int) -> None:
        """Let time pass, ticking at every deadline on the way as a driver does."""
        end_ms = self.now_ms + ms
        effects: list[fx.Effect] = []
        while (due_ms := self.partition.deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tick()
            effects += self.effects
        self.now_ms = end_ms
        self.effects = effects

    def tick(self) -> None:
        """Call the partition now."""
        self._begin()
        self.partition.tick(self.now_ms)
        self._end()

    # --- records ------------------------------------------------------------------------------------------------------

    def call(self, request: m.LogRequest) -> CallId:
        """Hand in a request and return its call; the answer is in ``replies`` now or later."""
        call_id = CallId(next(self._call_ids))
        self.calls.add(call_id)
        self._begin()
        self.partition.on_request(call_id, request, self.now_ms)
        self._end()
        return call_id

    def answer(self, request: m.LogRequest) -> m.Response | None:
        """Hand in a request and return its answer; None while it is parked."""
        return self.replies.get(self.call(request))

    def answered(self, request: m.LogRequest, kind: type[R]) -> R:
        """Hand in a request and return its answer, which comes at once and is of this kind."""
        response = self.answer(request)
        assert isinstance(response, kind), response
        return response

    def produce(
        self, *values: bytes, acks: int = -1, timeout_ms: int = 1000, sequence: int = -1, producer_id: int = 5
    ) -> CallId:
        """Hand in a batch of these values, one record by default; with a ``sequence``, from an idempotent producer."""
        producer_id, producer_epoch = (-1, -1) if sequence < 0 else (producer_id, 0)
        batch = encode_batch(
            list(values or (b"v",)), producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
        )
        return self.call(m.ProduceRequest(topic_partition=LOG, acks=acks, timeout_ms=timeout_ms, records=batch.data))

    def produced(self, call_id: CallId) -> m.ProduceResponse:
        """Return the answer to a produce."""
        response = self.replies.get(call_id)
        assert isinstance(response, m.ProduceResponse), response
        return response

    def fill(self, records: int) -> None:
        """Append so many records as the leader, and flush them."""
        for _ in range(records):
            self.produce(acks=1)
        self.flush_all()

    def flush(self) -> None:
        """Finish the oldest flush that was asked for."""
        self._begin()
        self.partition.on_flushed(self.disk.flush(), self.now_ms)
        self._end()

    def flush_all(self) -> None:
        """Finish every flush that was asked for."""
        effects: list[fx.Effect] = []
        while self.disk.owed:
            self.flush()
            effects += self.effects
        self.effects = effects

    # --- a leader's fetches and proposals -----------------------------------------------------------------------------

    def ask(self, offset: int, *, epoch: int | None = None, last: int | None = None) -> m.FetchPartition:
        """Write what a replica asks for; epochs that are not given are the leader's own and its log's at ``offset``."""
        known = self.partition.log.epochs.epoch_for_offset(Offset(offset - 1)) if offset else None
        last_epoch = known if last is None else Epoch(last)
        return m.FetchPartition(
            topic_partition=LOG,
            fetch_offset=Offset(offset),
            current_leader_epoch=self.partition.leader_epoch if epoch is None else Epoch(epoch),
            last_fetched_epoch=Epoch(0) if last_epoch is None else last_epoch,
            log_start_offset=Offset(0),
        )

    def fetch(
        self,
        replica_id: int | None,
        part: m.FetchPartition | int,
        *,
        broker_epoch: int | None = None,
        rack_id: str | None = None,
    ) -> Read:
        """Let a replica (or with None a consumer) fetch; a number stands for what a replica at that offset asks."""
        asked = self.ask(part) if isinstance(part, int) else part
        registered = None if replica_id is None else BrokerEpoch(10 * replica_id)
        self._begin()
        read = self.partition.fetch(
            asked,
            replica_id=None if replica_id is None else ReplicaId(replica_id),
            broker_epoch=registered if broker_epoch is None else BrokerEpoch(broker_epoch),
            rack_id=rack_id,
            now_ms=self.now_ms,
        )
        self._end()
        return read

    def records(self, read: Read) -> bytes:
        """Read what an answer says is to be read."""
        return b"" if read.range is None else self._read(read.range)

    def _read(self, wanted: fx.LogRange) -> bytes:
        return self.disk.read(wanted.start_offset, wanted.end_offset, wanted.max_bytes)

    def proposal(self) -> m.AlterPartition | None:
        """Take the proposal that is due, as a broker does that sends it."""
        proposal = self.partition.alter_partition_proposal(self.now_ms)
        if proposal is not None:
            self.partition.on_proposal_sent()
        return proposal

    def altered(
        self,
        proposal: m.AlterPartition,
        error: ErrorCode | None = ErrorCode.NONE,
        *,
        partition_epoch: int | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        """Answer a proposal as the controller does: committed, or refused with an error, or (None) not at all."""
        result = None
        if error is ErrorCode.NONE:
            committed = proposal.partition_epoch + 1 if partition_epoch is None else partition_epoch
            result = m.AlteredPartition(
                topic_id=TOPIC_ID,
                partition=LOG.partition,
                error=error,
                leader_id=BROKER,
                leader_epoch=proposal.leader_epoch if leader_epoch is None else Epoch(leader_epoch),
                partition_epoch=PartitionEpoch(committed),
                isr=tuple(member.broker_id for member in proposal.new_isr),
            )
        elif error is not None:
            result = m.AlteredPartition(topic_id=TOPIC_ID, partition=LOG.partition, error=error)
        self._begin()
        self.partition.on_altered(proposal, result, self.now_ms)
        self._end()

    # --- performing ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.effects = []

    def _end(self) -> None:
        log = self.partition.log
        assert log.log_end_offset == self.disk.end, (log.log_end_offset, self.disk.end)
        assert log.log_start_offset == self.disk.start, (log.log_start_offset, self.disk.start)
        assert log.epochs.entries == self.disk.epochs, (log.epochs.entries, self.disk.epochs)

    def _emit(self, effect: fx.Effect) -> None:
        """Note an effect of the call that is under way and perform it."""
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
            case fx.Reply(call_id=call_id, response=response):
                self._reply(call_id, response)
            case fx.ReplyWithRecords(call_id=call_id, response=m.DumpLogResponse() as response, ranges=(wanted,)):
                self._reply(call_id, replace(response, records=self._read(wanted)))
            case fx.ReplyWithOffset(call_id=call_id, response=response):
                self._reply(call_id, response)
            case fx.ScanProducers() | fx.ApplyRetention():
                pass
            case _:
                raise AssertionError(f"a partition does not ask for {effect}")

    def _reply(self, call_id: CallId, response: m.Response) -> None:
        assert call_id not in self.replies, ("answered twice", call_id, response)
        self.replies[call_id] = response
