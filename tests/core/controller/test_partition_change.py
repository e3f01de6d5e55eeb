"""One change of one partition as tables: Kafka's PartitionChangeBuilderTest, name by name.

Replicas 1, 2 and 3, leader 1, leader epoch 5, partition epoch 9, minimum ISR 2, unless a row says something else.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replica.core.controller.partition_change import Circumstances, Election, Wanted, changed
from replica.core.controller.reassignment import Reassignment
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.core.rules import Rules
from replica.ids import ReplicaId
from tests.core.controller.bench import ids, registration

RECOVERED = LeaderRecoveryState.RECOVERED


def change(
    before: PartitionRegistration,
    wanted: Wanted,
    *,
    active: tuple[int, ...] = (1, 2, 3, 4),
    min_isr: int = 2,
    elr: bool = True,
    unclean: bool = False,
) -> PartitionRegistration:
    circumstances = Circumstances(
        active=frozenset(ids(*active)), min_insync_replicas=min_isr, elr_enable=elr, unclean_allowed=unclean
    )
    return changed(before, wanted, circumstances, Rules())


def leaving(*replicas: int, unclean: bool = False) -> Wanted:
    gone = frozenset(ids(*replicas))
    return Wanted(leaving=gone, stopped_uncleanly=gone if unclean else frozenset())


@pytest.mark.parametrize(
    ("before", "election", "active", "leader"),
    [
        pytest.param(registration(), Election.ONLINE, (1, 2, 3), 1, id="present_leader_goes_on"),
        pytest.param(registration(leader=2), Election.ONLINE, (1, 2, 3), 2, id="online_keeps_another_than_preferred"),
        pytest.param(registration(leader=2), Election.PREFERRED, (1, 2, 3), 1, id="preferred_moves"),
        pytest.param(registration(leader=2), Election.PREFERRED, (2, 3), 2, id="preferred_is_not_active"),
        pytest.param(registration(isr=(2, 3), leader=2), Election.PREFERRED, (1, 2, 3), 2, id="preferred_not_in_isr"),
        pytest.param(registration(leader=None), Election.ONLINE, (3, 2), 2, id="first_in_the_order_of_assignment"),
        pytest.param(registration((3, 1, 2), (1, 2), 2), Election.ONLINE, (1, 3), 1, id="first_that_is_in_the_isr"),
        pytest.param(registration(isr=(1,), leader=None), Election.ONLINE, (2, 3), None, id="nobody_in_sync_is_alive"),
        pytest.param(
            registration(isr=(1,), leader=None), Election.PREFERRED, (2,), None, id="preferred_is_never_unclean"
        ),
        pytest.param(registration(isr=(1,), leader=None), Election.UNCLEAN, (2, 3), 2, id="unclean_takes_any"),
        pytest.param(registration(isr=(2,), leader=2), Election.UNCLEAN, (1, 2, 3), 2, id="unclean_prefers_clean"),
        pytest.param(
            registration(isr=(1,), leader=None), Election.UNCLEAN, (), None, id="unclean_needs_somebody_alive"
        ),
    ],
)
def test_elect_leader(
    before: PartitionRegistration, election: Election, active: tuple[int, ...], leader: int | None
) -> None:
    """The present leader goes on if it can; then the first in sync that is alive; only then, if at all, another."""
    allowed = election is Election.PREFERRED
    assert change(before, Wanted(election=election), active=active, unclean=allowed).leader_id == leader


@pytest.mark.parametrize("election", Election)
def test_nothing_to_change(election: Election) -> None:
    """A change that changes nothing bumps nothing."""
    assert change(registration(), Wanted(election=election)) == registration()


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize(
    ("before", "isr", "epochs"),
    [
        pytest.param(registration(), (2, 3), (6, 10), id="leader_leaves_the_isr"),
        pytest.param(registration(), (3, 2, 1), (5, 9), id="another_order_is_no_change"),
    ],
)
def test_isr_changes(before: PartitionRegistration, isr: tuple[int, ...], epochs: tuple[int, int], elr: bool) -> None:
    """Every change bumps the partition epoch; the leader epoch only with the leader."""
    assert_isr_changes(before, isr, epochs, elr=elr)


@pytest.mark.parametrize("elr", [True, False])
def test_no_leader_epoch_bump_on_isr_shrink(elr: bool) -> None:
    """A member that leaves the ISR ends no leader epoch (KAFKA-15021)."""
    assert_isr_changes(registration(), (1, 2), (5, 10), elr=elr)


@pytest.mark.parametrize("elr", [True, False])
def test_no_leader_epoch_bump_on_isr_expansion(elr: bool) -> None:
    """A member that joins the ISR ends no leader epoch."""
    assert_isr_changes(registration(isr=(1, 2)), (1, 2, 3), (5, 10), elr=elr)


def assert_isr_changes(
    before: PartitionRegistration, isr: tuple[int, ...], epochs: tuple[int, int], *, elr: bool
) -> None:
    """After the change the partition has this ISR and is in these epochs."""
    after = change(before, Wanted(isr=ids(*isr)), elr=elr)
    assert after.isr == tuple(sorted(isr))
    assert (after.leader_epoch, after.partition_epoch) == epochs


@pytest.mark.parametrize(
    ("replicas", "leader_epoch"),
    [
        pytest.param((2, 1, 4), 6, id="one_is_replaced"),
        pytest.param((1, 2), 6, id="one_is_removed"),
        pytest.param((1, 2, 3, 4), 5, id="one_is_added"),
        pytest.param((3, 2, 1), 5, id="another_order"),
    ],
)
def test_assignment_changes(replicas: tuple[int, ...], leader_epoch: int) -> None:
    """A replica that leaves the assignment ends the leader epoch, though the leader stays; one that joins does not."""
    after = change(registration(), Wanted(reassignment=Reassignment(replicas=ids(*replicas))), active=(1, 2, 3, 4))
    assert after.replicas == ids(*replicas)
    assert set(after.isr) <= set(replicas)
    assert (after.leader_id, after.leader_epoch, after.partition_epoch) == (1, leader_epoch, 10)


def test_leader_epoch_bump_on_new_replica_set_disjoint() -> None:
    """An assignment without some of the replicas begins a leader epoch, whoever of the others leads."""
    for replicas in ((2, 1, 4), (1, 4, 5)):
        after = change(
            registration(), Wanted(reassignment=Reassignment(replicas=ids(*replicas))), active=(1, 2, 3, 4, 5)
        )
        assert (after.leader_id, after.leader_epoch, after.partition_epoch) == (1, 6, 10)


def test_touch_counts_as_a_change() -> None:
    """A change that was asked for as such gets its partition epoch even if nothing else is different."""
    assert change(registration(), Wanted(touch=True)) == registration(partition_epoch=10)


@pytest.mark.parametrize("elr", [True, False])
def test_unclean_leader_election(elr: bool) -> None:
    """A leader that was not in sync becomes the whole ISR, and has yet to say that it has recovered."""
    before = registration(isr=(1,), leader=1)
    after = change(before, leaving(1), active=(2, 3), unclean=True, elr=elr)
    assert (after.leader_id, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2,), 6, 10)
    assert after.leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert after.last_known_leader is None


@pytest.mark.parametrize("recovering", [True, False])
@pytest.mark.parametrize("gone", [(1,), (1, 2, 3)])
def test_change_in_leadership_does_not_change_recovery_state(recovering: bool, gone: tuple[int, ...]) -> None:
    """A clean change of leaders says nothing about whether the partition has recovered."""
    before = registration(recovering=recovering)
    active = tuple({1, 2, 3} - set(gone))
    after = change(before, leaving(*gone), active=active)
    assert after.leader_id != 1
    assert after.leader_recovery_state is before.leader_recovery_state


def test_recovery_ends_when_the_leader_says_so() -> None:
    """The state that is proposed is taken, as a change of its own."""
    after = change(registration(isr=(1,), recovering=True), Wanted(isr=ids(1), leader_recovery_state=RECOVERED))
    assert (after.leader_recovery_state, after.partition_epoch, after.leader_epoch) == (RECOVERED, 10, 5)


# --- the last member ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unclean_stop", [True, False])
def test_last_member_stays_without_elr(unclean_stop: bool) -> None:
    """Without eligible leader replicas the last member is remembered by its place, whatever its end was."""
    after = change(registration(isr=(1,)), leaving(1, unclean=unclean_stop), active=(2, 3), elr=False)
    assert (after.leader_id, after.isr, after.elr, after.last_known_leader) == (None, (1,), (), None)
    assert (after.leader_epoch, after.partition_epoch) == (6, 10)
    assert change(after, Wanted(), active=(1,), elr=False).leader_id == 1


def test_eligible_leader_replicas_isr_can_shrink_to_zero() -> None:
    """With them the ISR may become empty: the members that left are eligible, and who led is known."""
    after = change(registration(isr=(1, 2)), leaving(1, 2), active=(3,))
    assert (after.leader_id, after.isr, after.elr, after.last_known_leader) == (None, (), (1, 2), 1)
    assert (after.leader_epoch, after.partition_epoch) == (6, 10)


@pytest.mark.parametrize(
    ("before", "wanted", "isr", "elr"),
    [
        pytest.param(registration(), leaving(3), (1, 2), (), id="enough_are_left"),
        pytest.param(registration(isr=(1, 2)), leaving(2), (1,), (2,), id="too_few_are_left"),
        pytest.param(registration(isr=(1, 2, 3)), leaving(2, 3), (1,), (2, 3), id="several_leave"),
        pytest.param(registration(isr=(1, 2)), leaving(2, unclean=True), (1,), (), id="unclean_stop"),
        pytest.param(registration(isr=(1,), elr=(2, 3)), leaving(3, unclean=True), (1,), (2,), id="unclean_stop_later"),
        pytest.param(registration(isr=(1,), elr=(2, 3)), leaving(3), (1,), (2, 3), id="eligible_and_fenced_again"),
        pytest.param(registration(isr=(1,), elr=(2, 3)), Wanted(isr=ids(1, 2)), (1, 2), (), id="enough_are_back"),
        pytest.param(registration(isr=(1,), elr=(2,)), Wanted(isr=ids(1, 3)), (1, 3), (), id="enough_with_another"),
    ],
)
def test_eligible_leader_replicas(
    before: PartitionRegistration, wanted: Wanted, isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    """Below the minimum whoever leaves stays eligible, unless it stopped uncleanly; at the minimum nobody is."""
    after = change(before, wanted)
    assert (after.isr, after.elr) == (isr, elr)


@pytest.mark.parametrize(
    ("before", "active", "expected"),
    [
        pytest.param(((), (2, 3), None), (1, 3), (3, (3,), (2,)), id="eligible_and_alive"),
        pytest.param(((), (2, 3), None), (1,), (None, (), (2, 3)), id="none_of_them_alive"),
        pytest.param(((), (2, 3), 1), (1,), (None, (), (2, 3)), id="last_known_leader_waits_for_the_eligible"),
    ],
)
def test_election_with_an_empty_isr(
    before: tuple[tuple[int, ...], tuple[int, ...], int | None],
    active: tuple[int, ...],
    expected: tuple[int | None, tuple[int, ...], tuple[int, ...]],
) -> None:
    """An eligible replica leads, at no loss and with nothing to recover; while none is alive nobody does."""
    isr, elr, last_known = before
    start = registration(isr=isr, elr=elr, leader=None, last_known_leader=last_known)
    after = change(start, Wanted(), active=active)
    assert (after.leader_id, after.isr, after.elr) == expected
    assert after.last_known_leader == (None if after.isr else last_known)
    assert after.leader_recovery_state is RECOVERED


def test_eligible_leader_replicas_elect_last_known_leader() -> None:
    """Where nobody is eligible any more who led last leads again, alone, and has to recover."""
    start = registration(isr=(), leader=None, last_known_leader=2)
    after = change(start, Wanted(), active=(1, 2, 3))
    assert (after.leader_id, after.isr, after.elr, after.last_known_leader) == (2, (2,), (), None)
    assert after.leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert (after.leader_epoch, after.partition_epoch) == (6, 10)


def test_eligible_leader_replicas_elect_last_known_leader_should_fail() -> None:
    """While who led last is dead nobody leads, whoever else is alive, and it stays known who that is."""
    start = registration(isr=(), leader=None, last_known_leader=2)
    assert change(start, Wanted(), active=(1, 3)) == start


def test_unclean_election_before_the_last_known_leader_is_back() -> None:
    """A topic that allows it does not wait for who led last, but prefers it when it is there."""
    start = registration(isr=(), leader=None, last_known_leader=3)
    assert change(start, Wanted(), active=(1, 2), unclean=True).leader_id == 1
    assert change(start, Wanted(), active=(1, 2, 3), unclean=True).leader_id == 3


def test_switching_elr_off_keeps_who_is_eligible() -> None:
    """Who was eligible before stays so and can lead; nobody becomes so any more."""
    start = registration(isr=(), elr=(2,), leader=None, last_known_leader=1)
    assert change(start, Wanted(), active=(1, 2), elr=False).isr == (2,)
    assert change(registration(isr=(1, 3), elr=()), leaving(3), active=(1,), elr=False).elr == ()


def test_switching_elr_on_remembers_the_last_member() -> None:
    """A dead last member without a leadership that stops uncleanly is still who led last."""
    start = registration(isr=(1,), leader=None)
    after = change(start, leaving(1, unclean=True), active=(2, 3))
    assert (after.isr, after.elr, after.last_known_leader) == ((), (), 1)


# --- any change -----------------------------------------------------------------------------------------------------

REPLICAS = st.sets(st.sampled_from((1, 2, 3, 4)))


@given(
    places=st.lists(st.sampled_from(("isr", "elr", "out")), min_size=4, max_size=4),
    wanted_leaving=REPLICAS,
    unclean_stop=st.booleans(),
    active=REPLICAS,
    min_isr=st.integers(1, 4),
    election=st.sampled_from(Election),
    elr=st.booleans(),
    unclean=st.booleans(),
)
def test_any_change_is_sound(
    places: list[str],
    wanted_leaving: set[int],
    unclean_stop: bool,
    active: set[int],
    min_isr: int,
    election: Election,
    elr: bool,
    unclean: bool,
) -> None:
    """Whatever happens: a leader is in sync and active, nobody in sync is eligible, a second time changes nothing."""
    isr = tuple(number for number, place in enumerate(places, 1) if place == "isr")
    eligible = tuple(number for number, place in enumerate(places, 1) if place == "elr")
    before = registration((1, 2, 3, 4), isr, isr[0] if isr else None, elr=eligible)
    wanted = replace(leaving(*wanted_leaving, unclean=unclean_stop), election=election)
    alive = tuple(active - wanted_leaving)

    after = change(before, wanted, active=alive, min_isr=min_isr, elr=elr, unclean=unclean)

    assert after.leader_id is None or (after.leader_id in after.isr and after.leader_id in alive)
    assert not set(after.isr) & set(after.elr)
    assert after.elr == () or len(after.isr) < min_isr
    assert (after.leader_id != before.leader_id) == (after.leader_epoch == before.leader_epoch + 1)
    assert (after != before) == (after.partition_epoch == before.partition_epoch + 1)
    assert change(after, wanted, active=alive, min_isr=min_isr, elr=elr, unclean=unclean) == after
    lost = {ReplicaId(replica) for replica in wanted_leaving} if unclean_stop else set()
    if after.leader_recovery_state is RECOVERED and after.isr:
        assert set(after.isr) | set(after.elr) <= set(before.isr) | set(before.elr)
    assert not lost & set(after.elr)
