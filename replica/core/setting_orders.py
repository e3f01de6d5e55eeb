"""Two numbers of which one must stay below the other: settings that are each right by themselves and contradict.

Owns these rules; each says in one sentence what is wrong and what comes of it. What the dataclasses of the core refuse
themselves is named here for the reference, and for whoever changes a setting while replicas run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replica.bounds import INT64_MAX
from replica.core.config import InvalidConfigError
from replica.core.settings import REQUEST_OVERHEAD_BYTES

BROKER, CONTROLLER = "broker", "controller"


@dataclass(frozen=True, slots=True)
class Order:
    """``lesser`` and a ``margin`` are at most ``greater``; else comes of it what ``otherwise`` says.

    It holds for processes that have all of these ``roles``: others do not use one of the two.
    """

    lesser: str
    greater: str
    otherwise: str
    margin: int = 0
    roles: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """What must hold, for people."""
        if self.margin <= 1:
            return "must be below" if self.margin else "must be at most"
        return f"must be at least {self.margin} below"

    def check(self, numbers: Mapping[str, Sequence[int]]) -> None:
        """Raise InvalidConfigError for numbers that break the rule: those of all parts that know such a parameter.

        One that nobody has is broken by nothing.
        """
        lesser, greater = max(numbers.get(self.lesser, (0,))), min(numbers.get(self.greater, (INT64_MAX,)))
        if lesser + self.margin > greater:
            raise InvalidConfigError(
                f"{self.lesser} ({lesser}) {self.rule} {self.greater} ({greater}), or {self.otherwise}"
            )


ORDERS_OF_THE_CORE = (
    Order("fetch_max_wait_ms", "fetch_timeout_ms", "an idle leader looks dead", margin=1),
    Order("fetch_max_wait_ms", "request_timeout_ms", "an idle leader's answers come too late", margin=1),
    Order("replica_fetch_wait_max_ms", "replica_socket_timeout_ms", "idle leaders answer too late", margin=1),
    Order("replica_fetch_wait_max_ms", "replica_lag_time_max_ms", "a waiting follower looks out of sync"),
)
"""What the core's own dataclasses refuse, before anybody looks at anything here."""

ORDERS = (
    Order("retry_backoff_ms", "fetch_timeout_ms", "one lost fetch makes a leader look dead", margin=1),
    Order("replica_fetch_backoff_ms", "replica_lag_time_max_ms", "a follower that pauses once is out of sync"),
    Order(
        "replica_fetch_min_bytes",
        "replica_fetch_response_max_bytes",
        "every fetch waits for more than its answer may hold",
    ),
    Order(
        "broker_heartbeat_interval_ms",
        "broker_session_timeout_ms",
        "every broker is fenced between two heartbeats",
        margin=1,
        roles=(BROKER, CONTROLLER),
    ),
    Order(
        "min_insync_replicas",
        "default_replication_factor",
        "a topic that is created without numbers of its own cannot have so many in sync",
        roles=(CONTROLLER,),
    ),
    Order("default_replication_factor", "brokers_max", "no cluster has so many brokers", roles=(CONTROLLER,)),
    Order("num_partitions", "partitions_max", "no topic can be created without a number", roles=(CONTROLLER,)),
    Order(
        "message_max_bytes",
        "request_bytes_max",
        "the largest batch is refused with the request that carries it",
        margin=REQUEST_OVERHEAD_BYTES,
    ),
    Order(
        "group_query_max_bytes",
        "request_bytes_max",
        "the largest questions are refused with the request that carries them",
        margin=REQUEST_OVERHEAD_BYTES,
    ),
    Order("group_query_max_bytes", "group_pending_query_bytes_max", "the largest questions never find a place"),
    Order("group_query_max_bytes", "group_pending_watch_bytes_max", "the largest questions never find a place"),
    Order("connection_answer_bytes_max", "answer_bytes_max", "one connection may hold more than all together"),
    Order("answer_bytes_max", "memory_bytes_max", "requests are given up for what answers hold"),
)
