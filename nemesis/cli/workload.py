"""The options that say what the clients of a run do.

Owns their names and defaults, the refusal of what means nothing to the workload or to the system that was asked for,
and the cluster that a workload on objects needs: one with the store and without topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nemesis.faults.catalogue import KINDS
from nemesis.faults.needs import Need
from nemesis.systems.catalogue import HIGHWATER, READS, SETTINGS, SYSTEMS, UnknownSystemError, fetch, offer_of
from nemesis.workload.catalogue import ON_OBJECTS, USUAL, WORKLOADS
from nemesis.workload.workload import KEYS_DEFAULT, Workload
from replica.cli.help import meant

if TYPE_CHECKING:
    from nemesis.cluster.replica_options import ReplicaOptions

ON_LOGS = USUAL.name
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _system(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Look whether there is such a system."""
    del context, parameter
    try:
        offer_of(value)
    except UnknownSystemError as error:
        raise click.BadParameter(f"{error}{meant(value, SYSTEMS)}") from None
    return value


OPTIONS = (
    click.option(
        "--system",
        default=HIGHWATER,
        show_default=True,
        callback=_system,
        metavar="NAME",
        help=f"What is put to the test: {', '.join(SYSTEMS)}, or the module:Class of a system of your own.",
    ),
    click.option(
        "--workload",
        type=click.Choice(list(WORKLOADS)),
        default=USUAL.name,
        show_default=True,
        help="What clients do: append and poll logs, or use objects of the key-value store.",
    ),
    click.option("--keys", type=click.IntRange(1, 1000), help=f"Objects in use at a time. [default: {KEYS_DEFAULT}]"),
    click.option(
        "--reads",
        type=click.Choice(READS),
        help="Of objects. Those by lease rely on clocks; stale ones are not linearizable, and are found out. "
        f"[default: {READS[0]}]",
    ),
    click.option("--strict-acks", is_flag=True, help="Demand of appends with --acks 1 that they stay, too."),
)
OF_WORKLOADS = tuple(dict.fromkeys(option for workload in WORKLOADS.values() for option in workload.options))
"""The options that are about some workloads alone."""


def workload_options(command: CommandT) -> CommandT:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def workload_asked(given: Mapping[str, Any]) -> type[Workload]:
    """The workload. Raises click.UsageError for options that it, or the system, has no use for."""
    workload, system = WORKLOADS[given["workload"]], given["system"]
    _refuse(given, OF_WORKLOADS, workload.options, f"the workload {workload.name}")
    if given["strict_acks"] and given["acks"] == "0":
        raise click.UsageError("--strict-acks means nothing to appends that are not acknowledged")
    offer = offer_of(system)
    _refuse(given, sorted(SETTINGS), offer.settings, f"the system {system}")
    if workload.name not in offer.workloads:
        known = " or ".join(offer.workloads)
        raise click.UsageError(f"--system {system} knows no workload {workload.name}: give {known}")
    if given["reads"] is not None and given["reads"] not in offer.reads:
        raise click.UsageError(f"--system {system} knows no {given['reads']} reads")
    return workload


def _refuse(given: Mapping[str, Any], options: Collection[str], meaningful: Collection[str], whom: str) -> None:
    for name in options:
        if name not in meaningful and given.get(name) not in (None, False):
            raise click.UsageError(f"--{name.replace('_', '-')} means nothing to {whom}")


def fetch_system(given: Mapping[str, Any]) -> None:
    """Get what the system needs while there is a network; to be done before one of our own is entered.

    Raises UnsupportedError.
    """
    fetch(given["system"])


def cluster_for(
    workload: type[Workload], cluster: ReplicaOptions, given: Mapping[str, Any], needs: Collection[Need]
) -> ReplicaOptions:
    """The cluster as the workload and the faults need it. Raises click.UsageError for what does not go together."""
    from nemesis.cluster.key_value_client import SMALL_SNAPSHOT_RECORD_BYTES, Reads, StoreOptions

    for need in (need for need in workload.refuses if need in needs):
        others = " or ".join(name for name, other in WORKLOADS.items() if need not in other.refuses)
        words = " or ".join(word for word, fault in KINDS.items() if fault.need is need)
        said = f"{words} means nothing to the workload {workload.name}: {workload.refuses[need]}"
        raise click.UsageError(f"{said}; give --workload {others}")
    if workload.name not in ON_OBJECTS:
        return cluster
    store = StoreOptions(reads=Reads(given["reads"] or Reads.LINEARIZABLE))
    if Need.VOTERS in needs:
        store = replace(store, snapshot_record_bytes=SMALL_SNAPSHOT_RECORD_BYTES)
    topics = replace(cluster.topics, topic_count=0)
    return replace(cluster, topics=topics, store=store)
