"""Apache Kafka: ``jars`` (the broker itself, as Maven resolves ``pom.xml``) ->
``metadata`` (who leads, asked of one broker in Kafka's protocol) -> ``logs`` (what a broker has on its disk) ->
``client`` (appends and polls by Kafka's own client library) -> ``system`` (brokers that are controllers as well).
"""

from __future__ import annotations

from nemesis.cluster.store import Verb
from nemesis.faults.needs import Need
from nemesis.systems.kafka.jars import check_resolvable, resolve_jars
from nemesis.systems.offer import LACKED, Offer, topic_logs

OFFER = Offer(
    verbs=frozenset({Verb.APPEND}),
    shows_logs=True,
    gapless=topic_logs,
    lacks={**LACKED, Need.WALL_CLOCKS: "libfaketime has not been tried with Java"},
    programs=("java",),
    libraries=("confluent_kafka",),
    check=check_resolvable,
    fetch=resolve_jars,
    runs="three brokers of Apache Kafka 3.9, each a controller too",
    needs="Java 17+, and Maven with a repository",
    expect="valid with `--acks all`; with `--acks 1` writes are lost",
)
