"""The options that say what the clients of a run do; ``run`` and ``soak`` take the same.

Owns their names and defaults, and the cluster that a workload on objects needs: one with the store and without topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from nemesis.cluster.local_options import LocalOptions
    from nemesis.history.workloads import Workload

WORKLOADS = ("append", "register", "set", "counter", "bank", "lock")
ON_LOGS = "append"
KEYS_DEFAULT = 10
SMALL_SNAPSHOT_RECORD_BYTES = 16_384
"""Where voters are changed: so small that whoever comes back with an empty disk has to load a snapshot."""
CommandT = TypeVar("CommandT", bound=Callable[..., Any])

OPTIONS = (
    click.option("--workload", type=click.Choice(WORKLOADS), default=ON_LOGS, show_default=True),
    click.option("--keys", type=click.IntRange(1, 1000), help=f"Objects in use at a time. [default: {KEYS_DEFAULT}]"),
    click.option(
        "--reads",
        type=click.Choice(["linearizable", "stale"]),
        help="Of objects. Stale ones are not linearizable, and are found out. [default: linearizable]",
    ),
)
OF_OBJECTS = ("keys", "reads")
OF_TOPICS = ("topics", "partitions", "replication_factor", "min_insync_replicas")


def workload_options(command: CommandT) -> CommandT:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def words_of_workload(given: Mapping[str, Any]) -> list[str]:
    """The words by which these options are given again."""
    names = ("workload", *OF_OBJECTS)
    return [word for name in names if given[name] is not None for word in (f"--{name}", str(given[name]))]


def workload_asked(given: Mapping[str, Any]) -> Workload:
    """The workload. Raises click.UsageError for options that it has no use for."""
    from nemesis.history.workloads import Workload

    workload = Workload(given["workload"])
    useless = OF_TOPICS if workload.is_on_objects else OF_OBJECTS
    for name in useless:
        if given[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} means nothing to the workload {workload}")
    return workload


def cluster_for(
    workload: Workload, cluster: LocalOptions, given: Mapping[str, Any], *, changes_voters: bool
) -> LocalOptions:
    """The cluster as the workload and the faults need it. Raises click.UsageError for what does not go together."""
    from nemesis.cluster.key_value_client import Reads, StoreOptions

    if not workload.is_on_objects:
        if changes_voters:
            raise click.UsageError(
                f"membership means nothing to the workload {workload}: who has the partitions is not voted on, and a "
                f"disk that is wiped takes their records with it; give --workload {' or '.join(WORKLOADS[1:])}"
            )
        return cluster
    store = StoreOptions(reads=Reads(given["reads"] or Reads.LINEARIZABLE))
    if changes_voters:
        store = replace(store, snapshot_record_bytes=SMALL_SNAPSHOT_RECORD_BYTES)
    topics = replace(cluster.topics, topic_count=0)
    return replace(cluster, topics=topics, store=store, dynamic_voters=changes_voters)
