"""The options that say what the clients of a run do.

Owns their names and defaults, and the cluster that a workload on objects needs: one with the store and without topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nemesis.faults.needs import Need
from nemesis.systems.catalogue import HIGHWATER, NAMES, UnknownSystemError, fetch, needs_of

if TYPE_CHECKING:
    from nemesis.cluster.replica_options import ReplicaOptions
    from nemesis.history.workloads import Workload

WORKLOADS = ("append", "register", "set", "counter", "bank", "lock")
ON_LOGS = "append"
KEYS_DEFAULT = 10
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _system(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Look whether there is such a system."""
    del context, parameter
    try:
        needs_of(value)
    except UnknownSystemError as error:
        raise click.BadParameter(str(error)) from None
    return value


OPTIONS = (
    click.option(
        "--system",
        default=HIGHWATER,
        show_default=True,
        callback=_system,
        metavar="NAME",
        help=f"What is put to the test: {', '.join(NAMES)}, or the module:Class of a system of your own.",
    ),
    click.option("--workload", type=click.Choice(WORKLOADS), default=ON_LOGS, show_default=True),
    click.option("--keys", type=click.IntRange(1, 1000), help=f"Objects in use at a time. [default: {KEYS_DEFAULT}]"),
    click.option(
        "--reads",
        type=click.Choice(["linearizable", "lease", "stale"]),
        help="Of objects. Those by lease rely on clocks; stale ones are not linearizable, and are found out. "
        "[default: linearizable]",
    ),
    click.option("--strict-acks", is_flag=True, help="Demand of appends with --acks 1 that they stay, too."),
)
OF_OBJECTS = ("keys", "reads")
OF_TOPICS = ("topics", "partitions", "replication_factor", "min_insync_replicas")


def workload_options(command: CommandT) -> CommandT:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def workload_asked(given: Mapping[str, Any]) -> Workload:
    """The workload. Raises click.UsageError for options that it has no use for."""
    from nemesis.history.workloads import Workload

    workload = Workload(given["workload"])
    useless = OF_TOPICS if workload.is_on_objects else OF_OBJECTS
    for name in useless:
        if given[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} means nothing to the workload {workload}")
    if given["strict_acks"] and (workload.is_on_objects or given["acks"] == "0"):
        raise click.UsageError("--strict-acks means something to appends only, and to such as are acknowledged")
    if given["system"] != HIGHWATER and given.get("variant") is not None:
        raise click.UsageError("--variant is a wrong protocol of our own replicas: it says nothing of another system")
    if given["system"] != HIGHWATER and given.get("log_flush") not in (None, "fsync"):
        raise click.UsageError("--log-flush is an option of our own replicas: another system flushes as it pleases")
    _check_used_so(given["system"], workload, given["reads"])
    return workload


def fetch_system(given: Mapping[str, Any]) -> None:
    """Get what the system needs while there is a network; to be done before one of our own is entered.

    Raises UnsupportedError.
    """
    fetch(given["system"])


def _check_used_so(system: str, workload: str, reads: str | None) -> None:
    """Look whether the clients of a system know the workload. Raises click.UsageError."""
    needs = needs_of(system)
    if needs is None:
        return
    if workload not in needs.workloads:
        raise click.UsageError(f"--system {system} knows no workload {workload}: give {' or '.join(needs.workloads)}")
    if reads is not None and reads not in needs.reads:
        raise click.UsageError(f"--system {system} knows no {reads} reads")


def cluster_for(
    workload: Workload, cluster: ReplicaOptions, given: Mapping[str, Any], needs: Collection[Need]
) -> ReplicaOptions:
    """The cluster as the workload and the faults need it. Raises click.UsageError for what does not go together."""
    from nemesis.cluster.key_value_client import SMALL_SNAPSHOT_RECORD_BYTES, Reads, StoreOptions

    if not workload.is_on_objects:
        if Need.VOTERS in needs:
            raise click.UsageError(
                f"membership means nothing to the workload {workload}: who has the partitions is not voted on, and a "
                f"disk that is wiped takes their records with it; give --workload {' or '.join(WORKLOADS[1:])}"
            )
        return cluster
    if Need.OTHER_DISKS in needs:
        raise click.UsageError(
            f"replace-disk is about the records of topics, and the workload {workload} has none: membership replaces "
            "the disks of those who vote on objects"
        )
    store = StoreOptions(reads=Reads(given["reads"] or Reads.LINEARIZABLE))
    if Need.VOTERS in needs:
        store = replace(store, snapshot_record_bytes=SMALL_SNAPSHOT_RECORD_BYTES)
    topics = replace(cluster.topics, topic_count=0)
    return replace(cluster, topics=topics, store=store)
