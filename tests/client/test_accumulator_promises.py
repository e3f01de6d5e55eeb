"""Random walks of the accumulator against a leader that loses requests and answers: order, and nothing twice.

The leader is a few lines of the rules that an idempotent producer relies on: it takes a batch whose numbers follow,
answers a repetition of the last five from memory, and refuses all else. A walk that fails names its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

import pytest

from replica.client.accumulator import RecordAccumulator, record_bytes_bound
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import BatchId, GivenUp, ProducerIdentity, ReadyBatch
from replica.ids import TopicPartition
from replica.records import RecordBatch, decode_records, increment_sequence

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
RECORDS = 60


class Answer(StrEnum):
    """What a leader says of one attempt."""

    WRITTEN = "written"
    OUT_OF_ORDER = "out of order"
    FENCED = "fenced"
    NOT_LEADER = "not leader"
    TOO_LARGE = "too large"


@dataclass(slots=True)
class Leader:
    """One partition's leader: its log of values, and what it remembers of the one producer."""

    log: list[bytes] = field(default_factory=list)
    epoch: int = -1
    kept: list[tuple[int, int]] = field(default_factory=list)

    def produce(self, batch: RecordBatch) -> Answer:
        """Take the batch if its numbers follow, or know it again."""
        numbers = (batch.base_sequence, batch.last_sequence)
        if batch.producer_epoch < self.epoch:
            return Answer.FENCED
        if batch.producer_epoch == self.epoch and numbers in self.kept:
            return Answer.WRITTEN
        if self.epoch >= 0 and batch.base_sequence != self._next(batch.producer_epoch):
            return Answer.OUT_OF_ORDER
        if batch.producer_epoch > self.epoch:
            self.epoch, self.kept = batch.producer_epoch, []
        self.kept = [*self.kept, numbers][-5:]
        self.log += [record.value or b"" for record in decode_records(batch)]
        return Answer.WRITTEN

    def _next(self, epoch: int) -> int:
        return increment_sequence(self.kept[-1][1], 1) if epoch == self.epoch else 0


class Walk:
    """One producer, two leaders and dice. ``late`` requests arrive after their sender has ceased to wait for them."""

    def __init__(self, seed: int, *, fault_rate: float) -> None:
        self.random = Random(seed)
        self.fault_rate = fault_rate
        self.now_ms = 0
        self.leaders = {partition: Leader() for partition in PARTITIONS}
        self.in_flight: list[ReadyBatch] = []
        self.late: list[ReadyBatch] = []
        self.taken: dict[TopicPartition, list[bytes]] = {partition: [] for partition in PARTITIONS}
        self.values: dict[BatchId, list[bytes]] = {}
        self.written: set[BatchId] = set()
        self.given_up: dict[BatchId, GivenUp] = {}
        self.accumulator = RecordAccumulator(
            ProducerConfig(
                linger_ms=3,
                batch_size=150,
                request_timeout_ms=500,
                delivery_timeout_ms=600,
                retry_backoff_ms=4,
                retry_backoff_max_ms=30,
            )
        )
        self.accumulator.on_producer_id(ProducerIdentity(producer_id=1, producer_epoch=0))

    def run(self) -> None:
        """Append, send, answer and lose in random order, until everything is settled."""
        for number in range(RECORDS):
            self._append(number)
            for _ in range(self.random.randrange(6)):
                self._step()
        for _ in range(20_000):
            if self.accumulator.is_empty:
                return
            self._step()
        raise AssertionError("some batches are never settled")

    def _append(self, number: int) -> None:
        partition, value = self.random.choice(PARTITIONS), b"%d" % number
        queue, size = self.accumulator.queue(partition), record_bytes_bound(None, value, ())
        delivery = self.accumulator.append(queue, size, value, None, (), 0, lambda: self.now_ms)
        assert delivery.batch.batch_id is not None
        self.taken[partition].append(value)
        batch = self.values.setdefault(delivery.batch.batch_id, [])
        assert delivery.position == len(batch)
        batch.append(value)

    def _step(self) -> None:
        self.now_ms += self.random.choice((0, 1, 1, 3, 10)) if self.random.random() < 0.99 else 300
        for over in self.accumulator.expire(self.now_ms):
            self._note(over)
        self.in_flight += self.accumulator.drain(self.now_ms)
        for partition in PARTITIONS:
            assert sum(ready.topic_partition == partition for ready in self._waited_for()) <= 5
        if self.late and self.random.random() < 0.2:
            self._arrive(self.late.pop(self.random.randrange(len(self.late))))
        if self.in_flight and self.random.random() < 0.8:
            self._attempt(self.in_flight.pop(0 if self.random.random() < 0.7 else -1))

    def _waited_for(self) -> list[ReadyBatch]:
        return [ready for ready in self.in_flight if ready.batch_id not in self.given_up]

    def _attempt(self, ready: ReadyBatch) -> None:
        dice = self.random.random() / self.fault_rate if self.fault_rate else 2.0
        if dice < 0.25:  # refused at the door
            self._on_answer(ready, self.random.choice((Answer.NOT_LEADER, Answer.NOT_LEADER, Answer.TOO_LARGE)))
            return
        if dice < 0.5:  # lost, or not yet there
            self.late += [ready] * self.random.randrange(2)
        else:
            answer = self._arrive(ready)
            if dice >= 1.0:
                self._on_answer(ready, answer)
                return
        self._note(self.accumulator.on_retriable(ready.batch_id, may_be_written=True, now_ms=self.now_ms))

    def _arrive(self, ready: ReadyBatch) -> Answer:
        return self.leaders[ready.topic_partition].produce(ready.batch)

    def _on_answer(self, ready: ReadyBatch, answer: Answer) -> None:
        match answer:
            case Answer.WRITTEN:
                self.accumulator.on_written(ready.batch_id)
                if ready.batch_id not in self.given_up:
                    self.written.add(ready.batch_id)
            case Answer.NOT_LEADER:
                retry = self.accumulator.on_retriable(ready.batch_id, may_be_written=False, now_ms=self.now_ms)
                self._note(retry)
            case Answer.OUT_OF_ORDER:
                self._note(self.accumulator.on_out_of_order(ready.batch_id, now_ms=self.now_ms))
            case Answer.FENCED | Answer.TOO_LARGE:
                self._note(self.accumulator.on_refused(ready.batch_id, may_be_written=False))

    def _note(self, given_up: GivenUp | None) -> None:
        if given_up is not None:
            assert given_up.batch_id not in self.written | self.given_up.keys()
            self.given_up[given_up.batch_id] = given_up


def walked(seed: int, fault_rate: float) -> Walk:
    walk = Walk(seed, fault_rate=fault_rate)
    walk.run()
    return walk


@pytest.mark.parametrize("fault_rate", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("seed", range(60))
def test_the_log_holds_each_record_at_most_once_and_in_order(seed: int, fault_rate: float) -> None:
    """Whatever is lost, late or refused: no record stands twice, none overtakes another, and each verdict is true.

    Each partition's log is what was appended, in order, less what was given up. A batch that is said to be written is
    there; one that is said not to be is not.
    """
    walk = walked(seed, fault_rate)
    for partition in PARTITIONS:
        log = walk.leaders[partition].log
        assert log == [value for value in walk.taken[partition] if value in set(log)]
    logged = {value for leader in walk.leaders.values() for value in leader.log}
    assert walk.written | walk.given_up.keys() == walk.values.keys()
    for batch_id, values in walk.values.items():
        if batch_id in walk.written:
            assert logged.issuperset(values)
        elif not walk.given_up[batch_id].may_be_written:
            assert logged.isdisjoint(values)


def test_walks_without_faults_write_everything() -> None:
    """With a leader that always answers, no record is missing but those whose time was over before the answer came."""
    for seed in range(10):
        walk = walked(seed, 0.0)
        lost = {value for batch_id in walk.given_up for value in walk.values[batch_id]}
        for partition, leader in walk.leaders.items():
            assert [value for value in leader.log if value not in lost] == [
                value for value in walk.taken[partition] if value not in lost
            ]


def test_walks_see_what_they_are_for() -> None:
    """Among these seeds are holes, new epochs, unknown outcomes and repetitions that the leader knew again."""
    walks = [walked(seed, 0.3) for seed in range(60)]
    assert any(leader.epoch > 1 for walk in walks for leader in walk.leaders.values())
    assert any(over.may_be_written for walk in walks for over in walk.given_up.values())
    assert any(not over.may_be_written for walk in walks for over in walk.given_up.values())
    assert sum(len(walk.written) for walk in walks) > 500
