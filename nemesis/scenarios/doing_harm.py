"""The commands that do harm, and undo it: to links, to processes, to machines.

Owns the words for which links are cut. Knows nothing of time and clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nemesis.disks.hindrance import Hindrance
from nemesis.faults.links import Link
from nemesis.scenarios.performance import (
    Handler,
    acts,
    node_of,
    number_of,
    stage_of,
    to_each,
    wrong,
)
from nemesis.scenarios.stage import Stage
from nemesis.simulator.scenario_files import Directive

BY_HAND = 0
"""The key of what a story does to a machine."""

# --- links ----------------------------------------------------------------------------------------------------------


def cut(stage: Stage, directive: Directive) -> str:
    """``cut 1 from 2 3`` in both directions, ``cut 1 to 2 3`` in one."""
    words = directive.words
    if len(words) < 3 or words[1] not in ("from", "to"):
        raise wrong(directive, "say which links: 'cut 1 from 2 3' in both directions, 'cut 1 to 2 3' in one")
    source = node_of(stage, directive, words[0]).replica_id
    targets = [node_of(stage, directive, word).replica_id for word in words[2:]]
    links: list[Link] = [(source, target) for target in targets]
    if words[1] == "from":
        links += [(target, source) for target in targets]
    stage.cut(frozenset(links))
    return _cuts_text(stage)


def isolate(stage: Stage, directive: Directive) -> str:
    """``isolate 1``: cut all links between it and the other replicas."""
    for word in directive.words:
        one = node_of(stage, directive, word).replica_id
        others = [other for other in stage.world.nodes if other != one]
        stage.cut(frozenset(link for other in others for link in ((one, other), (other, one))))
    return _cuts_text(stage)


def heal(stage: Stage, directive: Directive) -> str:
    """``heal``: let everything through again; ``heal 1``: what goes from or to it."""
    healed = frozenset(node_of(stage, directive, word).replica_id for word in directive.words)
    stage.heal(healed or None)
    return _cuts_text(stage)


def _cuts_text(stage: Stage) -> str:
    """Which links are cut, those of both directions first."""
    name = stage.name_of
    both = [f"{name(a)} and {name(b)}" for a, b in sorted(stage.cuts) if a < b and (b, a) in stage.cuts]
    one = [f"{name(a)} to {name(b)}" for a, b in sorted(stage.cuts) if (b, a) not in stage.cuts]
    return f"cut: {'; '.join([*both, *one]) or 'nothing'}"


# --- processes and machines -----------------------------------------------------------------------------------------


def replace_disk(stage: Stage, directive: Directive) -> None:
    """``replace-disk 1``: put an empty disk into a machine on which nothing runs."""
    for word in directive.words:
        node = node_of(stage, directive, word)
        if node.is_up:
            raise wrong(directive, f"replica {word} runs; 'kill {word}' first")
        stage.world.change_disk(node)


def slow_disk(stage: Stage, directive: Directive) -> None:
    """``slow-disk 1 factor=1000``: each flush there takes so many times as long."""
    factor = number_of(directive, directive.arguments.get("factor", "1"))
    for word in directive.words:
        node_of(stage, directive, word).disk.hinder(BY_HAND, Hindrance(slow_factor=factor))


COMMANDS: Mapping[str, Handler] = MappingProxyType(
    {
        "cut": acts(stage_of, cut),
        "isolate": acts(stage_of, isolate),
        "heal": acts(stage_of, heal),
        # End the process; what it wrote is still there, or what was not flushed is lost.
        "kill": to_each(stage_of, lambda stage, node: stage.end(node, power=False)),
        "power-loss": to_each(stage_of, lambda stage, node: stage.end(node, power=True)),
        "replace-disk": acts(stage_of, replace_disk),
        "slow-disk": acts(stage_of, slow_disk, "factor"),
        # Let the process stand still; and go on, with all that has come meanwhile.
        "pause": to_each(stage_of, lambda _, node: node.pause(BY_HAND)),
        "resume": to_each(stage_of, lambda _, node: node.resume(BY_HAND)),
    }
)
"""The commands of this file by their words."""
