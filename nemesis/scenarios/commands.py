"""The commands of scenarios: which word stands for what.

Owns the registry, and the commands about the world as a whole and its client; what lets time pass and what does harm is
beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

from nemesis.scenarios import campaigns, cluster_commands, doing_harm, passing_time
from nemesis.scenarios.performance import (
    Handler,
    Performance,
    acts,
    happened,
    node_of,
    number_of,
    stage_of,
    takes_only,
    wrong,
)
from nemesis.scenarios.quorum_stage import QuorumStage, calm
from nemesis.scenarios.stage import Stage
from nemesis.simulator.climate import Climate
from nemesis.simulator.node import Node
from nemesis.simulator.scenario_files import Directive
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.variants.catalogue import BUILT
from replica.core.config import InvalidConfigError
from replica.core.rules import Rules

ACKS = {"all": -1, "1": 1, "0": 0}


def perform(performance: Performance, directive: Directive) -> str:
    """Do what one directive says and return what it prints. Raises ScenarioError if it cannot be understood."""
    handler = COMMANDS.get(directive.command)
    if handler is None:
        known = ", ".join(sorted(COMMANDS))
        raise wrong(directive, f"there is no command {directive.command!r}; use one of {known}")
    try:
        output = handler(performance, directive)
    except BrokenInvariantError as error:
        raise wrong(directive, f"nothing goes on after {error.name}: {error.detail}; end the scenario above") from error
    if performance.stage is not None:
        performance.messages = performance.stage.deliveries.take() or performance.messages
    return output


# --- the world ------------------------------------------------------------------------------------------------------


def _world(performance: Performance, directive: Directive) -> str:
    constants = {field.name for field in fields(Climate) if isinstance(field.default, int)}
    takes_only(directive, "seed", "variant", *sorted(constants), words=False)
    variant = directive.arguments.get("variant")
    if variant is not None and variant not in BUILT:
        raise wrong(directive, f"there is no variant {variant!r}; `nemesis list-variants` names them")
    changes = {name: number_of(directive, text) for name, text in directive.arguments.items() if name in constants}
    if changes.get("voters") == 0:
        raise wrong(directive, "a world without voters has nothing to show; give voters=1 or more")
    seed = number_of(directive, directive.arguments.get("seed", "1"))
    try:
        performance.stage = QuorumStage(
            seed=seed, climate=calm(**changes), rules=Rules if variant is None else BUILT[variant].rules
        )
    except InvalidConfigError as error:
        raise wrong(directive, str(error)) from error
    performance.shown = None
    rules = "the right rules" if variant is None else f"the wrong rule {variant}"
    return f"{len(performance.stage.world.nodes)} replicas with {rules}"


def _start(stage: Stage, directive: Directive) -> None:
    if not directive.words:
        stage.world.start_all()
    for word in directive.words:
        node = node_of(stage, directive, word)
        if node.is_up:
            raise wrong(directive, f"replica {word} has a process already; remove the word")
        stage.start(node)


def _show(performance: Performance, directive: Directive) -> str:
    takes_only(directive, words=False)
    performance.shown = None
    return happened(performance, stage_of(performance, directive))


def _messages(performance: Performance, directive: Directive) -> str:
    """What arrived lately; with numbers, only what these replicas sent or were sent."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    wanted = {str(node_of(stage, directive, word).replica_id) for word in directive.words}
    lines = [line for line in performance.messages if not wanted or not wanted.isdisjoint(line.split()[:3])]
    return "\n".join(lines) or "(nothing arrived)"


def _simulate(_: Performance, directive: Directive) -> str:
    """A whole simulated run as a case; see there for its lines."""
    from nemesis.simulator.case import run_case

    return run_case(directive)


# --- the client -----------------------------------------------------------------------------------------------------


def _append(stage: Stage, directive: Directive) -> None:
    target = _target(stage, directive, "to")
    acks = ACKS.get(directive.arguments.get("acks", "all"))
    if acks is None:
        raise wrong(directive, f"acks is one of {', '.join(ACKS)}")
    for value in directive.words:
        if value in stage.waiting:
            raise wrong(directive, f"an append of {value!r} waits for its answer still; append another value")
        stage.append(value, target, acks=acks)


def _read(stage: Stage, directive: Directive) -> str:
    target = _target(stage, directive, "from")
    return f"read from {target.replica_id}: {stage.read(target)}"


def _poll(stage: Stage, directive: Directive) -> None:
    stage.poll(_target(stage, directive, "from"))


def _target(stage: Stage, directive: Directive, argument: str) -> Node:
    word = directive.arguments.get(argument)
    target = stage.leader() if word is None else node_of(stage, directive, word)
    if target is None:
        raise wrong(directive, f"nobody leads; say whom to ask with {argument}=")
    return target


COMMANDS: Mapping[str, Handler] = MappingProxyType(
    {
        "world": _world,
        "start": acts(stage_of, _start),
        "show": _show,
        "messages": _messages,
        "run": passing_time.run,
        "append": acts(stage_of, _append, "to", "acks"),
        "read": acts(stage_of, _read, "from", words=False),
        "poll": acts(stage_of, _poll, "from", words=False),
        "simulate": _simulate,
        **doing_harm.COMMANDS,
        **campaigns.COMMANDS,
        **cluster_commands.COMMANDS,
    }
)
"""Every command by its word."""
