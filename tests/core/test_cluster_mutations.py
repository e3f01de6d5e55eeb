"""Wrong protocols of partitions and of their controller: a test that the right rules pass convicts each of them.

Every mutant that can be run on a cluster is here, and some more, so that no decision is without a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

import pytest

from nemesis.variants.catalogue import BUILT
from nemesis.variants.worlds import WorldKind
from replica.core.rules import Rules
from replica.core.rules.controller import ControllerRules
from replica.core.rules.partition import PartitionRules
from tests.core.broker import test_damaged_logs as damaged_logs
from tests.core.controller import test_alter_reassignments as reassignments
from tests.core.controller import test_configs as configs
from tests.core.controller import test_damaged_logs as damage
from tests.core.controller import test_eligible_leader_replicas as elr
from tests.core.controller import test_features as features
from tests.core.controller import test_fencing as fencing
from tests.core.controller import test_quorum_controller as quorum_controller
from tests.core.controller import test_refusals as refusals
from tests.core.controller import test_registration as registration
from tests.core.controller import test_topics as topics
from tests.core.controller.bench import CONFIG
from tests.core.controller.decisions import CONTROLLER_TABLES
from tests.core.decisions import Row, decide
from tests.core.partition import test_follower_fetching as following
from tests.core.partition import test_follower_of_a_leader as follower_of_a_leader
from tests.core.partition import test_follower_truncation as truncation
from tests.core.partition import test_isr_changes as isr
from tests.core.partition import test_isr_replies as replies
from tests.core.partition import test_leader_fetch as fetch
from tests.core.partition import test_leader_inspecting as inspecting
from tests.core.partition import test_leader_produce as produce
from tests.core.partition import test_leader_watermark as watermark
from tests.core.partition import test_partition_metadata as metadata
from tests.core.partition.bench import broker
from tests.core.partition.decisions import PARTITION_TABLES
from tests.core.ruled import assert_convicts, rules_now
from tests.storage.recovering import every_epoch_of_the_batches_is_recovered

Test = Callable[[], None]

AN_OLDER_BROKER = (1, {**features.ALL_NEW, 3: 1}, 2, "replica 3 knows 1 at the most")

BUILT_CONVICTED: Mapping[str, Test] = {
    "offset-without-epoch": fetch.test_diverging_epoch,
    "exact-truncation-without-fencing": fetch.test_fenced_error_caused_by_become_leader,
    "unfenced-fetch": fetch.test_fenced_error_caused_by_become_leader,
    "expand-below-epoch-start": partial(isr.test_isr_expansion_waits_for_the_start_of_the_epoch, 5, joins=False),
    "epoch-assigned-at-first-append": metadata.test_make_leader_updates_epoch_cache,
    "epoch-zero-not-recovered": lambda: every_epoch_of_the_batches_is_recovered(rules_now()),
    "same-leader-needs-no-truncation": metadata.test_make_follower_with_no_leader_id_change,
    "truncation-keeps-empty-epochs": partial(truncation.test_truncate_to_end_offset_clears_epoch_cache, 0),
    "high-watermark-below-new-log-start": truncation.test_log_before_the_leaders_start_begins_anew,
    "no-high-watermark-after-shrink": isr.test_maybe_shrink_isr,
    "late-alter-partition-reply": replies.test_alter_isr_leader_and_isr_race,
    "high-watermark-below-min-isr": watermark.test_high_watermark_stays_below_min_isr,
    "ineligible-replica-joins": partial(
        isr.test_isr_expansion_of_eligible_replicas, broker(3, fenced=True), 30, joins=False
    ),
    "retention-above-high-watermark": following.test_log_start_stays_below_the_high_watermark,
    "high-watermark-forgotten-at-start": watermark.test_new_leader_starts_from_its_own_high_watermark,
    "churn-at-equal-ends": isr.test_should_not_shrink_isr_if_follower_caught_up_to_log_end,
    "high-watermark-of-committed-isr": isr.test_joining_follower_counts_at_once,
    "shrink-before-commit": isr.test_maybe_shrink_isr,
    "high-watermark-of-isr-majority": watermark.test_high_watermark_is_the_minimum_of_the_isr,
    "producer-state-not-rebuilt": partial(follower_of_a_leader.test_producers_are_known_to_leader_and_follower, 0),
    "unclean-restart-stays-in-isr": elr.test_eligible_leader_replicas_unclean_shutdown,
    "brokers-by-id-alone": registration.test_an_empty_disk_with_the_old_id_is_never_elected,
    "killed-while-it-registers": registration.test_a_broker_that_is_killed_while_it_registers_stays_eligible,
    "fences-by-an-old-refusal": refusals.test_evidence_that_is_older_than_a_heartbeat_fences_nobody,
    "producer-ids-not-in-snapshot": topics.test_producer_ids_are_given_once,
    "min-isr-after-append": produce.test_not_enough_replicas_refuses_before_append,
    "timeout-drops-maximal-isr": partial(replies.test_partition_should_retry_alter_partition_request, None),
    "damaged-log-emptied-in-sync": damaged_logs.test_log_that_is_counted_on_is_kept,
    "empty-directory-believed": damaged_logs.test_log_that_is_counted_on_is_kept,
    "offline-replica-elected": damage.test_another_leads_at_once_where_that_may_lose_records,
    "level-raised-unasked": partial(features.test_who_keeps_the_level_from_being_raised, *AN_OLDER_BROKER),
    "settings-before-their-level": configs.test_nothing_is_written_before_all_replicas_know_such_records,
    "decision-told-at-once": quorum_controller.test_answer_is_told_once_it_is_committed,
    "minimum-changes-unnoticed": elr.test_higher_minimum_refuses_proposals_of_who_does_not_know_it,
    "reassigned-at-once": reassignments.test_reassign_partitions,
}

OTHERS_CONVICTED: Mapping[str, tuple[object, Test]] = {
    "metadata_is_older": (False, replies.test_metadata_of_the_answer_changes_nothing),
    "metadata_replaces_isr": (True, metadata.test_equal_epochs_do_not_replace_what_is_pending),
    "new_leader_high_watermark": (6, watermark.test_new_leader_starts_from_its_own_high_watermark),
    "remotes_are_kept": (True, watermark.test_leader_that_missed_an_epoch_knows_nothing_of_the_others),
    "has_enough_replicas": (True, produce.test_not_enough_replicas_refuses_before_append),
    "is_stale_incarnation": (
        False,
        partial(fetch.test_fence_follower_fetch_with_stale_broker_epoch, told_by="metadata"),
    ),
    "is_below_log_start": (False, fetch.test_out_of_range_before_divergence),
    "last_caught_up_ms": (None, isr.test_should_not_shrink_isr_if_previous_fetch_is_caught_up),
    "leader_acknowledges": (7, watermark.test_leader_counts_with_its_flushed_end),
    "knows_high_watermark": (True, partial(inspecting.test_latest_is_not_available_until_the_leader_knows, None)),
    "answer_is_current": (True, following.test_fenced_answer_of_an_earlier_epoch_stops_nothing),
    "may_expire_by_time": (True, partial(metadata.test_nothing_is_too_old_by_a_clock_that_jumped, metadata.DAYS_MS)),
    "may_take_producer": (True, produce.test_many_producer_ids_have_nobody_forgotten),
    "sequence_error": (None, produce.test_out_of_order_sequence_is_definitely_not_appended),
    "broker_id_is_taken": (False, registration.test_reregister_while_the_session_is_valid),
    "registration_is_late": (False, registration.test_a_registration_that_was_held_up_replaces_nobody),
    "may_unfence": (True, fencing.test_broker_is_unfenced_once_it_has_applied_its_registration),
    "isr_after_leaving": ((), refusals.test_a_broker_whose_process_has_ended_is_fenced_at_once),
    "eligible_leader_replicas": ((), elr.test_eligible_leader_replicas_broker_fence),
    "leader_candidates": ((), partial(fencing.test_remove_leaderships, CONFIG)),
    "elect_leader": (None, partial(fencing.test_remove_leaderships, CONFIG)),
    "last_resort_leader": (None, registration.test_unclean_stop_of_everybody_leaves_who_led_last),
    "damage_begins_new_epoch": (False, damage.test_damage_of_a_follower_ends_the_leader_epoch),
    "bumps_leader_epoch": (False, partial(registration.test_the_same_broker_leads_again_in_a_later_epoch, CONFIG)),
}
"""Rules that no published mutant is about, each with one answer to all questions."""


def stuck(rule: str, answer: object) -> type[Rules]:
    """Rules in which one rule always gives the same answer."""
    return type(f"stuck_{rule}", (Rules,), {rule: lambda self, **asked: answer})  # noqa: ARG005 - as the rule


CONVICTED: Sequence[tuple[type[Rules], Test]] = [
    *((BUILT[name].rules, test) for name, test in BUILT_CONVICTED.items()),
    *((stuck(rule, answer), test) for rule, (answer, test) in OTHERS_CONVICTED.items()),
]


@pytest.mark.parametrize(("wrong", "test"), [pytest.param(*pair, id=pair[0].__name__) for pair in CONVICTED])
def test_wrong_rules_are_convicted(wrong: type[Rules], test: Test) -> None:
    """A test of the rule holds under the right rules and not under the wrong one."""
    assert_convicts(test, wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision of a partition or a controller goes without a test that would notice it wrong."""
    rules = {name for part in (PartitionRules, ControllerRules) for name in vars(part) if not name.startswith("_")}
    overridden = set(chain.from_iterable(BUILT[name].overrides for name in BUILT_CONVICTED))
    assert rules <= overridden | OTHERS_CONVICTED.keys()


def test_every_mutant_that_can_be_run_on_a_cluster_is_convicted() -> None:
    """None of them is without a test."""
    assert BUILT_CONVICTED.keys() == {name for name, variant in BUILT.items() if variant.world is WorldKind.CLUSTER}


def _decides_otherwise(rules: Rules, rule: str, rows: Iterable[Row]) -> bool:
    return any(decide(rules, rule, row) != row.expected for row in rows)


@pytest.mark.parametrize("rule", OTHERS_CONVICTED)
def test_what_no_mutant_is_about_is_wrong_in_its_table_too(rule: str) -> None:
    """The answer that never changes is wrong for at least one question."""
    rows = {**PARTITION_TABLES, **CONTROLLER_TABLES}[rule]
    assert _decides_otherwise(stuck(rule, OTHERS_CONVICTED[rule][0])(), rule, rows)
