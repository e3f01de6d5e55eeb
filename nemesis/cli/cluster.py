"""The options that say what a cluster under test is made of: its size, its topics, its patience, its clients.

Owns their defaults, and the ReplicaOptions that are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nemesis.cluster.kinds import ClusterKind

if TYPE_CHECKING:
    from nemesis.cluster.replica_options import ReplicaOptions

NODES_DEFAULT = 3
_milliseconds = click.IntRange(min=10, max=600_000)
CommandT = TypeVar("CommandT", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        "--cluster",
        type=click.Choice([kind.value for kind in ClusterKind]),
        default=ClusterKind.LOCAL.value,
        show_default=True,
        help="Where the nodes run; nemesis doctor says which of them can be had here.",
    ),
    click.option("--nodes", type=click.IntRange(3, 9), help=f"How many. [default: {NODES_DEFAULT}]"),
    click.option("--topics", type=click.IntRange(1, 100), help="How many topics. [default: 1]"),
    click.option("--partitions", type=click.IntRange(1, 100), help="Of each topic. [default: 2]"),
    click.option("--replication-factor", type=click.IntRange(1, 9), help="Of each topic. [default: 3]"),
    click.option("--min-insync-replicas", type=click.IntRange(1, 9), help="Of each topic. [default: 2]"),
    click.option(
        "--unclean-leader-election/--no-unclean-leader-election",
        default=False,
        show_default=True,
        help="Of each topic: where nobody else is alive, let a replica lead that is not in sync. Records may be lost.",
    ),
    click.option(
        "--retention-bytes",
        type=click.IntRange(4096, 1 << 30),
        help="Of each partition: what is older is deleted, so that a long run fits on a disk. [default: all is kept]",
    ),
    click.option(
        "--acks",
        type=click.Choice(["all", "1", "0"]),
        default="all",
        show_default=True,
        help="What appends wait for. Only all of them promises that a record stays.",
    ),
    click.option(
        "--idempotence/--no-idempotence",
        default=None,
        help="Number batches and send them again. [default: if acks=all]",
    ),
    click.option(
        "--log-flush",
        type=click.Choice(["fsync", "os"]),
        help="os: replicas acknowledge before they flush; a power loss of several at once can lose what they did. "
        "[default: fsync]",
    ),
    click.option(
        "--tls",
        is_flag=True,
        help="By mutual TLS, with access control lists: clients may do what their workload needs, and nothing else.",
    ),
    click.option("--election-timeout-ms", type=_milliseconds, default=500, show_default=True),
    click.option("--fetch-timeout-ms", type=_milliseconds, default=1000, show_default=True),
    click.option("--fetch-max-wait-ms", type=_milliseconds, default=200, show_default=True),
    click.option("--session-timeout-ms", type=_milliseconds, default=2500, show_default=True, help="Of brokers."),
    click.option("--lag-time-max-ms", type=_milliseconds, default=5000, show_default=True, help="Of replicas in sync."),
    click.option("--final-time-limit", type=click.FloatRange(1, 3600), default=45.0, show_default=True),
)
"""The topics' counts have no default of click's, for a directed schedule may want others; what is about our own
replicas has none, to be refused where it is given and means nothing."""

OF_TOPICS = ("partitions", "replication_factor", "min_insync_replicas", "retention_bytes")
NAMES = (
    "cluster",
    *("nodes", "topics", "partitions", "replication_factor", "min_insync_replicas", "unclean_leader_election"),
    "retention_bytes",
    *("acks", "idempotence", "log_flush", "tls"),
    *("election_timeout_ms", "fetch_timeout_ms", "fetch_max_wait_ms", "session_timeout_ms", "lag_time_max_ms"),
    "final_time_limit",
)


def cluster_options(command: CommandT) -> CommandT:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def enter_network(given: Mapping[str, Any], *, master: str = "local") -> None:
    """Move this process into a network of its own where such a cluster is asked for; to be done before all else.

    Raises UnsupportedError where that is refused, and click.UsageError for a Spark ``master`` that is outside.
    """
    if given["cluster"] != ClusterKind.NETNS:
        return
    from nemesis.cluster.netns_enter import enter

    if not master.startswith("local"):
        raise click.UsageError(f"--master {master} cannot be reached from the network of a cluster of the kind netns")
    enter()


def replica_options(given: Mapping[str, Any]) -> ReplicaOptions:
    """The cluster that was asked for. Raises click.UsageError for what does not go together."""
    from nemesis.cluster.replica_options import FSYNC, ReplicaOptions, Timing, TopicOptions
    from nemesis.cluster.topic_client import ClientOptions

    if given["fetch_max_wait_ms"] >= given["fetch_timeout_ms"]:
        raise click.UsageError("--fetch-max-wait-ms must be below --fetch-timeout-ms, or an idle leader looks dead")
    if given["idempotence"] and given["acks"] != "all":
        raise click.UsageError("--idempotence needs --acks all: it repeats what was not acknowledged")
    election_timeout_ms = given["election_timeout_ms"]
    timing = Timing(
        election_timeout_ms=election_timeout_ms,
        election_backoff_max_ms=election_timeout_ms,
        fetch_timeout_ms=given["fetch_timeout_ms"],
        request_timeout_ms=given["fetch_timeout_ms"],
        fetch_max_wait_ms=given["fetch_max_wait_ms"],
        replica_fetch_wait_max_ms=given["fetch_max_wait_ms"],
        broker_session_timeout_ms=given["session_timeout_ms"],
        broker_heartbeat_interval_ms=max(10, given["session_timeout_ms"] // 6),
        replica_lag_time_max_ms=given["lag_time_max_ms"],
    )
    counts = {
        "topic_count": given["topics"],
        **{name: given[name] for name in OF_TOPICS},
        "unclean_leader_election": given["unclean_leader_election"],
    }
    idempotence = given["acks"] == "all" if given["idempotence"] is None else given["idempotence"]
    try:
        return ReplicaOptions(
            nodes=given["nodes"] or NODES_DEFAULT,
            topics=TopicOptions(**{name: value for name, value in counts.items() if value is not None}),
            timing=timing,
            client=ClientOptions(acks=given["acks"], idempotence=idempotence),
            log_flush=given["log_flush"] or FSYNC,
            tls=given["tls"],
            log_segment_bytes=None if given["retention_bytes"] is None else given["retention_bytes"] // 2,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
