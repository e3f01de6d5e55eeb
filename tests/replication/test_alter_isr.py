"""What becomes of an ISR that a leader proposes, by the controller's answers to it: Kafka's PartitionTest.

Broker 1 leads; the scenario is the controller.
"""

from __future__ import annotations

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch
from tests.replication.decided import BROKER, NEWS_MS, OTHER, THIRD, DecidedCluster
from tests.replication.stage import FAST_BROKER, Heard

LAG_MS = FAST_BROKER.replica_lag_time_max_ms
Proposed = tuple[DecidedCluster, m.AlterPartition, Heard]
EXPANDED = ({BROKER}, {BROKER, OTHER})
FULL = ({BROKER, OTHER}, {BROKER, OTHER})


def expanding() -> Proposed:
    """A leader that is alone in sync, proposes broker 9, and goes on to write what that one does not have."""
    cluster = DecidedCluster()
    cluster.assign(BROKER, OTHER, THIRD, isr=(BROKER,))
    cluster.append(6)
    cluster.fetch_as(OTHER, 6)
    proposal, heard = cluster.take_proposal()
    assert [member.broker_id for member in proposal.new_isr] == [BROKER, OTHER]
    cluster.append(2)
    return cluster, proposal, heard


def shrinking() -> Proposed:
    """A leader that has written what broker 9 does not fetch, and proposes that this one leaves."""
    cluster = DecidedCluster()
    cluster.assign(BROKER, OTHER, THIRD, isr=(BROKER, OTHER))
    cluster.append(6)
    proposal, heard = cluster.take_proposal()
    assert [member.broker_id for member in proposal.new_isr] == [BROKER]
    return cluster, proposal, heard


def is_proposed_again(cluster: DecidedCluster) -> bool:
    """Whether the leader asks for another ISR within a long time in which nobody fetches; then it appends a record."""
    cluster.pass_ms(3 * LAG_MS)
    cluster.append(1)
    return bool(cluster.proposals)


# --- refused for good -----------------------------------------------------------------------------------------------


def test_isr_not_expanded_if_update_fails() -> None:
    """A candidate that the controller refuses is not in sync, and yet counts, until there is newer metadata."""
    cluster, _, heard = expanding()
    cluster.refuse(heard, ErrorCode.INVALID_REQUEST)

    assert not is_proposed_again(cluster)
    assert (cluster.isrs, cluster.high_watermark) == (EXPANDED, 6)
    cluster.change()
    assert (cluster.isrs, cluster.high_watermark) == (({BROKER}, {BROKER}), 9)


def test_invalid_alter_partition_requests_are_not_retried() -> None:
    """What the controller calls invalid is not asked for again, whoever fetches, until there is newer metadata."""
    cluster, _, heard = expanding()
    cluster.refuse(heard, ErrorCode.INVALID_REQUEST)

    cluster.fetch_as(OTHER, 8)
    cluster.fetch_as(THIRD, 8)
    assert not is_proposed_again(cluster)
    cluster.change()
    cluster.fetch_as(OTHER, 9)
    again, _ = cluster.take_proposal()
    assert again.partition_epoch == 1


def test_isr_not_shrunk_if_update_fails() -> None:
    """A follower that the controller does not put out counts as before, and that is not asked for again."""
    cluster, _, heard = shrinking()
    cluster.refuse(heard, ErrorCode.INVALID_REQUEST)

    assert not is_proposed_again(cluster)
    assert (cluster.isrs, cluster.high_watermark) == (FULL, 0)
    cluster.change(isr=(BROKER,))
    assert (cluster.isrs, cluster.high_watermark) == (({BROKER}, {BROKER}), 7)


def handle_alter_isr_failure(error: ErrorCode) -> bool:
    """Refuse an expansion, and a shrink; both must stay pending. Tell whether they are asked for again."""
    expansion, _, heard = expanding()
    expansion.refuse(heard, error)
    is_repeated = is_proposed_again(expansion)
    assert (expansion.isrs, expansion.high_watermark) == (EXPANDED, 6)

    shrink, _, heard = shrinking()
    shrink.refuse(heard, error)
    assert is_proposed_again(shrink) == is_repeated
    assert (shrink.isrs, shrink.high_watermark) == (FULL, 0)
    return is_repeated


def test_alter_isr_new_leader_elected() -> None:
    """A controller that has elected another leader by this very proposal is not asked again: metadata come."""
    assert not handle_alter_isr_failure(ErrorCode.NEW_LEADER_ELECTED)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID])
def test_alter_isr_unknown_topic(error: ErrorCode) -> None:
    """A controller that knows no such partition knows something newer, and is not asked again."""
    assert not handle_alter_isr_failure(error)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_alter_isr_invalid_version(error: ErrorCode) -> None:
    """A proposal that is overtaken by newer epochs is not made again before those are known."""
    assert not handle_alter_isr_failure(error)


# --- refused for now ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER])
def test_alter_isr_unexpected_error(error: ErrorCode) -> None:
    """Whatever else goes wrong may have been done: both ISRs count, and the same is proposed again."""
    assert handle_alter_isr_failure(error)


def test_retry_shrink_isr() -> None:
    """A shrink that a controller could not decide is proposed again as it was, and is committed then."""
    cluster, proposal, heard = shrinking()
    heard.answer(m.AlterPartitionResponse(error=ErrorCode.NOT_CONTROLLER))

    again, heard = cluster.take_proposal()
    assert again == proposal
    assert cluster.high_watermark == 0
    cluster.accept(again, heard)
    assert (cluster.isrs, cluster.high_watermark) == (({BROKER}, {BROKER}), 6)


# --- overtaken ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_alter_isr_leader_and_isr_race(error: ErrorCode | None) -> None:
    """Newer metadata that come before the answer to a proposal settle it; the answer is about what is no more."""
    cluster, proposal, heard = expanding()
    cluster.change(partition_epoch=5, isr=(BROKER, THIRD))
    settled = ({BROKER, THIRD}, {BROKER, THIRD})
    assert cluster.isrs == settled

    if error is None:
        cluster.accept(proposal, heard)
    else:
        cluster.refuse(heard, error)

    assert (cluster.isrs, cluster.high_watermark) == (settled, 6)
    cluster.fetch_as(OTHER, 8)
    assert cluster.take_proposal()[0].partition_epoch == 5


def test_single_in_flight_alter_isr() -> None:
    """While a proposal is out, nobody else is proposed, however well it keeps up; afterwards it is."""
    cluster, proposal, heard = expanding()
    cluster.fetch_as(THIRD, 8)
    cluster.pass_ms(NEWS_MS)
    assert (list(cluster.proposals), cluster.isrs) == ([], EXPANDED)

    cluster.accept(proposal, heard)
    cluster.fetch_as(THIRD, 8)

    following, _ = cluster.take_proposal()
    assert [member.broker_id for member in following.new_isr] == [BROKER, OTHER, THIRD]
    assert following.partition_epoch == proposal.partition_epoch + 1


def test_isr_can_expanded_if_broker_epochs_match_with_kraft_metadata_cache() -> None:
    """An incarnation that the leader's metadata do not know yet is served, and proposed once they know it (KIP-903)."""
    cluster = DecidedCluster()
    cluster.assign(BROKER, OTHER, isr=(BROKER,))
    cluster.append(6)
    coming = BrokerEpoch(cluster.decided_end)
    assert cluster.fetch_as(OTHER, 6, broker_epoch=coming) is ErrorCode.NONE
    cluster.pass_ms(NEWS_MS)
    assert not cluster.proposals

    assert cluster.register(OTHER, "9.second") == coming
    cluster.pass_ms(NEWS_MS)
    cluster.fetch_as(OTHER, 6)

    proposal, _ = cluster.take_proposal()
    assert proposal.new_isr[1] == m.IsrMember(broker_id=OTHER, broker_epoch=coming)
