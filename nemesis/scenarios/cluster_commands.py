"""The commands that only clusters have: rounds of fetching, brokers that stop, and what is asked of the controller.

Owns the words in which a cluster is described.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from nemesis.scenarios.cluster_stage import PARTITION, SETTLE_MS, ClusterStage
from nemesis.scenarios.cluster_world import ClusterShape
from nemesis.scenarios.performance import (
    Handler,
    Performance,
    acts,
    cluster_stage_of,
    happened,
    node_of,
    number_of,
    running_nodes,
    takes_only,
    to_each,
    wrong,
)
from nemesis.simulator.node import Node
from nemesis.simulator.scenario_files import Directive
from nemesis.variants.catalogue import BUILT
from replica.core.config import InvalidConfigError
from replica.core.messages import AlterTopicRequest, ElectionType, ElectLeaderRequest
from replica.core.rules import Rules
from replica.ids import ReplicaId

ARGUMENTS = (
    "brokers",
    "replicas",
    "min-isr",
    "lag-ms",
    "elr",
    "fsync",
    "variant",
    "seed",
)
"""What may be said of a cluster."""
ROUNDS = re.compile(r"Fetch|ListOffsets|truncates|begins")
"""What belongs to a round of fetching."""
SWITCH = {"on": True, "off": False}


# --- the cluster ----------------------------------------------------------------------------------------------------


def cluster(performance: Performance, directive: Directive) -> str:
    """``cluster brokers=3 replicas=1,2 min-isr=2``: a cluster that runs, with one partition on these replicas."""
    takes_only(directive, *ARGUMENTS, words=False)
    shape = _shape(directive)
    try:
        stage = performance.stage = ClusterStage(shape)
    except InvalidConfigError as error:
        raise wrong(directive, str(error)) from error
    performance.shown = None
    variant = directive.arguments.get("variant")
    rules = "the right rules" if variant is None else f"the wrong rule {variant}"
    return happened(performance, stage, f"{shape.brokers} brokers and a controller with {rules}")


def _shape(directive: Directive) -> ClusterShape:
    brokers = _number(directive, "brokers", 3)
    replicas = _replicas(directive, brokers)
    min_isr = _number(directive, "min-isr", 1)
    if not 1 <= min_isr <= len(replicas):
        raise wrong(directive, f"min-isr is at least 1 and at most the number of replicas, {len(replicas)}")
    return ClusterShape(
        brokers=brokers,
        replicas=replicas,
        min_isr=min_isr,
        lag_ms=_number(directive, "lag-ms", 30_000),
        elr=_choice(directive, "elr", SWITCH, "on"),
        fsync=_choice(directive, "fsync", SWITCH, "on"),
        seed=_number(directive, "seed", 1),
        rules=_rules_of(directive, directive.arguments.get("variant")),
    )


def _replicas(directive: Directive, brokers: int) -> tuple[int, ...]:
    """The assignment; all brokers where nothing is said."""
    text = directive.arguments.get("replicas")
    everybody = tuple(range(1, brokers + 1))
    replicas = everybody if text is None else tuple(number_of(directive, word) for word in text.split(","))
    if not replicas or not set(replicas) <= set(everybody) or len(set(replicas)) != len(replicas):
        raise wrong(directive, f"replicas are some of the brokers, 1 to {brokers}, each once: replicas=1,2")
    return replicas


def _number(directive: Directive, name: str, default: int) -> int:
    return number_of(directive, directive.arguments.get(name, str(default)))


def _rules_of(directive: Directive, variant: str | None) -> type[Rules]:
    if variant is None:
        return Rules
    if variant not in BUILT:
        raise wrong(directive, f"there is no variant {variant!r}; `nemesis list-variants` names them")
    return BUILT[variant].rules


def _choice(directive: Directive, name: str, choices: dict[str, bool], default: str) -> bool:
    word = directive.arguments.get(name, default)
    if word not in choices:
        raise wrong(directive, f"{name} is one of {', '.join(choices)}, not {word!r}")
    return choices[word]


# --- rounds of fetching ---------------------------------------------------------------------------------------------


def hold(stage: ClusterStage, directive: Directive) -> None:
    """``hold 2``: hold back what follower 2 asks; ``hold``: what any follower asks."""
    stage.hold(_followers(stage, directive))


def flow(stage: ClusterStage, directive: Directive) -> None:
    """``flow 2``, ``flow``: let it through again, now and from now on."""
    stage.flow(_followers(stage, directive))


def fetch(stage: ClusterStage, directive: Directive) -> str | None:
    """``fetch 2``: let one request of follower 2 pass, and its answer; with several, one after another."""
    nodes = running_nodes(stage, directive, directive.words)
    for node in nodes:
        if node.replica_id not in stage.world.holding:
            raise wrong(directive, f"replica {node.replica_id} fetches all the time; 'hold {node.replica_id}' first")
        if stage.world.is_asking(node):
            raise wrong(directive, f"a request of replica {node.replica_id} is under way; let time pass")
        if not stage.fetch(node):
            raise wrong(directive, f"replica {node.replica_id} has nobody to ask")
    names = {str(node.replica_id) for node in nodes}
    lines = [line for line in stage.deliveries.seen if ROUNDS.search(line) and names & set(line.split()[:3])]
    waiting = [f"{node.replica_id} has no answer yet" for node in nodes if stage.world.is_asking(node)]
    return "\n".join([*lines, *waiting]) or None


def _followers(stage: ClusterStage, directive: Directive) -> list[Node]:
    if directive.words:
        return running_nodes(stage, directive, directive.words)
    return [stage.world.nodes[replica_id] for replica_id in stage.registration.replicas]


# --- brokers and the controller -------------------------------------------------------------------------------------


def fence(stage: ClusterStage, directive: Directive) -> None:
    """``fence 1``: let time pass until the controller has given a broker up that does not send heartbeats."""
    for word in directive.words:
        broker_id = node_of(stage, directive, word).replica_id
        if not stage.run(stage.patience_ms, lambda: stage.is_fenced(broker_id)):  # noqa: B023 - called at once
            raise wrong(directive, f"broker {word} sends heartbeats and is not fenced; 'kill {word}' or 'pause {word}'")
    stage.run(SETTLE_MS)


def unclean(stage: ClusterStage, directive: Directive) -> str:
    """``unclean on``, ``unclean off``: whether the topic rather loses records than waits."""
    if directive.words not in (("on",), ("off",)):
        raise wrong(directive, "say 'unclean on' or 'unclean off'")
    value = "true" if directive.words == ("on",) else "false"
    request = AlterTopicRequest(name=PARTITION.topic, configs={"unclean.leader.election.enable": value})
    return f"unclean.leader.election.enable={value}: {stage.ask_controller(request)}"


def elect_leader(stage: ClusterStage, directive: Directive) -> str:
    """``elect-leader preferred``, ``elect-leader unclean leader=2``: an operator asks for an election."""
    if directive.words not in (("preferred",), ("unclean",)):
        raise wrong(directive, "say 'elect-leader preferred' or 'elect-leader unclean'")
    leader = directive.arguments.get("leader")
    request = ElectLeaderRequest(
        topic_partition=PARTITION,
        election_type=ElectionType(directive.words[0]),
        leader_id=None if leader is None else ReplicaId(number_of(directive, leader)),
    )
    return f"elect-leader: {stage.ask_controller(request)}"


COMMANDS: Mapping[str, Handler] = MappingProxyType(
    {
        "cluster": cluster,
        "hold": acts(cluster_stage_of, hold),
        "flow": acts(cluster_stage_of, flow),
        "fetch": acts(cluster_stage_of, fetch),
        "fence": acts(cluster_stage_of, fence),
        # Let a broker leave cleanly.
        "stop": to_each(cluster_stage_of, lambda stage, node: stage.stop(node)),
        # Let the system write the log to the disk, where fsync=off leaves that to it.
        "flush": to_each(cluster_stage_of, lambda stage, node: stage.flush(node)),
        "unclean": acts(cluster_stage_of, unclean),
        "elect-leader": acts(cluster_stage_of, elect_leader, "leader"),
    }
)
"""The commands of this file by their words."""
