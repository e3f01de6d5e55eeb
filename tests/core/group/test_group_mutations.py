"""Wrong rules about groups: a scenario that the right rules pass convicts every one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nemesis.variants import groups
from nemesis.variants.mutant import overridden
from replica.core.rules import Rules
from replica.core.rules.group import GroupRules
from tests.core.decisions import TABLES, decide
from tests.core.group import convictions, wrong_rules
from tests.core.group.decisions import GROUP_TABLES

CONVICTED: list[tuple[type[Rules], Callable[[Rules], None]]] = [
    (groups.LeadsBeforeApplying, convictions.what_an_earlier_leader_has_answered_is_read),
    (groups.LeadsAfterResigning, convictions.who_has_resigned_does_not_lead),
    (groups.ReadsWithoutAsking, convictions.a_linearizable_question_waits_for_a_majority),
    (groups.ReadsBeforeApplying, convictions.an_answer_has_all_that_was_committed_before),
    (groups.SnapshotOneOff, convictions.a_snapshot_ends_behind_its_last_record),
    (groups.SessionsNotInSnapshot, convictions.a_command_that_is_sent_again_is_applied_once_after_a_restart),
    (groups.ReadIndexOfAnOldFetch, convictions.a_fetch_that_was_sent_before_the_question_does_not_confirm_it),
    (wrong_rules.LeaseWithoutAnEnd, convictions.a_lease_ends_before_a_faster_clock_has_counted_a_timeout),
    (wrong_rules.LedByTheFirst, convictions.groups_take_turns),
    (wrong_rules.TriesAgainAndAgain, convictions.an_attempt_in_vain_is_not_soon_repeated),
    *convictions.OF_LOGS,
]


@pytest.mark.parametrize(("wrong", "scenario"), CONVICTED, ids=lambda value: value.__name__)
def test_wrong_rules_are_convicted(wrong: type[Rules], scenario: Callable[[Rules], None]) -> None:
    """The scenario holds under the right rules and not under the wrong one."""
    scenario(Rules())
    with pytest.raises(AssertionError):
        scenario(wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision about a group goes without a scenario that would notice it wrong."""
    rules = {name for name in vars(GroupRules) if not name.startswith("_")}
    assert {name for wrong, _ in CONVICTED for name in overridden(wrong)} >= rules


@pytest.mark.parametrize("wrong", [wrong for wrong, _ in CONVICTED], ids=lambda value: value.__name__)
def test_a_wrong_rule_is_wrong_in_its_table_too(wrong: type[Rules]) -> None:
    """Each decides one thing, and at least one question of its table otherwise than the right rules."""
    (rule,) = overridden(wrong)
    assert any(decide(wrong(), rule, row) != row.expected for row in {**TABLES, **GROUP_TABLES}[rule])
