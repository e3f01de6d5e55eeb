"""The command that lets time pass: for so long, or until something holds.

Owns the words for conditions. Knows nothing of faults and clients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nemesis.scenarios.performance import (
    Performance,
    as_cluster_stage,
    happened,
    node_of,
    number_of,
    stage_of,
    takes_only,
    wrong,
)
from nemesis.scenarios.stage import Stage
from nemesis.scenarios.tables import world_table
from nemesis.simulator.node import Node
from nemesis.simulator.scenario_files import Directive


def run(performance: Performance, directive: Directive) -> str:
    """``run 20ms``, ``run until agreed``."""
    stage = stage_of(performance, directive)
    if directive.words[:1] == ("until",):
        _wait(stage, directive, _condition(stage, directive))
    else:
        takes_only(directive)
        stage.run(_milliseconds(directive))
    return happened(performance, stage)


def _wait(stage: Stage, directive: Directive, condition: Callable[[], bool]) -> None:
    if not stage.run(stage.patience_ms, condition):
        now = world_table(stage.look())
        raise wrong(directive, f"that did not come true within {stage.patience_ms} ms; now there is\n{now}")


def _milliseconds(directive: Directive) -> int:
    text = directive.words[0] if len(directive.words) == 1 else ""
    for unit, factor in (("ms", 1), ("s", 1000), ("m", 60_000)):
        if text.endswith(unit) and text.removesuffix(unit).isdecimal():
            return int(text.removesuffix(unit)) * factor
    raise wrong(directive, "say how long, as in 'run 20ms', 'run 2s' or 'run until leader=1'")


def _condition(stage: Stage, directive: Directive) -> Callable[[], bool]:
    """What is waited for; with several, for all of them."""
    takes_only(directive, "leader", "known", "role", "isr", "fenced", "unfenced")
    conditions = [_condition_named(stage, directive, name) for name in directive.words[1:]]
    for name, text in directive.arguments.items():
        conditions += _conditions_of(stage, directive, name, text)
    if not conditions:
        raise wrong(directive, "say until when: agreed, answered, leader=1, role=1@follower,2@leader or known=1@5")
    return lambda: all(condition() for condition in conditions)


def _condition_named(stage: Stage, directive: Directive, name: str) -> Callable[[], bool]:
    match name:
        case "agreed":
            return stage.has_agreed
        case "answered":
            return lambda: not stage.waiting
        case _:
            raise wrong(directive, f"nothing waits for {name!r}; say agreed or answered")


def _conditions_of(stage: Stage, directive: Directive, name: str, text: str) -> list[Callable[[], bool]]:
    """What one argument waits for."""
    match name:
        case "leader":
            return [partial(_leads, stage, node_of(stage, directive, text))]
        case "isr":
            members = [node_of(stage, directive, word).replica_id for word in text.split(",") if word]
            return [partial(as_cluster_stage(stage, directive).is_isr, frozenset(members))]
        case "fenced" | "unfenced":
            brokers = [node_of(stage, directive, word).replica_id for word in text.split(",")]
            is_fenced = as_cluster_stage(stage, directive).is_fenced
            return [lambda: all(is_fenced(broker) is (name == "fenced") for broker in brokers)]
        case _:
            return [_condition_of(stage, directive, name, part) for part in text.split(",")]


def _condition_of(stage: Stage, directive: Directive, name: str, text: str) -> Callable[[], bool]:
    word, _, what = text.partition("@")
    replica_id = node_of(stage, directive, word).replica_id
    if name == "role":
        return lambda: stage.role_of(replica_id) == what
    end_offset = number_of(directive, what)
    return lambda: stage.knows(replica_id) == end_offset


def _leads(stage: Stage, node: Node) -> bool:
    return stage.leader() is node
