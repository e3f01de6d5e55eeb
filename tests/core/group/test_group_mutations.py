"""Wrong rules about groups: a test that the right rules pass convicts every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from nemesis.variants import groups
from nemesis.variants.mutant import overridden
from replica.core.rules import Rules
from replica.core.rules.group import GroupRules
from tests.core import test_raft_transfer as transfer
from tests.core.decisions import TABLES, decide
from tests.core.group import test_balancing as balancing
from tests.core.group import test_leading as leading
from tests.core.group import test_leases as leases
from tests.core.group import test_reading as reading
from tests.core.group import test_snapshotting as snapshotting
from tests.core.group import wrong_rules
from tests.core.group.decisions import GROUP_TABLES
from tests.core.ruled import assert_convicts

CONVICTED: Sequence[tuple[type[Rules], Callable[[], None]]] = [
    (groups.LeadsBeforeApplying, leading.test_handle_leader_change_fires_after_listener_reaches_epoch_start_offset),
    (groups.LeadsAfterResigning, leading.test_a_resigned_leader_is_not_announced_again),
    (groups.ReadsWithoutAsking, reading.test_a_linearizable_question_waits_for_the_echo_of_its_round),
    (groups.ReadsBeforeApplying, reading.test_a_question_waits_until_its_read_index_is_applied),
    (groups.SnapshotOneOff, snapshotting.test_a_snapshot_is_taken_after_so_many_bytes),
    (groups.SessionsNotInSnapshot, snapshotting.test_a_retried_command_is_applied_once_across_snapshot_and_restart),
    (groups.ReadIndexOfAnOldFetch, reading.test_a_linearizable_question_waits_for_the_echo_of_its_round),
    (groups.LeaseEndedByARefusal, leases.test_evidence_of_a_leaders_end_does_not_free_its_voters),
    (wrong_rules.LeaseWithoutAnEnd, leases.test_a_lease_ends_before_a_faster_clock_has_counted_a_timeout),
    (wrong_rules.LeaseByOneClock, leases.test_a_lease_ends_before_a_faster_clock_has_counted_a_timeout),
    (wrong_rules.LeaseFromTheFetch, leases.test_a_lease_is_counted_from_the_beginning_of_its_round),
    (wrong_rules.VotesWithinALease, leases.test_a_voter_that_hears_from_a_leader_votes_for_nobody),
    (wrong_rules.ForgetsWhomItHeard, leases.test_a_voter_that_starts_votes_for_nobody),
    (wrong_rules.ResignsAtOnce, transfer.test_a_transfer_waits_until_its_target_has_everything),
    (wrong_rules.LedByTheFirst, balancing.test_groups_end_up_spread_over_the_replicas),
    (wrong_rules.TriesAgainAndAgain, balancing.test_an_attempt_in_vain_is_not_soon_repeated),
]


@pytest.mark.parametrize(("wrong", "test"), [pytest.param(*pair, id=pair[0].__name__) for pair in CONVICTED])
def test_wrong_rules_are_convicted(wrong: type[Rules], test: Callable[[], None]) -> None:
    """A test of the rule holds under the right rules and not under the wrong one."""
    assert_convicts(test, wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision about a group goes without a test that would notice it wrong."""
    rules = {name for name in vars(GroupRules) if not name.startswith("_")}
    assert {name for wrong, _ in CONVICTED for name in overridden(wrong)} >= rules


@pytest.mark.parametrize("wrong", [wrong for wrong, _ in CONVICTED], ids=lambda value: value.__name__)
def test_a_wrong_rule_is_wrong_in_its_table_too(wrong: type[Rules]) -> None:
    """Each decides one thing, and at least one question of its table otherwise than the right rules."""
    (rule,) = overridden(wrong)
    assert any(decide(wrong(), rule, row) != row.expected for row in {**TABLES, **GROUP_TABLES}[rule])
