"""Who the replicas of a partition are while it is reassigned, as tables.

Kafka's PartitionReassignmentReplicasTest, PartitionReassignmentRevertTest, and the reassignments of its
PartitionChangeBuilderTest, name by name.
"""

from __future__ import annotations

import pytest

from replica.core.controller.partition_change import Wanted
from replica.core.controller.reassignment import Reassignment, reassignment_of, reassignment_to
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from tests.core.controller.bench import ids, registration
from tests.core.controller.test_partition_change import change

Ids = tuple[int, ...]


@pytest.mark.parametrize(
    ("current", "target", "removing", "adding", "replicas"),
    [
        pytest.param((3, 2, 1), (3, 2, 1), (), (), (3, 2, 1), id="none_added_or_removed"),
        pytest.param((3, 2, 1), (3, 6, 2, 1, 5), (), (5, 6), (3, 6, 2, 1, 5), id="additions"),
        pytest.param((3, 2, 1, 0), (3, 1), (0, 2), (), (3, 1, 0, 2), id="removals"),
        pytest.param((3, 2, 1, 0), (7, 3, 1, 9), (0, 2), (7, 9), (7, 3, 1, 9, 0, 2), id="additions_and_removals"),
        pytest.param((3, 2, 1, 0), (0, 1, 3, 2), (), (), (0, 1, 3, 2), id="rearrangement"),
        pytest.param((2, 3, 0, 1), (4, 5), (0, 1, 2, 3), (4, 5), (4, 5, 0, 1, 2, 3), id="another_target_meanwhile"),
    ],
)
def test_replicas_on_the_way(current: Ids, target: Ids, removing: Ids, adding: Ids, replicas: Ids) -> None:
    """Those of the target come first, those that go last; both who comes and who goes is known."""
    on_the_way = reassignment_to(ids(*current), ids(*target))
    assert on_the_way == Reassignment(replicas=ids(*replicas), adding=ids(*adding), removing=ids(*removing))
    assert on_the_way.is_under_way == bool(adding or removing)
    assert on_the_way.target == target
    assert set(on_the_way.original) == set(current)


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "original"),
    [
        pytest.param((3, 2, 1), (), (), (3, 2, 1), id="none_added_or_removed"),
        pytest.param((3, 2, 1), (), (2, 1), (3, 2, 1), id="some_removing"),
        pytest.param((4, 5, 3, 2, 1), (4, 5), (), (3, 2, 1), id="some_adding"),
        pytest.param((4, 5, 3, 2, 1), (4, 5), (2,), (3, 2, 1), id="some_removing_and_adding"),
    ],
)
def test_original_replicas(replicas: Ids, adding: Ids, removing: Ids, original: Ids) -> None:
    """Whoever was there before is all but those that come."""
    found = registration(replicas, replicas[-1:], replicas[-1], adding=adding, removing=removing)
    assert reassignment_of(found).original == original
    assert found.is_reassigned == bool(adding or removing)


# --- as a change ----------------------------------------------------------------------------------------------------

BAR = registration((1, 2, 3, 4), (1, 2, 3), 1, adding=(4,), removing=(1,))
"""Broker 1 goes, broker 4 comes."""


def moved(before: PartitionRegistration, *target: int) -> Wanted:
    return Wanted(reassignment=reassignment_to(before.replicas, ids(*target)))


def taken_back(before: PartitionRegistration) -> Wanted:
    return Wanted(reassignment=Reassignment(replicas=reassignment_of(before).original))


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        pytest.param(
            registration((2, 1, 3)),
            (3, 2, 1),
            registration((3, 2, 1), partition_epoch=10),
            id="reassignment_rearranges_replicas",
        ),
        pytest.param(
            registration((2, 1, 3)),
            (1, 2),
            registration((1, 2), leader_epoch=6, partition_epoch=10),
            id="removing_replica_reassignment",
        ),
        pytest.param(
            registration((2, 1, 3)),
            (1, 2, 3, 4),
            registration((1, 2, 3, 4), (1, 2, 3), partition_epoch=10, adding=(4,)),
            id="adding_replica_reassignment",
        ),
        pytest.param(
            registration((1, 2, 3), (1, 3)),
            (1, 2),
            registration((1, 2, 3), (1, 3), partition_epoch=10, removing=(3,)),
            id="who_is_to_stay_is_not_in_sync",
        ),
        pytest.param(registration(), (1, 2, 3), registration(), id="as_it_is"),
        pytest.param(
            BAR, (1, 2, 3), registration((1, 2, 3), leader_epoch=6, partition_epoch=10), id="back_to_where_it_was"
        ),
        pytest.param(
            BAR, (4, 1, 2, 3), registration((4, 1, 2, 3), (1, 2, 3), partition_epoch=10), id="who_was_to_go_stays"
        ),
    ],
)
def test_reassignment(before: PartitionRegistration, target: Ids, after: PartitionRegistration) -> None:
    """Who comes is added, and nobody goes before all that are to stay are in sync; if they are, all is done at once."""
    assert change(before, moved(before, *target)) == after


@pytest.mark.parametrize(
    ("isr", "after"),
    [
        pytest.param(
            (1, 2, 3, 4), registration((2, 3, 4), leader=2, leader_epoch=6, partition_epoch=10), id="all_with_the_old"
        ),
        pytest.param(
            (1, 2, 4),
            registration((1, 2, 3, 4), (1, 2, 4), partition_epoch=10, adding=(4,), removing=(1,)),
            id="one_that_stays_is_out_of_sync",
        ),
        pytest.param(
            (1, 3),
            registration((1, 2, 3, 4), (1, 3), partition_epoch=10, adding=(4,), removing=(1,)),
            id="who_comes_is_out_of_sync",
        ),
    ],
)
def test_isr_enlargement_completes_reassignment(isr: Ids, after: PartitionRegistration) -> None:
    """With all of the target in sync those that go are out of everything, and another leads if one of them did."""
    assert change(BAR, Wanted(isr=ids(*isr))) == after


def test_revert_reassignment() -> None:
    """Taken back, those that came are gone: no fetch of theirs is of the present epoch."""
    assert change(BAR, taken_back(BAR)) == registration((1, 2, 3), leader_epoch=6, partition_epoch=10)


@pytest.mark.parametrize("leader", [4, 2])
def test_revert_leaves_nothing_to_who_came(leader: int) -> None:
    """Of those that came none leads on, is in sync or eligible."""
    before = registration((4, 5, 3, 2, 1), (4, 2), leader, elr=(5, 3), adding=(4, 5), removing=(2,))
    after = change(before, taken_back(before), active=(1, 2, 3, 4, 5), min_isr=3)
    assert (after.replicas, after.isr, after.elr, after.leader_id) == ((3, 2, 1), (2,), (3,), 2)
    assert after.leader_epoch == 6


@pytest.mark.parametrize("elr", [True, False])
def test_isr_special_case(elr: bool) -> None:
    """With only those in sync that came, one of the others leads where it may be unclean; who led is not waited for."""
    before = registration((4, 5, 3, 2, 1), (4, 5), 4, adding=(4, 5), removing=(2,))
    after = change(before, taken_back(before), active=(1, 2, 4, 5), min_isr=1, unclean=True, elr=elr)
    assert (after.replicas, after.isr, after.elr, after.leader_id) == ((3, 2, 1), (2,), (), 2)
    assert after.leader_recovery_state is LeaderRecoveryState.RECOVERING
    offline = change(before, taken_back(before), active=(4, 5), min_isr=1, unclean=True, elr=elr)
    assert (offline.leader_id, offline.last_known_leader) == (None, None)


def test_stopped_leader_is_demoted_after_reassignment_completes_even_if_no_new_eligible_leaders() -> None:
    """A leader that is removed leads no more, though nobody else can."""
    before = registration((2, 3, 0, 1), (0, 1), 0, adding=(2, 3), removing=(0, 1))
    after = change(before, Wanted(isr=ids(0, 1, 2, 3)), active=())
    assert (after.replicas, after.isr, after.leader_id, after.is_reassigned) == ((2, 3), (2, 3), None, False)
    assert after.leader_epoch == 6


def test_the_minimum_follows_the_replicas() -> None:
    """How many must be in sync is limited by the replicas that there are, those included that come or go."""
    before = registration((1, 2))
    on_the_way = change(before, moved(before, 1, 2, 3), min_isr=3)
    assert change(on_the_way, Wanted(isr=ids(1)), min_isr=3).elr == (2,)
    assert change(on_the_way, Wanted(isr=ids(1, 2, 3)), min_isr=3).elr == ()
    lagging = change(on_the_way, Wanted(isr=ids(1)), min_isr=3)
    assert change(lagging, taken_back(lagging), min_isr=3).elr == (2,)
