"""Making the topics, by Kafka's own client library, and a first write.

Owns both. A broker that was just started does everything for the first time, which takes seconds that a schedule counts
on: so a topic that nobody judges is written to first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from nemesis.cluster.replica_options import TopicOptions
from nemesis.cluster.system import LogClient
from nemesis.errors import NodeFailedError, NotDoneError, UnknownOutcomeError

CREATED_S_MAX = 20.0
WARM_UP = "warm-up"


def create_topics(addresses: Sequence[str], options: TopicOptions) -> None:
    """Create all of them, and the one for the first write; blocks. Raises NodeFailedError."""
    admin = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})
    topics = [
        NewTopic(
            name,
            num_partitions=options.partitions,
            replication_factor=options.replication_factor,
            config=options.configs,
        )
        for name in (*options.topics, WARM_UP)
    ]
    try:
        for created in admin.create_topics(topics, request_timeout=CREATED_S_MAX).values():
            created.result(CREATED_S_MAX)
    except KafkaException as error:
        raise NodeFailedError(f"the topics cannot be created: {error}") from error


async def warm_up(client: LogClient, partitions: int) -> None:
    """Write to each partition of the topic that nobody judges, and read it, until both have been done."""
    for number in range(partitions):
        name, is_done = f"{WARM_UP}-{number}", False
        while not is_done:
            with suppress(NotDoneError, UnknownOutcomeError):
                await client.append(name, 1)
                await client.poll(name, 0)
                is_done = True
