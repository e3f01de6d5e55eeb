"""Which groups a replica hosts: their names, their state machines, and what each may be called.

Owns how ``--group NAME=MACHINE`` is read, and that a group is partition 0 of what could be a topic's name. Knows
nothing of how one is hosted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica.core.config import InvalidConfigError
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import TopicPartition
from replica.machines import AppliedLog
from replica.machines.registry import BrokenMachineError, UnknownMachineError, make_machine
from replica.storage.log_directories import is_topic


def parse_groups(entries: Iterable[str]) -> dict[str, str]:
    """Read entries of the form ``NAME=MACHINE``; raises InvalidConfigError, also for a name that comes twice."""
    groups: dict[str, str] = {}
    for entry in entries:
        name, separator, machine = entry.partition("=")
        if not (name and separator and machine):
            raise InvalidConfigError(f"{entry!r} is no group; give NAME=MACHINE, such as --group accounts=key-value")
        if name in groups:
            raise InvalidConfigError(f"group {name} is given twice, with machine {groups[name]} and {machine}")
        groups[name] = machine
    return groups


def check_groups(groups: Mapping[str, str]) -> None:
    """Raise InvalidConfigError unless every name could be a topic's, and is not that of the metadata log."""
    for name in groups:
        if not is_topic(name):
            raise InvalidConfigError(
                f"{name!r} cannot be a group's name: give 1 to 249 letters, digits, dots, dashes and underscores"
            )
        if name == METADATA_LOG.topic:
            raise InvalidConfigError(f"{name} is the cluster's own log: give the group another name")


def log_of_group(name: str) -> TopicPartition:
    """The quorum log of a group."""
    return TopicPartition(name, 0)


def make_groups(groups: Mapping[str, str]) -> dict[TopicPartition, AppliedLog]:
    """Make a fresh machine for each group, by the name of its log; raises InvalidConfigError where there is none."""
    made = {}
    for name, machine in groups.items():
        try:
            made[log_of_group(name)] = AppliedLog(make_machine(machine), name=machine)
        except (UnknownMachineError, BrokenMachineError, ValueError) as error:  # The last of traits that do not fit.
            raise InvalidConfigError(f"group {name} cannot be hosted: {error}") from error
    return made
