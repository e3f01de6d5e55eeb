"""The commands of a quorum log's elections: somebody's waiting is over, or a leader hands over.

Owns how often one that is to win is hurried. Knows nothing of faults and clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from nemesis.scenarios.performance import (
    Handler,
    acts,
    quorum_stage_of,
    running_nodes,
    to_each,
    wrong,
)
from nemesis.scenarios.quorum_stage import HURRY_MS, QuorumStage
from nemesis.simulator.scenario_files import Directive

ELECTION_TRIES = 5
"""How often `elect` hurries a replica: one whose pre-votes were refused goes back to waiting."""


def hurry(stage: QuorumStage, directive: Directive) -> None:
    """One after another; there is time for questions and answers between them, none after the last."""
    _hurry_all(stage, directive, directive.words)


def elect(stage: QuorumStage, directive: Directive) -> None:
    """``elect 1``: hurry 1, and if need be again, until it leads. ``elect 1 after 2 3``: hurry these before it."""
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
            return
    raise wrong(directive, f"{elected[0]} was not elected; see by 'hurry' and 'messages' who refuses, and why")


def _hurry_all(stage: QuorumStage, directive: Directive, words: Iterable[str]) -> None:
    for position, node in enumerate(running_nodes(stage, directive, words)):
        if position:
            stage.run(HURRY_MS)
        if not stage.hurry(node):
            raise wrong(directive, f"replica {node.replica_id} leads and has no timeout; name another")


COMMANDS: Mapping[str, Handler] = MappingProxyType(
    {
        # Let a leader hand over.
        "resign": to_each(quorum_stage_of, lambda stage, node: stage.resign(node)),
        "hurry": acts(quorum_stage_of, hurry),
        "elect": acts(quorum_stage_of, elect),
    }
)
"""The commands of this file by their words."""
