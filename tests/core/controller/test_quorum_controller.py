"""The controller on its log: nothing is told before it is committed, and what was never committed is forgotten.

Replica 1 of the voters 1 and 2 is a broker and has the controller under test; 2 is played by the scenario.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from random import Random

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import BrokerIdentity, ControllerConfig, ReplicaConfig
from replica.core.log.recovered import RecoveredLog
from replica.core.metadata.levels import FIRST_LEVEL, NEWEST_LEVEL
from replica.core.metadata.replay import METADATA_LOG
from replica.core.quorum.roles import Leader
from replica.core.replica import Replica
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Epoch, Offset, ReplicaId
from replica.records import RecordBatch
from tests.core.harness import disk_id, voters_of
from tests.core.ruled import rules_now

OTHER = ReplicaId(2)
CLUSTER = "cluster"


class Stage:
    """Replica 1 with a disk of plain lists. Its flushes and its reads are finished at once."""

    def __init__(
        self,
        *,
        config: ControllerConfig | None = None,
        is_broker: bool = False,
        has_role: bool = True,
        initial_level: int = FIRST_LEVEL,
        newest_level: int = NEWEST_LEVEL,
    ) -> None:
        self.now_ms = 1000
        self.batches: list[RecordBatch] = []
        self.replies: dict[CallId, m.Response] = {}
        self.sends: list[fx.Send] = []
        self._call_ids = count(1)
        identity = BrokerIdentity(incarnation_id="now", address="host:9092") if is_broker else None
        self.core = Replica(
            config=ReplicaConfig(
                cluster_id=CLUSTER,
                replica_id=ReplicaId(1),
                directory_id=disk_id(1),
                voters=(ReplicaId(1), OTHER),
                initial_voters=voters_of(1, 2),
                identity=identity,
                controller=config or (ControllerConfig() if has_role else None),
                initial_level=initial_level,
                newest_level=newest_level,
            ),
            logs={METADATA_LOG: RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=())},
            random=Random(0),
            rules=rules_now(),
        )
        self.step(ev.Started())

    # --- events -----------------------------------------------------------------------------------------------------

    def step(self, event: ev.Event) -> None:
        """Hand in an event, and what its effects bring."""
        events = deque([event])
        while events:
            for effect in self.core.step(events.popleft(), self.now_ms):
                report = self._perform(effect)
                if report is not None:
                    events.append(report)

    def _perform(self, effect: fx.Effect) -> ev.Event | None:
        match effect:
            case fx.Append(batches=batches):
                self.batches += batches
            case fx.Truncate(end_offset=end_offset):
                self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
            case fx.Flush(topic_partition=log, end_offset=end_offset):
                return ev.Flushed(topic_partition=log, end_offset=end_offset)
            case fx.ReadLog(range=wanted):
                read = [b for b in self.batches if wanted.start_offset <= b.base_offset < wanted.end_offset]
                records = b"".join(batch.data for batch in read)
                return ev.LogRead(topic_partition=METADATA_LOG, start_offset=wanted.start_offset, records=records)
            case fx.Reply(call_id=call_id, response=response):
                assert call_id >= 0, ("an internal call got out", effect)
                assert call_id not in self.replies, ("answered twice", effect)
                self.replies[call_id] = response
            case fx.Send():
                assert effect.replica_id == OTHER, ("a request to oneself got out", effect)
                self.sends.append(effect)
            case _:
                pass
        return None

    def call(self, request: m.Request) -> CallId:
        """Ask; the answer is in ``replies``, now or later."""
        call_id = CallId(next(self._call_ids))
        self.step(ev.RequestReceived(call_id=call_id, request=request))
        return call_id

    def tick(self) -> None:
        """Let time pass until something is due."""
        assert self.core.deadline_ms is not None, self.now_ms
        self.now_ms = max(self.now_ms, self.core.deadline_ms)
        self.step(ev.Ticked())

    # --- words ------------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the controller decides."""
        assert self.core.controller is not None
        return self.core.controller.is_active

    @property
    def end(self) -> Offset:
        """Where the metadata log ends."""
        return self.core.logs[METADATA_LOG].log.log_end_offset

    def be_elected(self) -> None:
        """Let replica 2 vote for this one."""
        log = self.core.logs[METADATA_LOG]
        while not isinstance(log.role, Leader):
            votes = [send for send in self.sends if isinstance(send.request, m.VoteRequest)]
            self.sends.clear()
            if not votes:
                self.tick()
            for send in votes:
                granted = m.VoteResponse(error=ErrorCode.NONE, vote_granted=True)
                self.step(ev.ResponseReceived(correlation_id=send.correlation_id, replica_id=OTHER, response=granted))

    def commit(self, *, read_round: int = 0, behind: int = 0, newest_level: int | None = None) -> None:
        """Let replica 2 fetch at the log's end: it has everything but so much, and has heard of a read round.

        It says which feature level it knows, if that is given.
        """
        epoch = self.core.logs[METADATA_LOG].leader_epoch
        part = m.FetchPartition(
            topic_partition=METADATA_LOG,
            fetch_offset=Offset(self.end - behind),
            current_leader_epoch=epoch,
            last_fetched_epoch=self.batches[-1].leader_epoch,
            log_start_offset=Offset(0),
            read_round=read_round,
        )
        self.call(
            m.FetchRequest(
                partitions=(part,),
                cluster_id=CLUSTER,
                replica_id=OTHER,
                replica_directory_id=disk_id(2),
                newest_feature_level=newest_level,
            )
        )

    def lose_leadership(self) -> None:
        """Let replica 2 lead a later epoch."""
        epoch = Epoch(self.core.logs[METADATA_LOG].leader_epoch + 1)
        request = m.BeginQuorumEpochRequest(
            topic_partition=METADATA_LOG,
            cluster_id=CLUSTER,
            leader_id=OTHER,
            leader_epoch=epoch,
            voter_id=ReplicaId(1),
            voter_directory_id=disk_id(1),
        )
        self.call(request)

    def hand_over(self) -> CallId:
        """Ask for a transfer of the leadership to replica 2."""
        return self.call(m.TransferLeadershipRequest(topic_partition=METADATA_LOG, target_id=OTHER, timeout_ms=1000))

    def register(self, broker_id: int) -> CallId:
        """Let a broker introduce itself."""
        return self.call(
            m.BrokerRegistrationRequest(
                broker_id=ReplicaId(broker_id),
                cluster_id=CLUSTER,
                incarnation_id=f"broker-{broker_id}",
                directory_id=f"disk-{broker_id}",
                flushes=True,
                metadata_end_offset=Offset(0),
                address=f"broker-{broker_id}:9092",
            )
        )

    def error(self, call_id: CallId) -> ErrorCode | None:
        """What a registration was told; None while it was told nothing."""
        response = self.replies.get(call_id)
        if response is None:
            return None
        assert isinstance(response, m.BrokerRegistrationResponse), response
        return response.error


def an_active_controller(*, config: ControllerConfig | None = None) -> Stage:
    stage = Stage(config=config)
    stage.be_elected()
    stage.commit()
    assert stage.is_active
    return stage


def test_controller_is_active_once_its_own_epoch_is_committed() -> None:
    """A leader decides nothing before it has applied all that earlier controllers have decided."""
    stage = Stage()
    stage.be_elected()
    assert not stage.is_active
    assert stage.error(stage.register(7)) is ErrorCode.NOT_CONTROLLER
    stage.commit()
    assert stage.is_active


def test_who_may_come_to_lead_has_a_controller() -> None:
    """A replica without the part of a controller decides all the same, and with what is known.

    Of its epoch's two first records, the second says who votes; it may be committed later than the first.
    """
    stage = Stage(has_role=False)
    stage.be_elected()
    stage.commit(behind=1)
    assert stage.is_active
    call_id = stage.register(7)
    assert stage.error(call_id) is None
    stage.commit()
    assert stage.error(call_id) is ErrorCode.NONE


def test_answer_is_told_once_it_is_committed() -> None:
    """A decision that a majority has not stored is nobody's knowledge."""
    stage = an_active_controller()
    call_id = stage.register(7)
    assert stage.error(call_id) is None
    stage.commit()
    assert stage.error(call_id) is ErrorCode.NONE
    assert ReplicaId(7) in stage.core.metadata.image.brokers


def test_answers_come_in_the_order_of_decisions() -> None:
    """An answer that needs no record still waits for what it was decided from."""
    stage = an_active_controller()
    first = stage.register(7)
    again = stage.register(7)
    unknown = stage.call(m.DeleteTopicRequest(name="none"))
    assert not stage.replies.keys() & {first, again, unknown}
    stage.commit()
    answers = [call_id for call_id in stage.replies if call_id in {first, again, unknown}]
    assert answers == [first, again, unknown]


def test_lost_leadership_refuses_who_waits_and_forgets_what_was_decided() -> None:
    """What was not committed may never be: nobody is told that it was, and the next activity begins without it."""
    stage = an_active_controller()
    call_id = stage.register(7)
    stage.lose_leadership()
    assert not stage.is_active
    assert stage.error(call_id) is ErrorCode.NOT_CONTROLLER
    answer = stage.replies[call_id]
    assert isinstance(answer, m.BrokerRegistrationResponse)
    assert answer.current_leader is not None
    assert answer.current_leader.leader_id == OTHER
    assert stage.core.controller is not None
    assert ReplicaId(7) not in stage.core.controller.controller.image.brokers
    assert stage.error(stage.register(8)) is ErrorCode.NOT_CONTROLLER


def test_only_so_many_answers_wait() -> None:
    """A controller that cannot commit takes no more than its share, and decides nothing beyond."""
    stage = an_active_controller(config=ControllerConfig(pending_replies_max=2))
    waiting = [stage.register(7), stage.register(8)]
    end = stage.end
    assert stage.error(stage.register(9)) is ErrorCode.NOT_CONTROLLER
    assert stage.end == end
    stage.commit()
    assert [stage.error(call_id) for call_id in waiting] == [ErrorCode.NONE] * 2


def test_broker_and_controller_in_one_process_need_no_network() -> None:
    """A broker registers and lives with the controller in its own process: nothing of it is sent or answered outside.

    (The stage fails on a request to oneself, and on a reply to a call that it has not made.)
    """
    stage = Stage(is_broker=True)
    stage.be_elected()
    for _ in range(20):
        stage.commit()
        stage.tick()
    registered = stage.core.metadata.image.brokers[ReplicaId(1)]
    assert not registered.fenced
    assert not [send for send in stage.sends if isinstance(send.request, m.ControllerRequest)]


def test_registration_goes_to_whoever_leads_the_metadata_log() -> None:
    """A broker whose controller is elsewhere asks there; after a failure it asks again, after a pause."""
    stage = Stage(is_broker=True)
    stage.lose_leadership()
    (first,) = [send for send in stage.sends if isinstance(send.request, m.BrokerRegistrationRequest)]
    stage.sends.clear()
    stage.step(ev.SendFailed(correlation_id=CorrelationId(first.correlation_id), replica_id=OTHER))
    assert not [send for send in stage.sends if isinstance(send.request, m.BrokerRegistrationRequest)]
    stage.now_ms += 100
    stage.step(ev.Ticked())
    (second,) = [send for send in stage.sends if isinstance(send.request, m.BrokerRegistrationRequest)]
    assert second.request == first.request


# --- a transfer of the leadership -----------------------------------------------------------------------------------


def test_nothing_is_decided_during_a_transfer() -> None:
    """Who asks is sent on, nothing is written and nothing is due, until the controller goes on after all."""
    stage = an_active_controller(config=ControllerConfig(broker_session_timeout_ms=300))
    registering = stage.register(7)
    stage.commit()
    registered = stage.replies[registering]
    assert isinstance(registered, m.BrokerRegistrationResponse)
    assert registered.broker_epoch is not None
    alive = m.BrokerHeartbeatRequest(
        broker_id=ReplicaId(7),
        broker_epoch=registered.broker_epoch,
        incarnation_id="broker-7",
        cluster_id=CLUSTER,
        metadata_offset=stage.end,
    )
    stage.call(alive)
    stage.commit()
    end = stage.end
    handing_over = stage.hand_over()
    assert stage.error(stage.register(8)) is ErrorCode.NOT_CONTROLLER
    stage.now_ms += 500
    stage.step(ev.Ticked())
    assert stage.end == end
    assert stage.core.deadline_ms is not None
    assert stage.core.deadline_ms > stage.now_ms
    stage.now_ms += 500
    stage.step(ev.Ticked())
    answer = stage.replies[handing_over]
    assert isinstance(answer, m.TransferLeadershipResponse)
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT
    assert stage.is_active
    assert stage.end > end, "the broker that was not heard of is fenced now"


def test_a_transfer_leaves_no_decision_untold() -> None:
    """What was decided before it is committed, and told, before the controller resigns."""
    stage = an_active_controller()
    call_id = stage.register(7)
    handing_over = stage.hand_over()
    stage.commit(read_round=1)
    assert stage.error(call_id) is ErrorCode.NONE
    stage.tick()
    answer = stage.replies[handing_over]
    assert isinstance(answer, m.TransferLeadershipResponse)
    assert (answer.error, stage.is_active) == (ErrorCode.NONE, False)
