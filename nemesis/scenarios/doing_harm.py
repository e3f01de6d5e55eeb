"""The commands that do harm, and undo it: to links, to processes, to machines.

Owns the words for which links are cut. Knows nothing of time and clients.
"""

from __future__ import annotations

from nemesis.disks.hindrance import Hindrance
from nemesis.faults.links import Link
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
from nemesis.scenarios.stage import Stage
from nemesis.simulator.scenario_files import Directive

BY_HAND = 0
"""The key of what a story does to a machine."""

# --- links ----------------------------------------------------------------------------------------------------------


def cut(performance: Performance, directive: Directive) -> str:
    """``cut 1 from 2 3`` in both directions, ``cut 1 to 2 3`` in one."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    words = directive.words
    if len(words) < 3 or words[1] not in ("from", "to"):
        raise wrong(directive, "say which links: 'cut 1 from 2 3' in both directions, 'cut 1 to 2 3' in one")
    source = node_of(stage, directive, words[0]).replica_id
    targets = [node_of(stage, directive, word).replica_id for word in words[2:]]
    links: list[Link] = [(source, target) for target in targets]
    if words[1] == "from":
        links += [(target, source) for target in targets]
    stage.cut(frozenset(links))
    return happened(performance, stage, _cuts_text(stage))


def isolate(performance: Performance, directive: Directive) -> str:
    """``isolate 1``: cut all links between it and the other replicas."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    for word in directive.words:
        one = node_of(stage, directive, word).replica_id
        others = [other for other in stage.world.nodes if other != one]
        stage.cut(frozenset(link for other in others for link in ((one, other), (other, one))))
    return happened(performance, stage, _cuts_text(stage))


def heal(performance: Performance, directive: Directive) -> str:
    """``heal``: let everything through again; ``heal 1``: what goes from or to it."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    healed = frozenset(node_of(stage, directive, word).replica_id for word in directive.words)
    stage.heal(healed or None)
    return happened(performance, stage, _cuts_text(stage))


def _cuts_text(stage: Stage) -> str:
    """Which links are cut, those of both directions first."""
    name = stage.name_of
    both = [f"{name(a)} and {name(b)}" for a, b in sorted(stage.cuts) if a < b and (b, a) in stage.cuts]
    one = [f"{name(a)} to {name(b)}" for a, b in sorted(stage.cuts) if (b, a) not in stage.cuts]
    return f"cut: {'; '.join([*both, *one]) or 'nothing'}"


# --- processes and machines -----------------------------------------------------------------------------------------


def kill(performance: Performance, directive: Directive) -> str:
    """``kill 1``: end the process; what it wrote is still there."""
    return _end(performance, directive, power=False)


def power_loss(performance: Performance, directive: Directive) -> str:
    """``power-loss 1``: end the process, and lose what was not flushed."""
    return _end(performance, directive, power=True)


def _end(performance: Performance, directive: Directive, *, power: bool) -> str:
    stage = stage_of(performance, directive)
    takes_only(directive)
    for node in running_nodes(stage, directive, directive.words):
        stage.end(node, power=power)
    return happened(performance, stage)


def replace_disk(performance: Performance, directive: Directive) -> str:
    """``replace-disk 1``: put an empty disk into a machine on which nothing runs."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    for word in directive.words:
        node = node_of(stage, directive, word)
        if node.is_up:
            raise wrong(directive, f"replica {word} runs; 'kill {word}' first")
        stage.world.wipe(node)
    return happened(performance, stage)


def slow_disk(performance: Performance, directive: Directive) -> str:
    """``slow-disk 1 factor=1000``: each flush there takes so many times as long."""
    stage = stage_of(performance, directive)
    takes_only(directive, "factor")
    factor = number_of(directive, directive.arguments.get("factor", "1"))
    for word in directive.words:
        node_of(stage, directive, word).disk.hinder(BY_HAND, Hindrance(slow_factor=factor))
    return happened(performance, stage)


def pause(performance: Performance, directive: Directive) -> str:
    """``pause 1``: let the process stand still."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    for node in running_nodes(stage, directive, directive.words):
        node.pause(BY_HAND)
    return happened(performance, stage)


def resume(performance: Performance, directive: Directive) -> str:
    """``resume 1``: let it go on, with all that has come meanwhile."""
    stage = stage_of(performance, directive)
    takes_only(directive)
    for node in running_nodes(stage, directive, directive.words):
        node.resume(BY_HAND)
    return happened(performance, stage)
