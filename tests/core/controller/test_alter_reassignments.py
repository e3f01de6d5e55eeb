"""Partitions that are moved by the controller: the reassignments of Kafka's ReplicationControlManagerTest, and more.

Brokers 0 to 5 are active. The ISR is told by the leader, as the controller sees it.
"""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.metadata.pages import Cursor
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from tests.core.controller.bench import CONFIG, TOPIC, WITHOUT_ELR, Bench, ids

MIN_ISR_1 = {"min.insync.replicas": "1"}
UNCLEAN = {**MIN_ISR_1, "unclean.leader.election.enable": "true"}


def bench_with(*assignment: tuple[int, ...], configs: dict[str, str] | None = None) -> Bench:
    """Six brokers, of which these have the partitions of a topic."""
    bench = Bench()
    bench.start(0, 1, 2, 3, 4, 5)
    bench.create(*assignment, configs=MIN_ISR_1 if configs is None else configs)
    return bench


def errors_of(bench: Bench, targets: dict[int, tuple[int, ...] | None]) -> list[tuple[ErrorCode, str]]:
    """Ask for several partitions at once."""
    request = m.AlterPartitionReassignmentsRequest(
        partitions=tuple(
            m.ReassignablePartition(
                topic_partition=TopicPartition(TOPIC, number), replicas=None if target is None else ids(*target)
            )
            for number, target in targets.items()
        )
    )
    answer = bench.ask(request, m.AlterPartitionReassignmentsResponse)
    assert answer.error is ErrorCode.NONE
    assert [outcome.topic_partition.partition for outcome in answer.partitions] == list(targets)
    return [(outcome.error, outcome.message) for outcome in answer.partitions]


UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{TOPIC}-2 does not exist")
BEGUN = (ErrorCode.NONE, "")


def test_reassign_partitions() -> None:
    """Each partition for itself: another order is there at once, who comes is waited for, what is unknown is refused.

    The ISR that completes it costs the leader, who is to go, its leadership, and that is what it is told.
    """
    bench = bench_with((1, 2, 3), (3, 2, 1))
    assert bench.moving() == {}
    assert errors_of(bench, {0: (3, 2, 1), 1: (0, 2, 1), 2: (0, 2, 1)}) == [BEGUN, BEGUN, UNKNOWN]
    assert bench.partition(0).replicas == (3, 2, 1)
    assert bench.moving() == {1: ((0, 2, 1, 3), (0,), (3,))}
    assert bench.moving(TOPIC) == bench.moving()
    assert bench.moving("another") == {}
    altered = bench.propose(bench.proposal(3, 0, 2, 1, number=1))
    assert altered.error is ErrorCode.NEW_LEADER_ELECTED
    assert bench.moving() == {}
    done = bench.partition(1)
    assert (done.replicas, done.isr, done.leader_id, done.leader_epoch) == ((0, 2, 1), (0, 2, 1), 0, 1)


def test_cancel_of_what_is_under_way() -> None:
    """What moves goes back, in a new leader epoch; what does not move cannot."""
    bench = bench_with((1, 2, 3), (3, 2, 1))
    errors_of(bench, {0: (3, 2, 1), 1: (0, 2, 1)})
    not_moving = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{TOPIC}-0 is not being reassigned")
    assert errors_of(bench, {0: None, 1: None, 2: None}) == [not_moving, BEGUN, UNKNOWN]
    back = bench.partition(1)
    assert (back.replicas, back.isr, back.leader_id, back.is_reassigned) == ((2, 1, 3), (2, 1, 3), 3, False)
    assert (back.leader_epoch, back.partition_epoch) == (1, 2)


def test_reassign_partitions_with_a_dead_replica() -> None:
    """Without it all is done at once; with it in another place too, since nobody comes and nobody goes."""
    bench = bench_with((1, 2, 3, 4), (0, 1, 2, 3), (4, 3, 1, 0), (2, 3, 4, 1))
    bench.silence(3)
    outcomes = errors_of(bench, {0: (1, 2, 4), 1: (1, 2, 3, 0), 2: (5, 6, 7), 3: ()})
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [error for error, _ in outcomes] == [ErrorCode.NONE, ErrorCode.NONE, refused, refused]
    first, second = bench.partition(0), bench.partition(1)
    assert (first.replicas, first.isr, first.leader_id, first.leader_epoch) == ((1, 2, 4), (1, 2, 4), 1, 1)
    assert (second.replicas, second.isr, second.leader_id, second.leader_epoch) == ((1, 2, 3, 0), (1, 2, 0), 0, 0)
    assert bench.moving() == {}


def test_cancel_reassign_partitions() -> None:
    """Who comes is in sync, but one that is to stay is not: all wait for it, and can go back."""
    bench = bench_with((4, 3, 2))
    bench.silence(3)
    bench.reassign(0, 1, 2, 3, 4, 0)
    under_way = bench.partition()
    assert (under_way.replicas, under_way.isr, under_way.leader_id) == ((1, 2, 3, 4, 0), (2, 4), 4)
    assert (under_way.leader_epoch, under_way.partition_epoch) == (0, 2)
    bench.alter_isr(4, 1, 2, 0)
    assert bench.moving() == {0: ((1, 2, 3, 4, 0), (0, 1), ())}
    assert bench.cancel().error is ErrorCode.NONE
    assert bench.moving() == {}
    back = bench.partition()
    assert (back.replicas, back.isr, back.leader_id, back.leader_epoch) == ((2, 3, 4), (2, 4), 4, 1)


def test_reassign_partitions_handles_new_reassignment_that_removes_previously_adding_replicas() -> None:
    """Another target while one is under way: whoever was coming, and may lead already, goes with all the others."""
    bench = bench_with((0, 1))
    bench.reassign(0, 2, 3)
    assert bench.moving() == {0: ((2, 3, 0, 1), (2, 3), (0, 1))}
    bench.alter_isr(0, 1, 2)
    assert bench.elect(m.ElectionType.PREFERRED) is ErrorCode.NONE
    assert bench.partition().leader_id == 2
    bench.reassign(0, 4, 5)
    assert bench.moving() == {0: ((4, 5, 0, 1, 2, 3), (4, 5), (0, 1, 2, 3))}
    assert bench.partition().leader_id == 2
    assert bench.propose(bench.proposal(0, 1, 2, 3, 4, 5)).error is ErrorCode.NEW_LEADER_ELECTED
    assert bench.partition().leader_id == 4
    assert bench.moving() == {}


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        pytest.param((), "the target of topic-0 has no replicas", id="nobody"),
        pytest.param(tuple(range(17)), "the target of topic-0 has 17 replicas, at most 16 are possible", id="too many"),
        pytest.param((1, 2, 1), "the target of topic-0 names a broker twice: [1, 2, 1]", id="twice"),
        pytest.param(
            (1, 7, 8), "the target of topic-0 names brokers that are not registered: [7, 8]", id="unregistered"
        ),
    ],
)
def test_what_cannot_be_an_assignment_is_refused(target: tuple[int, ...], complaint: str) -> None:
    """A target names at least one broker, each once, all of them registered; nothing is changed otherwise."""
    bench = bench_with((1, 2))
    before = bench.partition()
    outcome = bench.reassign(0, *target)
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, complaint)
    assert (bench.partition(), bench.records) == (before, ())


def test_the_leader_that_stays_goes_on() -> None:
    """A move that leaves the leader where it is tells it of the ISR, in a leader epoch of its own."""
    bench = bench_with((1, 2))
    bench.reassign(0, 1, 3)
    altered = bench.propose(bench.proposal(1, 2, 3))
    assert (altered.error, altered.leader_id, altered.leader_epoch, altered.isr) == (ErrorCode.NONE, 1, 1, (1, 3))


def test_a_late_proposal_of_the_old_assignment_is_refused() -> None:
    """A proposal from before the replicas changed, with one among them that is gone, changes nothing."""
    bench = bench_with((1, 2, 3))
    late = bench.proposal(1, 2)
    bench.reassign(0, 1, 2)
    assert bench.propose(late).error is ErrorCode.FENCED_LEADER_EPOCH
    late = bench.proposal(1)
    bench.reassign(0, 2, 1)
    assert bench.propose(late).error is ErrorCode.INVALID_UPDATE_VERSION


def test_who_comes_and_dies_is_waited_for() -> None:
    """A broker that is fenced on the way completes nothing; back and in sync it does."""
    bench = bench_with((1, 2))
    bench.reassign(0, 3, 2)
    bench.silence(3)
    bench.alter_isr(1, 2)
    assert bench.moving() == {0: ((3, 2, 1), (3,), (1,))}
    bench.come_back(3)
    assert bench.propose(bench.proposal(1, 2, 3)).error is ErrorCode.NEW_LEADER_ELECTED
    assert bench.shape() == (3, (3, 2), ())


def led_by_who_came(configs: dict[str, str], *, elr: bool = True) -> Bench:
    """Broker 1 is moved to 3 and 4; 3 is in sync alone and leads, and 4 has not come yet."""
    bench = Bench(dataclasses.replace(CONFIG if elr else WITHOUT_ELR, unclean_leader_election_interval_ms=1_000_000))
    bench.start(0, 1, 2, 3, 4, 5)
    bench.create((1,), configs=configs)
    bench.reassign(0, 3, 4)
    bench.alter_isr(1, 3)
    bench.silence(1)
    assert bench.partition().leader_id == 3
    assert bench.partition().isr == (3,)
    return bench


def test_cancel_that_would_be_unclean_is_refused() -> None:
    """Nobody of before is in sync: to go back would lose what those that came have."""
    bench = led_by_who_came(MIN_ISR_1)
    bench.come_back(1)
    outcome = bench.cancel()
    assert outcome.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert outcome.message == (
        "topic-0 would go back to [1], of which none is in sync; an unclean leader election is not allowed"
    )
    assert bench.moving() == {0: ((3, 4, 1), (3, 4), (1,))}


@pytest.mark.parametrize("elr", [True, False])
def test_unclean_cancel_takes_who_is_active(elr: bool) -> None:
    """A topic that prefers a loss to waiting goes back to a replica that is alive, and nobody else is waited for."""
    bench = led_by_who_came(UNCLEAN, elr=elr)
    outcome = bench.cancel()
    assert (outcome.error, outcome.message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "topic-0 would go back to [1], of which none is in sync or active",
    )
    bench.come_back(1)
    assert bench.cancel().error is ErrorCode.NONE
    back = bench.partition()
    assert (back.replicas, back.isr, back.elr, back.leader_id) == ((1,), (1,), (), 1)
    assert back.leader_recovery_state.value == "RECOVERING"


def test_a_reassignment_is_known_to_the_next_controller() -> None:
    """What is under way stands in the metadata log."""
    bench = bench_with((1, 2))
    bench.reassign(0, 3, 2)
    bench.restart()
    assert bench.moving() == {0: ((3, 2, 1), (3,), (1,))}
    assert bench.propose(bench.proposal(1, 2, 3)).error is ErrorCode.NEW_LEADER_ELECTED


def test_list_reassignments_in_pages() -> None:
    """A page has as many as the asker takes; those that do not move do not count."""
    bench = bench_with((1, 2), (1, 2), (1, 2), (1, 2))
    for number in (0, 2, 3):
        assert bench.reassign(number, 3, 4).error is ErrorCode.NONE
    request = m.ListPartitionReassignmentsRequest(response_partition_limit=2)
    first = bench.ask(request, m.ListPartitionReassignmentsResponse)
    assert [ongoing.topic_partition.partition for ongoing in first.partitions] == [0, 2]
    assert first.next_cursor == Cursor(topic_id=bench.topic_id(), partition=3)
    last = bench.ask(replace(request, cursor=first.next_cursor), m.ListPartitionReassignmentsResponse)
    assert ([ongoing.topic_partition.partition for ongoing in last.partitions], last.next_cursor) == ([3], None)


def test_targets_do_not_pile_up() -> None:
    """Another target while the last is under way leaves more replicas that go: only so many at once."""
    bench = Bench()
    bench.start(*range(1, 50))
    bench.create(tuple(range(1, 17)))
    assert bench.reassign(0, *range(17, 33)).error is ErrorCode.NONE
    piled = bench.reassign(0, *range(33, 49))
    assert piled.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert piled.message.startswith("topic-0 would have 48 replicas until it has moved; at most 32")
    assert bench.reassign(0, *range(1, 17)).error is ErrorCode.NONE
