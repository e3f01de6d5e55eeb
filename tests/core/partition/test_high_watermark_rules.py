"""High watermark: whom a leader counts and when it counts anew, where other tests of it do not look.

Source: Kafka ``Partition.maybeIncrementLeaderHW``; KAFKA-15583 (the minimum ISR), KIP-841 (fenced members).
"""

from __future__ import annotations

import pytest

from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from tests.core.partition.bench import PartitionBench, broker, registration

LAG_MS = 30_000


def leading(*, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), min_isr: int = 1) -> PartitionBench:
    """Broker 1 leads epoch 5 with six records of epoch 4."""
    bench = PartitionBench(log=[(4, 6)])
    topic = TopicConfig(min_insync_replicas=min_isr)
    bench.metadata(registration(1, 5, replicas=replicas, isr=isr), topic=topic)
    return bench


def test_minimum_isr_counts_committed_members_only() -> None:
    """A follower that is merely proposed makes no minimum: nothing is committed before it is in the committed ISR."""
    bench = leading(isr=(1,), min_isr=2)
    bench.fetch(2, 6)
    assert (bench.maximal_isr, bench.high_watermark) == ({1, 2}, 0)
    proposal = bench.proposal()
    assert proposal is not None
    bench.altered(proposal)
    assert (bench.isr, bench.high_watermark) == ({1, 2}, 6)


def test_high_watermark_does_not_fall_within_a_leadership() -> None:
    """A follower that comes back with less than it had acknowledged takes back nothing that is committed."""
    bench = leading(isr=(1, 2))
    bench.fetch(2, 6)
    bench.fetch(2, 3)
    assert bench.high_watermark == 6
    bench.fill(2)
    assert bench.high_watermark == 6
    bench.fetch(2, 8)
    assert bench.high_watermark == 8


def test_high_watermark_moves_by_no_timer() -> None:
    """A replica outside the ISR that has lagged for too long is waited for no more, from the next event on."""
    bench = leading(isr=(1, 2), replicas=(1, 2))
    bench.fetch(2, 6)
    bench.fill(4)
    bench.metadata(registration(1, 5, partition_epoch=501, replicas=(1, 2), isr=(1,)))
    bench.elapse(2 * LAG_MS)
    assert bench.high_watermark == 6
    bench.fill(1)
    assert bench.high_watermark == 11


@pytest.mark.parametrize(
    "state",
    [broker(2, fenced=True), broker(2, leaving=True), broker(2, epoch=21)],
    ids=["fenced", "shutting_down", "restarted"],
)
def test_member_counts_until_the_controller_has_put_it_out(state: BrokerRegistration) -> None:
    """Who could not join any more may be elected while it is in the ISR: nothing is committed without it."""
    bench = leading(isr=(1, 2), replicas=(1, 2))
    bench.fetch(2, 6)
    bench.fill(4)
    bench.metadata(registration(1, 5, replicas=(1, 2), isr=(1, 2)), changed=[state])
    assert bench.high_watermark == 6
    bench.metadata(registration(1, 5, partition_epoch=501, replicas=(1, 2), isr=(1,)))
    assert bench.high_watermark == 10
