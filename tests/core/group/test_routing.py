"""A replica with several groups: each request, read and report goes to the group whose it is, and no other sees it."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from replica.bounds import INT32_MAX
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import ControllerConfig, GroupConfig, ReplicaConfig
from replica.core.log.recovered import RecoveredLog
from replica.core.metadata.replay import METADATA_LOG
from replica.core.replica import Replica
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId, TopicPartition
from replica.machines import AppliedLog
from replica.machines.counter import Counter
from replica.records import RecordBatch
from tests.core.group.bench import STALE, GroupBench, add, ask, counting, leading_bench, outcome_of, replies_of
from tests.core.harness import CLUSTER, LOG, disk_id, voters_of
from tests.core.scenarios import reply_of

FIRST, SECOND = TopicPartition("first", 0), TopicPartition("second", 0)
EMPTY = RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=())


class Alone:
    """One replica that is its own quorum, with a metadata log and two groups; whatever it asks for is done at once."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.logs: dict[TopicPartition, list[RecordBatch]] = {name: [] for name in (METADATA_LOG, FIRST, SECOND)}
        self.replies: dict[CallId, m.Response] = {}
        self._call_ids = count(1)
        self.replica = Replica(
            config=ReplicaConfig(
                cluster_id=CLUSTER,
                replica_id=ReplicaId(0),
                directory_id=disk_id(0),
                voters=(ReplicaId(0),),
                initial_voters=voters_of(0),
                group=GroupConfig(tick_interval_ms=INT32_MAX),
                controller=ControllerConfig(),
            ),
            logs=dict.fromkeys(self.logs, EMPTY),
            random=Random(0),
            groups={name: AppliedLog(Counter(), name="counter") for name in (FIRST, SECOND)},
        )
        self.step(ev.Started())
        while self.replica.controller is None or not self.replica.controller.is_active:
            due_ms = self.replica.deadline_ms
            assert due_ms is not None
            self.now_ms = max(self.now_ms, due_ms)
            self.step(ev.Ticked())

    def step(self, event: ev.Event) -> None:
        events = [event]
        while events:
            for effect in self.replica.step(events.pop(0), self.now_ms):
                match effect:
                    case fx.Append(topic_partition=name, batches=batches):
                        self.logs[name] += batches
                    case fx.Flush(topic_partition=name, end_offset=end_offset):
                        events.append(ev.Flushed(topic_partition=name, end_offset=end_offset))
                    case fx.ReadLog(range=wanted):
                        found = [
                            b.data for b in self.logs[wanted.topic_partition] if b.base_offset >= wanted.start_offset
                        ]
                        events.append(
                            ev.LogRead(
                                topic_partition=wanted.topic_partition,
                                start_offset=wanted.start_offset,
                                records=found[0],
                            )
                        )
                    case fx.Reply(call_id=call_id, response=response):
                        self.replies[call_id] = response
                    case _:
                        pass

    def answer(self, request: m.Request) -> Any:
        call_id = CallId(next(self._call_ids))
        self.step(ev.RequestReceived(call_id=call_id, request=request))
        return self.replies[call_id]


def test_each_group_has_its_own_state() -> None:
    """Commands to one are not seen by the other, and the metadata log is applied beside them."""
    alone = Alone()
    assert replies_of(alone.answer(replace(add(5, 5), topic_partition=FIRST))) == [b"5", b"10"]
    assert replies_of(alone.answer(replace(add(1), topic_partition=SECOND))) == [b"1"]
    for name, total in ((FIRST, "10"), (SECOND, "1")):
        outcome = outcome_of(alone.answer(ask_of(name)))
        assert f"reply=b'{total}'" in str(outcome)
    assert alone.replica.metadata.applied_offset == alone.logs[METADATA_LOG][-1].end_offset
    assert set(alone.replica.groups) == {FIRST, SECOND}


def ask_of(name: TopicPartition) -> m.QueryRequest:
    """Ask this group for its total."""
    return replace(ask(), topic_partition=name)


@pytest.mark.parametrize(
    "request_",
    [
        add(1),
        ask(consistency=STALE),
        m.ReadIndexRequest(topic_partition=LOG, replica_id=ReplicaId(1), current_leader_epoch=Epoch(1)),
    ],
    ids=["apply", "query", "read-index"],
)
def test_what_is_no_group_is_unknown(request_: m.GroupRequest) -> None:
    """A log without a machine takes no commands and answers no questions, and neither does one that is not there."""
    alone = Alone()
    for name in (METADATA_LOG, TopicPartition("third", 0)):
        response = alone.answer(replace(request_, topic_partition=name))
        assert response.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(alone.logs[METADATA_LOG]) == 2, "LeaderChange and the voters"


def test_a_topic_may_not_have_the_name_of_a_group() -> None:
    """Its partitions would be logs of the same name; any other name is the controller's business."""
    alone = Alone()
    response = alone.answer(m.CreateTopicRequest(name="first"))
    assert (response.error, response.message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "first is the name of a group",
    )
    assert alone.answer(m.CreateTopicRequest(name="third")).error is not ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_leader_that_has_to_resign_takes_no_command(bench: GroupBench) -> None:
    """After a long pause the command comes first: the log does what is due by then, and the command is not appended."""
    end = bench.disk.end
    bench.now_ms += bench.config.quorum.check_quorum_timeout_ms
    response = bench.answer(add(1))
    assert isinstance(response, m.ApplyResponse), response
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert (bench.role, bench.disk.end) == ("resigned", end)


def test_a_group_needs_a_log_of_a_quorum(bench: GroupBench) -> None:
    """To host one on anything else is our own mistake."""
    with pytest.raises(AssertionError, match="no log that is kept by a quorum"):
        Replica(
            config=bench.config, logs={LOG: EMPTY}, random=Random(0), groups={TopicPartition("other", 0): counting()}
        )


def test_nothing_is_answered_after_a_halt(bench: GroupBench) -> None:
    """A replica whose storage has failed hosts nothing any more."""
    bench.step(ev.StorageFailed(reason="worn out"))
    call_id = bench.call(ask(consistency=STALE))
    assert (bench.halted, call_id in bench.open_calls) == ("worn out", True)
    other = leading_bench()
    assert reply_of(other, other.call(ask(consistency=STALE))).error is ErrorCode.NONE
