"""The active controller on its quorum log: what it decides is written there, and told only once it is committed.

Owns the answers that wait for their records, and the beginning and the end of an activity. A controller becomes active
when it has applied everything that is committed, up to and with the first record of its own epoch; it ceases to be when
it no longer leads, and everything that it has decided beyond the committed is forgotten: the next controller decides.

A decision that is too large for the log is refused and taken back. What follows by time alone never is: its records are
counted (``brokers``), and each has a bound.

Source: Kafka ``QuorumController`` (``ControllerWriteEvent``, ``renounce``); KIP-631.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from replica.core.config import ControllerConfig
from replica.core.controller.controller import Controller
from replica.core.dynamic_settings import Numbers
from replica.core.effects import Effect, Reply
from replica.core.messages import ControllerRequest, Response
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.levels import FIRST_LEVEL
from replica.core.metadata.records import MetadataRecord
from replica.core.metadata.replay import MetadataReplay
from replica.core.quorum import BatchTooLargeError, QuorumLog
from replica.core.quorum.describing import levels_known
from replica.core.quorum.roles import Leader
from replica.core.refusals import refusal
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId


class Pending(Struct, frozen=True, kw_only=True):
    """An answer that waits until everything below ``end_offset`` is committed."""

    end_offset: Offset
    call_id: CallId
    request: ControllerRequest
    response: Response


class QuorumController:
    """The controller of one replica that has a vote in the metadata log."""

    def __init__(
        self,
        *,
        cluster_id: str,
        config: ControllerConfig,
        numbers: Numbers,
        rules: Rules,
        log: QuorumLog,
        emit: Callable[[Effect], None],
        initial_level: int = FIRST_LEVEL,
    ) -> None:
        self.controller = Controller(
            cluster_id=cluster_id,
            config=config,
            numbers=numbers,
            rules=rules,
            initial_level=initial_level,
            levels_known=lambda brokers: levels_known(log, brokers),
        )
        self._config = config
        self._rules = rules
        self._log = log
        self._emit = emit
        self._epoch: Epoch | None = None
        """The epoch in which it is active; absent while it is not."""
        self._pending: deque[Pending] = deque()
        log.answers_wait = lambda: bool(self._pending)

    @property
    def is_active(self) -> bool:
        """Whether this controller decides."""
        return self._epoch is not None

    @property
    def deadline_ms(self) -> int | None:
        """When something is due by time alone."""
        return self.controller.deadline_ms if self.is_active and not self._log.is_handing_over else None

    def on_request(self, call_id: CallId, request: ControllerRequest, now_ms: int) -> None:
        """Decide, and answer when the decision is committed; or say who may decide."""
        if not self._takes_requests():
            self._refuse(call_id, request)
            return
        before = self.controller.image
        decision = self.controller.handle(request, now_ms, self._log.log.log_end_offset)
        try:
            self._write(decision.records, now_ms)
        except BatchTooLargeError:
            self.controller.take_back(before)
            self._emit(Reply(call_id=call_id, response=refusal(request, ErrorCode.MESSAGE_TOO_LARGE)))
            return
        self._pending.append(
            Pending(
                end_offset=self._log.log.log_end_offset,
                call_id=call_id,
                request=request,
                response=decision.response,
            )
        )

    def on_peer_refused(self, broker_id: ReplicaId, refused_at_ms: int, now_ms: int) -> None:
        """Take it that the process of a broker has ended; what follows is decided when this settles."""
        if self.is_active:
            self.controller.on_peer_refused(broker_id, refused_at_ms, now_ms)

    @property
    def brokers_alive(self) -> frozenset[ReplicaId]:
        """The brokers that count as alive for this controller; none while it does not decide."""
        return frozenset(self.controller.session_deadlines_ms)

    def settle(self, metadata: MetadataReplay, now_ms: int) -> None:
        """Begin or end to be active, do what is due, and give the answers whose records are committed.

        What may stand in the log above what is applied then the leader has written as such: who votes, for one.
        """
        if self.is_active and not self._leads_on():
            self._renounce()
        role = self._log.role
        if not self.is_active and isinstance(role, Leader) and metadata.applied_offset > role.epoch_start_offset:
            self._epoch = self._log.leader_epoch
            self.controller.activate(metadata.image, now_ms)
        if self.is_active:
            if not self._log.is_handing_over:
                self._write(self.controller.tick(now_ms), now_ms)
            self._tell_committed()

    def _takes_requests(self) -> bool:
        """Whether it decides; who is about to let another decide does so no more, and only gives its answers."""
        has_room = len(self._pending) < self._config.pending_replies_max
        return has_room and self._leads_on() and not self._log.is_handing_over

    def _leads_on(self) -> bool:
        """Whether the leadership in which it became active still lasts."""
        return self._epoch is not None and isinstance(self._log.role, Leader) and self._log.leader_epoch == self._epoch

    def _write(self, records: tuple[MetadataRecord, ...], now_ms: int) -> None:
        if not records:
            return
        batch = metadata_batch(records, base_offset=self._log.log.log_end_offset, leader_epoch=self._log.leader_epoch)
        for effect in self._log.propose(batch, now_ms):
            self._emit(effect)

    def _tell_committed(self) -> None:
        high_watermark, is_told = self._log.high_watermark, self._rules.decision_is_told
        while self._pending and is_told(end_offset=self._pending[0].end_offset, high_watermark=high_watermark):
            pending = self._pending.popleft()
            self._emit(Reply(call_id=pending.call_id, response=pending.response))

    def _renounce(self) -> None:
        self._epoch = None
        self.controller.deactivate()
        pending, self._pending = self._pending, deque()
        for waiting in pending:
            self._refuse(waiting.call_id, waiting.request)

    def _refuse(self, call_id: CallId, request: ControllerRequest) -> None:
        response = refusal(request, ErrorCode.NOT_CONTROLLER, current_leader=self._log.current_leader)
        self._emit(Reply(call_id=call_id, response=response))
