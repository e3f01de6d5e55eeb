"""Apache Kafka: ``jars`` (the broker itself, as Maven resolves ``pom.xml``) -> ``settings`` (a broker's properties) ->
``metadata`` (who leads, asked of one broker in Kafka's protocol) -> ``logs`` (what a broker has on its disk) ->
``client`` (appends and polls by Kafka's own client library) -> ``system`` (brokers that are controllers as well).
"""

from __future__ import annotations
