"""Scenarios of one broker that the right rules pass and a wrong one does not.

Each is asked with rules and raises AssertionError where they are wrong.
"""

from __future__ import annotations

from replica.core import effects as fx
from replica.core.rules import Rules
from tests.core.broker.bench import BrokerBench, changed, recovered, registered, registration, topic, topic_partition

A = topic_partition("topic", 0)


def followed(rules: Rules) -> BrokerBench:
    """Broker 1 follows broker 2 in epoch 0, and is in sync."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3))}, rules=rules)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, registration(2, 1, leader=2)))
    return bench


def a_damaged_log_that_is_counted_on_is_kept(rules: Rules) -> None:
    bench = followed(rules)
    bench.damage(A)
    assert bench.made(fx.ReplaceLog) == []
    bench.decide(changed(7, 0, registration(2, 1, leader=2, epoch=1, partition_epoch=1)))
    assert bench.made(fx.ReplaceLog) == []
