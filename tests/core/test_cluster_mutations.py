"""Wrong protocols of partitions and of their controller: a scenario that the right rules pass convicts each of them.

Every mutant that can be run on a cluster is here, and some more, so that no decision is without a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

import pytest

from nemesis.variants.catalogue import BUILT
from nemesis.variants.worlds import WorldKind
from replica.core.rules import Rules
from replica.core.rules.controller import ControllerRules
from replica.core.rules.partition import PartitionRules
from tests.core.broker import mutations as broker
from tests.core.controller import mutations as controller
from tests.core.controller.decisions import CONTROLLER_TABLES
from tests.core.decisions import Row, decide
from tests.core.partition import mutations as partition
from tests.core.partition.decisions import PARTITION_TABLES
from tests.storage.recovering import every_epoch_of_the_batches_is_recovered

Scenario = Callable[[Rules], None]

BUILT_CONVICTED: Mapping[str, Scenario] = {
    "offset-without-epoch": partition.logs_part_where_their_epochs_do,
    "exact-truncation-without-fencing": partition.who_lacks_earlier_epochs_does_not_join,
    "unfenced-fetch": partition.a_fetch_of_an_earlier_epoch_acknowledges_nothing,
    "expand-below-epoch-start": partition.who_lacks_earlier_epochs_does_not_join,
    "epoch-assigned-at-first-append": partition.an_epoch_is_known_before_anything_is_written_in_it,
    "epoch-zero-not-recovered": every_epoch_of_the_batches_is_recovered,
    "same-leader-needs-no-truncation": partition.the_same_leader_in_a_new_epoch_is_asked_again,
    "truncation-keeps-empty-epochs": partition.an_empty_epoch_is_not_named_for_ever,
    "high-watermark-below-new-log-start": partition.an_emptied_log_has_nothing_below_its_start,
    "no-high-watermark-after-shrink": partition.what_waited_for_who_is_gone_is_committed,
    "late-alter-partition-reply": partition.an_answer_after_newer_metadata_means_nothing,
    "high-watermark-below-min-isr": partition.nothing_is_committed_below_the_minimum,
    "ineligible-replica-joins": partition.a_fenced_broker_is_not_proposed,
    "retention-above-high-watermark": partition.what_is_not_committed_is_not_forgotten,
    "high-watermark-forgotten-at-start": partition.what_was_committed_is_known_after_a_restart,
    "churn-at-equal-ends": partition.who_has_everything_stays,
    "high-watermark-of-committed-isr": partition.who_is_proposed_counts,
    "shrink-before-commit": partition.who_is_to_leave_counts,
    "high-watermark-of-isr-majority": partition.what_one_lacks_is_not_committed,
    "producer-state-not-rebuilt": partition.a_new_leader_knows_what_its_predecessor_appended,
    "unclean-restart-stays-in-isr": controller.who_stopped_uncleanly_is_not_eligible,
    "brokers-by-id-alone": controller.who_has_another_disk_is_not_elected,
    "killed-while-it-registers": controller.who_was_not_let_in_has_lost_nothing,
    "fences-by-an-old-refusal": controller.evidence_of_an_earlier_process_does_not_fence_the_next,
    "producer-ids-not-in-snapshot": controller.a_producer_id_is_given_once,
    "min-isr-after-append": partition.a_write_with_too_few_replicas_is_refused,
    "timeout-drops-maximal-isr": partition.who_was_proposed_in_vain_counts_until_it_is_sure,
    "damaged-log-emptied-in-sync": broker.a_damaged_log_that_is_counted_on_is_kept,
    "empty-directory-believed": broker.a_damaged_log_that_is_counted_on_is_kept,
    "offline-replica-elected": controller.whose_log_cannot_be_used_does_not_lead,
    "level-raised-unasked": controller.a_level_waits_until_all_know_it,
    "settings-before-their-level": controller.what_came_with_a_level_waits_for_it,
    "decision-told-at-once": controller.a_decision_that_is_not_committed_is_not_told,
    "minimum-changes-unnoticed": controller.a_proposal_by_the_old_minimum_is_refused,
    "reassigned-at-once": controller.who_is_to_go_stays_until_the_others_are_in_sync,
}

OTHERS_CONVICTED: Mapping[str, tuple[object, Scenario]] = {
    "metadata_is_older": (False, partition.older_metadata_changes_nothing),
    "metadata_replaces_isr": (True, partition.a_late_copy_of_the_metadata_drops_no_candidate),
    "new_leader_high_watermark": (6, partition.a_new_leader_calls_nothing_committed),
    "remotes_are_kept": (True, partition.an_end_of_an_earlier_leadership_counts_no_more),
    "has_enough_replicas": (True, partition.a_write_with_too_few_replicas_is_refused),
    "is_stale_incarnation": (False, partition.a_former_incarnation_is_turned_away),
    "is_below_log_start": (False, partition.a_diverged_follower_below_the_log_start_is_out_of_range),
    "last_caught_up_ms": (None, partition.one_fetch_behind_is_caught_up),
    "leader_acknowledges": (7, partition.what_is_not_flushed_is_not_committed),
    "knows_high_watermark": (True, partition.clients_wait_until_a_new_leader_knows_the_end),
    "answer_is_current": (True, partition.an_answer_of_an_earlier_epoch_brings_nothing),
    "may_expire_by_time": (True, partition.nothing_is_too_old_by_a_clock_that_has_just_jumped),
    "may_take_producer": (True, partition.nobody_is_forgotten_for_a_new_producer),
    "sequence_error": (None, partition.a_sequence_with_a_gap_is_refused),
    "broker_id_is_taken": (False, controller.a_broker_that_is_heard_keeps_its_id),
    "registration_is_late": (False, controller.a_registration_that_comes_late_replaces_nobody),
    "may_unfence": (True, controller.a_broker_that_has_not_caught_up_stays_fenced),
    "isr_after_leaving": ((), controller.the_others_stay_in_sync),
    "eligible_leader_replicas": ((), controller.who_leaves_below_the_minimum_is_eligible),
    "leader_candidates": ((), controller.an_active_member_takes_over),
    "elect_leader": (None, controller.an_active_member_takes_over),
    "last_resort_leader": (None, controller.the_last_known_leader_leads_when_all_are_gone),
    "damage_begins_new_epoch": (False, controller.damage_ends_the_leader_epoch),
    "bumps_leader_epoch": (False, controller.another_leader_has_another_epoch),
}
"""Rules that no published mutant is about, each with one answer to all questions."""


def stuck(rule: str, answer: object) -> type[Rules]:
    """Rules in which one rule always gives the same answer."""
    return type(f"stuck_{rule}", (Rules,), {rule: lambda self, **asked: answer})  # noqa: ARG005 - as the rule


CONVICTED: list[tuple[type[Rules], Scenario]] = [
    *((BUILT[name].rules, scenario) for name, scenario in BUILT_CONVICTED.items()),
    *((stuck(rule, answer), scenario) for rule, (answer, scenario) in OTHERS_CONVICTED.items()),
]


@pytest.mark.parametrize(("wrong", "scenario"), CONVICTED, ids=lambda value: value.__name__)
def test_wrong_rules_are_convicted(wrong: type[Rules], scenario: Scenario) -> None:
    """The scenario holds under the right rules and not under the wrong one."""
    scenario(Rules())
    with pytest.raises(AssertionError):
        scenario(wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision of a partition or a controller goes without a scenario that would notice it wrong."""
    rules = {name for part in (PartitionRules, ControllerRules) for name in vars(part) if not name.startswith("_")}
    overridden = set(chain.from_iterable(BUILT[name].overrides for name in BUILT_CONVICTED))
    assert rules <= overridden | OTHERS_CONVICTED.keys()


def test_every_mutant_that_can_be_run_on_a_cluster_is_convicted() -> None:
    """None of them is without a scenario."""
    assert BUILT_CONVICTED.keys() == {name for name, variant in BUILT.items() if variant.world is WorldKind.CLUSTER}


def _decides_otherwise(rules: Rules, rule: str, rows: Iterable[Row]) -> bool:
    return any(decide(rules, rule, row) != row.expected for row in rows)


@pytest.mark.parametrize("rule", OTHERS_CONVICTED)
def test_what_no_mutant_is_about_is_wrong_in_its_table_too(rule: str) -> None:
    """The answer that never changes is wrong for at least one question."""
    rows = {**PARTITION_TABLES, **CONTROLLER_TABLES}[rule]
    assert _decides_otherwise(stuck(rule, OTHERS_CONVICTED[rule][0])(), rule, rows)
