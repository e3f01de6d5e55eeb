"""A conversation with real replicas: all are killed, one disk is replaced by an empty one, and all are started.

Owns the cases, what happens in each, and what must come of it. The disks are formatted with initial voters, so that an
empty one has no vote: what is lost is what a broker held, and nothing that a voter promised.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Set
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.topic_client import ClientOptions
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.breakable import ClusterState
from nemesis.faults.links import CONTROL
from nemesis.runner import variant_server
from nemesis.workload.ending import why_not_converged
from tests.cluster.stage import NAME, Stage, running

RECORDS = 20
TOPIC, PARTITION = "topic1", "0"
COMMAND_S_MAX = 30.0
TIMING = Timing(
    election_timeout_ms=300,
    fetch_timeout_ms=600,
    fetch_max_wait_ms=100,
    broker_session_timeout_ms=1500,
    leader_imbalance_check_interval_seconds=3600,
)
"""Impatient, and without elections of preferred replicas: the empty one may well lead when it has caught up."""
LOOK_S = 0.05
RIGHT = ("-m", "replica.cli", "start")
"""How Python starts a replica as everybody does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is set, and whose disk is replaced: that of the replica at ``place``, where the first is the leader.

    With ``alone`` the others are killed before the leader, so that it is the last one in sync. A ``variant`` is a wrong
    protocol that is to be found out.
    """

    name: str
    place: int
    replication_factor: int = 3
    min_insync_replicas: int = 2
    elr: bool = True
    alone: bool = False
    variant: str | None = None

    @property
    def waits(self) -> bool | None:
        """Whether nobody is left who is known to hold everything, so that an operator has to say who leads.

        Absent where that may be so: without eligible leader replicas one is remembered of those that are all fenced,
        and which that is depends on their order.
        """
        if self.alone:
            return self.place == 0
        return False if self.elr else None

    @property
    def options(self) -> ReplicaOptions:
        """The cluster."""
        topics = TopicOptions(
            partitions=1,
            replication_factor=self.replication_factor,
            min_insync_replicas=self.min_insync_replicas,
        )
        elr = "--elr-enable" if self.elr else "--no-elr-enable"
        return ReplicaOptions(
            topics=topics,
            timing=TIMING,
            client=ClientOptions(client_timeout_ms=8000),
            server=(*(RIGHT if self.variant is None else variant_server(self.variant)), elr),
        )


def _cases() -> tuple[Case, ...]:
    """Every setting with every choice of the disk."""
    cases = []
    for elr in (True, False):
        ending = "" if elr else "-without-elr"
        cases += [Case(name=f"three-replicas-{place}{ending}", place=place, elr=elr) for place in range(3)]
        cases += [
            Case(
                name=f"last-in-sync-{place}{ending}",
                place=place,
                replication_factor=2,
                min_insync_replicas=1,
                alone=True,
                elr=elr,
            )
            for place in range(2)
        ]
    return tuple(cases)


CASES = _cases()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen when all had registered again, and in the end; ``described`` is what operators are shown then.

    ``held`` are the ends of the logs that were not replaced, before anybody is elected by an operator; ``is_advised``
    says that such an operator is told how to do that.
    """

    replaced: int
    described: dict[str, Any]
    held: dict[int, int]
    leader: int | None
    records: int
    is_all_there: bool
    is_advised: bool

    @property
    def waited(self) -> bool:
        """Whether the partition had no leader until an operator named one."""
        return self.described["leader_id"] is None

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return asdict(self)


def why_wrong(case: Case, seen: Seen) -> str | None:
    """What should not have been; absent if all is as it must be."""
    if seen.leader == seen.replaced:
        return f"replica {seen.replaced} leads, whose disk is empty, and {RECORDS - seen.records} records are lost"
    if case.waits not in (None, seen.waited):
        return f"the partition {'waits' if seen.waited else 'did not wait'} for an operator: {seen.described}"
    if seen.waited and seen.replaced in _counted_on(seen.described):
        return f"replica {seen.replaced} is still counted on: {seen.described}"
    if seen.waited != seen.is_advised:
        return f"the operator is {'not ' * seen.waited}told to choose who leads: {seen.described}"
    if min(seen.held.values()) < RECORDS:
        return f"logs that nobody has replaced are cut: {seen.held}"
    return None if seen.is_all_there else f"{RECORDS - seen.records} of {RECORDS} records cannot be read"


class Order(StrEnum):
    """When the replica with the empty disk comes back, of all that are started."""

    LAST = "last"
    """When the others are registered: then it is the only one that may still pass for in sync by its name."""
    TOGETHER = "together"
    FIRST = "first"


def _counted_on(described: dict[str, Any]) -> set[int]:
    """Who may lead a partition without an operator's word, now or later."""
    return {*described["isr"], *described["elr"], described["last_known_leader"]}


async def play(folder: Path, case: Case, order: Order = Order.LAST) -> Seen:
    """Play the case with new replicas in ``folder``."""
    async with running(Stage(folder, case.options)) as stage:
        before, ranked = await _written(stage, case)
        replaced = ranked[case.place]
        await asyncio.gather(*(stage.cluster.kill(node) for node in stage.cluster.nodes))
        await stage.cluster.wipe(replaced)
        await _start_all(stage, before, replaced, order)
        if case.waits is False:
            await _wait(stage, _is_led)
        described = await _described(stage)
        is_advised = "elect-leader" in await _told(stage, "topic", "describe", TOPIC)
        held = await _held(stage, set(ranked) - {replaced})
        if described["leader_id"] is None:
            await _elect(stage, min(held))
        await _wait_converged(stage)
        values = await _read(stage)
        leader = (await _wait(stage, _is_led)).partitions[NAME].leader
    return Seen(
        replaced=replaced,
        described=described,
        held=held,
        leader=described["leader_id"] if described["leader_id"] is not None else leader,
        records=len(set(values) & set(range(RECORDS))),
        # An append whose outcome was not known was tried again, as another one.
        is_advised=is_advised,
        is_all_there=list(dict.fromkeys(values)) == list(range(RECORDS)),
    )


async def _written(stage: Stage, case: Case) -> tuple[ClusterState, list[int]]:
    """Write what every replica acknowledges; returns what is decided then, and the replicas, the leader first."""
    for value in range(RECORDS):
        await stage.append(value)
    partition = (await _wait(stage, _is_led)).partitions[NAME]
    leader = partition.leader
    assert leader is not None
    others = [node for node in partition.replicas if node != leader]
    if case.alone:
        await asyncio.gather(*(stage.cluster.kill(node) for node in others))
        await _wait(stage, lambda state: state.partitions[NAME].isr == (leader,))
    return await _wait(stage, _is_led), [leader, *others]


async def _start_all(stage: Stage, before: ClusterState, replaced: int, order: Order) -> None:
    """Start all, and wait until they have registered again, and may lead."""
    others = set(stage.cluster.nodes) - {replaced}
    empty, all_at_once = {replaced}, {replaced, *others}
    turns = {Order.LAST: (others, empty), Order.TOGETHER: (all_at_once,), Order.FIRST: (empty, others)}
    for turn in turns[order]:
        await asyncio.gather(*(stage.cluster.start(node) for node in turn))
        if turn != empty:
            await _wait(stage, partial(_are_back, turn, before))
    await _wait(stage, partial(_are_back, all_at_once, before))


def _is_led(state: ClusterState) -> bool:
    return state.partitions[NAME].leader is not None


def _are_back(nodes: Set[int], before: ClusterState, state: ClusterState) -> bool:
    """Whether these brokers have registered again, and may lead."""
    old, new = before.registrations, state.registrations
    return state.active >= nodes and all(new[node].number > old[node].number for node in nodes)


async def _wait(stage: Stage, holds: Callable[[ClusterState], bool]) -> ClusterState:
    """What is decided, as soon as it is as wanted."""
    while (state := await stage.cluster.cluster_state()) is None or not holds(state):
        await asyncio.sleep(LOOK_S)
    return state


async def _wait_converged(stage: Stage) -> None:
    while why_not_converged((NAME,), await stage.cluster.cluster_state(), await stage.cluster.replica_states()):
        await asyncio.sleep(LOOK_S)


async def _held(stage: Stage, nodes: Set[int]) -> dict[int, int]:
    """Where the logs of these nodes end, as soon as all of them say so."""
    while True:
        states = await stage.cluster.replica_states()
        ends = {state.node: state.log_end_offset for state in states if state.topic_partition == NAME}
        if ends.keys() >= nodes:
            return {node: ends[node] for node in nodes}
        await asyncio.sleep(LOOK_S)


async def _read(stage: Stage) -> list[int]:
    """All values, in the order of their offsets."""
    values: list[int] = []
    position = 0
    while True:
        try:
            polled = await stage.client.poll(NAME, position)
        except (NotDoneError, UnknownOutcomeError):
            continue
        values += [value for _, value in polled.records]
        position = polled.next_offset
        if polled.reached_end:
            return values


# --- the operator -----------------------------------------------------------------------------------------------------


async def _elect(stage: Stage, leader: int) -> None:
    """Let a replica lead that is not known to hold everything."""
    await _told(stage, "partition", "elect-leader", TOPIC, PARTITION, "--type", "unclean", "--leader", str(leader))


async def _described(stage: Stage) -> dict[str, Any]:
    """What ``replica topic describe`` shows of the partition."""
    (found,) = json.loads(await _told(stage, "topic", "describe", TOPIC, "--format", "json"))
    (partition,) = found["partitions"]
    return dict(partition)


async def _told(stage: Stage, *words: str) -> str:
    """What a command of an operator prints. Raises subprocess.CalledProcessError."""
    bootstrap = ",".join(stage.cluster.addresses(CONTROL)[node] for node in stage.cluster.nodes)
    command = (sys.executable, "-m", "replica.cli", *words, "--bootstrap", bootstrap)
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=True
    )
    return str(done.stdout)
