"""An idempotent producer of a simulated world: it numbers what it appends, and tries again until it knows.

Owns the producer id and the sequence numbers, one row for each topic-partition. An attempt whose outcome is unknown is
repeated with the same number, which the log takes once only; so the operation ends with what the last attempt tells,
and is unknown only where the clients are stopped first or the log does not accept the number any more. An append that
certainly failed leaves its number to the next one.

Source: KIP-98; Kafka's ``Sender`` and ``TransactionManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nemesis.history import EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.session import ACKS_ALL, Office, OnAppended, Session, Writes
from replica.core import messages as m
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import TopicPartition
from replica.records import encode_batch

RETRY_MS = (20, 300)
_FATAL = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH})
"""After these the number is of no use, and the producer must begin anew."""


class Producer:
    """One producer id, for all the logs of one process."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._caller = Caller(office.world, office.dice)
        self._producer: tuple[int, int] | None = None
        self._next_sequence: dict[TopicPartition, int] = {}

    def prepare(self, then: Callable[[], None]) -> None:
        """Get a producer id, if there is none yet, and go on; never, once the clients are stopped."""
        if self._producer is not None:
            then()
        elif not self._office.is_stopped:
            self._caller.ask(m.InitProducerIdRequest(), lambda response: self._on_id(response, then), self._later(then))

    def _on_id(self, response: m.Response | None, then: Callable[[], None]) -> None:
        assert isinstance(response, m.InitProducerIdResponse | None), response
        if response is None or response.error is not ErrorCode.NONE:
            self._caller.follow(None if response is None else response.current_leader)
            self._office.world.queue.after(_pause_us(self._office), lambda: self.prepare(then))
            return
        assert response.producer_id is not None, response
        assert response.producer_epoch is not None, response
        self._producer = response.producer_id, response.producer_epoch
        then()

    def _later(self, then: Callable[[], None]) -> Callable[[], None]:
        def turn() -> None:
            self._caller.turn()
            self.prepare(then)

        return turn

    def append(self, session: Session, values: Sequence[int], then: OnAppended) -> None:
        """Append ``values`` to the session's log, with as many attempts as it takes, and tell ``then`` how it ended."""
        assert self._producer is not None, session.log
        writes = session.begin(values)
        producer_id, producer_epoch = self._producer
        sequence = self._next_sequence.get(session.log, 0)
        batch = encode_batch(
            writes.records,
            timestamp_ms=self._office.world.now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        ended = self._numbered(session.log, sequence + len(values), then)
        _Attempts(self._office, session, writes, batch.data, ended).begin()

    def _numbered(self, log: TopicPartition, next_sequence: int, then: OnAppended) -> OnAppended:
        def ended(kind: EventType) -> None:
            if kind is EventType.OK:
                self._next_sequence[log] = next_sequence
            then(kind)

        return ended


class _Attempts:
    """One append until its end is known."""

    def __init__(self, office: Office, session: Session, writes: Writes, records: bytes, then: OnAppended) -> None:
        self._office = office
        self._session = session
        self._writes = writes
        self._records = records
        self._then = then
        self._may_stand = False
        """Whether an attempt has ended without an answer that excludes that it was appended."""

    def begin(self) -> None:
        """Send the batch, again."""
        self._session.produce(self._records, ACKS_ALL, self._on_response, self._on_silence)

    def _on_response(self, response: m.ProduceResponse | None) -> None:
        if response is None:
            self._failed("nobody listens")
        elif response.error is ErrorCode.NONE:
            self._session.acknowledge(self._writes, response, self._then)
        elif response.error in _FATAL and self._may_stand:
            self._session.give_up(self._writes, response.error, self._then)
        elif write_definitely_failed(response.error, not_appended=response.not_appended):
            self._failed(response.error)
        else:
            self._may_stand = True
            self._session.follow(response.current_leader)
            self._again(response.error)

    def _on_silence(self) -> None:
        self._may_stand = True
        self._session.turn()
        self._again("no answer in time")

    def _failed(self, error: str) -> None:
        """This attempt certainly did nothing; that holds for all of them only if it was so each time."""
        if self._may_stand:
            self._again(error)
        else:
            self._session.fail_append(self._writes, error, self._then)

    def _again(self, error: str) -> None:
        if self._office.is_stopped:
            self._session.give_up(self._writes, error, self._then)
        else:
            self._office.world.queue.after(_pause_us(self._office), self.begin)


def _pause_us(office: Office) -> int:
    return office.dice.randint(*RETRY_MS) * US_PER_MS
