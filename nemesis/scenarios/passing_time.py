"""The commands that let time pass: for so long, until something holds, or to the end of somebody's waiting.

Owns the words for conditions. Knows nothing of faults and clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from nemesis.scenarios.files import Directive
from nemesis.scenarios.performance import (
    Performance,
    happened,
    node_of,
    number_of,
    running_nodes,
    stage_of,
    takes_only,
    wrong,
)
from nemesis.scenarios.stage import HURRY_MS, PATIENCE_MS, Stage
from nemesis.scenarios.tables import world_table
from nemesis.simulator.node import Node

ELECTION_TRIES = 5
"""How often `elect` hurries a replica: one whose pre-votes were refused goes back to waiting."""


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
    if not stage.run(PATIENCE_MS, condition):
        raise wrong(
            directive, f"that did not come true within {PATIENCE_MS} ms; now there is\n{world_table(stage.look())}"
        )


def _milliseconds(directive: Directive) -> int:
    text = directive.words[0] if len(directive.words) == 1 else ""
    for unit, factor in (("ms", 1), ("s", 1000)):
        if text.endswith(unit) and text.removesuffix(unit).isdecimal():
            return int(text.removesuffix(unit)) * factor
    raise wrong(directive, "say how long, as in 'run 20ms', 'run 2s' or 'run until leader=1'")


def _condition(stage: Stage, directive: Directive) -> Callable[[], bool]:
    """What is waited for; with several, for all of them."""
    takes_only(directive, "leader", "known", "role")
    conditions = [_condition_named(stage, directive, name) for name in directive.words[1:]]
    for name, text in directive.arguments.items():
        if name == "leader":
            leader = node_of(stage, directive, text)
            conditions.append(partial(_leads, stage, leader))
        else:
            for part in text.split(","):
                word, _, what = part.partition("@")
                conditions.append(
                    _condition_of(stage, directive, name, node_of(stage, directive, word).replica_id, what)
                )
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


def _condition_of(stage: Stage, directive: Directive, name: str, replica_id: int, what: str) -> Callable[[], bool]:
    if name == "role":
        return lambda: stage.role_of(replica_id) == what
    end_offset = number_of(directive, what)
    return lambda: stage.knows(replica_id) == end_offset


# --- campaigns ------------------------------------------------------------------------------------------------------


def hurry(performance: Performance, directive: Directive) -> str:
    """One after another; there is time for questions and answers between them, none after the last."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    _hurry_all(stage, directive, directive.words)
    return happened(performance, stage)


def elect(performance: Performance, directive: Directive) -> str:
    """``elect 1``: hurry 1, and if need be again, until it leads. ``elect 1 after 2 3``: hurry these before it."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    if directive.words[1:2] not in ((), ("after",)):
        raise wrong(directive, "say who is to win: 'elect 1', or 'elect 1 after 2 3' if these must give up first")
    elected, before = directive.words[:1], directive.words[2:]
    node = running_nodes(stage, directive, elected)[0]
    if before:
        _hurry_all(stage, directive, before)
        stage.run(HURRY_MS)
    for _ in range(ELECTION_TRIES):
        _hurry_all(stage, directive, elected)
        if stage.run(HURRY_MS, lambda: stage.leader() is node):
            return happened(performance, stage)
    raise wrong(directive, f"{elected[0]} was not elected; see by 'hurry' and 'messages' who refuses, and why")


def _hurry_all(stage: Stage, directive: Directive, words: Iterable[str]) -> None:
    for position, node in enumerate(running_nodes(stage, directive, words)):
        if position:
            stage.run(HURRY_MS)
        if not stage.hurry(node):
            raise wrong(directive, f"replica {node.replica_id} leads and has no timeout; name another")


def _leads(stage: Stage, node: Node) -> bool:
    return stage.leader() is node
