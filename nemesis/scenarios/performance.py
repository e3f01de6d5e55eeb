"""A scenario under way, and what every command needs: whom a word names, what is taken, what is told afterwards.

Owns the checks of what was written, and the form of the output: what came to pass, then the table of all replicas,
unless nothing changed. What is written wrongly is a ``ScenarioError`` that names the line; what goes wrong in the world
is output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from nemesis.scenarios.cluster_stage import ClusterStage
from nemesis.scenarios.quorum_stage import QuorumStage
from nemesis.scenarios.stage import Stage
from nemesis.scenarios.tables import world_table
from nemesis.scenarios.views import WorldView
from nemesis.simulator.node import Node
from nemesis.simulator.scenario_files import Directive, ScenarioError

SAME = "(no replica changed)"


@dataclass(slots=True)
class Performance:
    """A scenario under way: its stage, once there is one, and what was last shown of it."""

    stage: Stage | None = None
    shown: WorldView | None = None
    messages: tuple[str, ...] = ()
    """What arrived during the last directive that let anything arrive."""


StageT = TypeVar("StageT", bound=Stage)
Handler = Callable[[Performance, Directive], str]
"""What a command's word stands for: it returns what is printed."""


def wrong(directive: Directive, what: str) -> ScenarioError:
    """An error that names the directive's line."""
    return ScenarioError(f"line {directive.line_number}: {what}")


# --- reading what was written ---------------------------------------------------------------------------------------


def stage_of(performance: Performance, directive: Directive) -> Stage:
    """The stage, which a scenario has from its first ``world`` on."""
    if performance.stage is None:
        raise wrong(directive, "there is no world yet; begin with a line like 'world voters=3'")
    return performance.stage


def quorum_stage_of(performance: Performance, directive: Directive) -> QuorumStage:
    """The stage of one quorum log, for what only such a log has."""
    stage = stage_of(performance, directive)
    if not isinstance(stage, QuorumStage):
        raise wrong(directive, f"{directive.command} is for a 'world', in which replicas elect their leader themselves")
    return stage


def cluster_stage_of(performance: Performance, directive: Directive) -> ClusterStage:
    """The stage of a cluster, for what only clusters have."""
    return as_cluster_stage(stage_of(performance, directive), directive)


def as_cluster_stage(stage: Stage, directive: Directive) -> ClusterStage:
    """The same stage as one of a cluster."""
    if not isinstance(stage, ClusterStage):
        raise wrong(directive, f"{directive.text} needs a 'cluster', which has brokers and a controller")
    return stage


def node_of(stage: Stage, directive: Directive, word: str) -> Node:
    """The machine that a word names."""
    node = stage.node_named(word)
    if node is None:
        raise wrong(directive, f"there is no replica {word!r}; they have the numbers 1 to {stage.last_number}")
    return node


def running_node(stage: Stage, directive: Directive, word: str) -> Node:
    """The same, if there is a process on it."""
    node = node_of(stage, directive, word)
    if not node.is_up:
        raise wrong(directive, f"replica {word} has no process; 'start {word}' first")
    return node


def running_nodes(stage: Stage, directive: Directive, words: Iterable[str]) -> list[Node]:
    """The machines that the words name, at least one, each with a process on it."""
    nodes = [running_node(stage, directive, word) for word in words]
    if not nodes:
        raise wrong(directive, f"name the replicas, as in '{directive.command} 1'")
    return nodes


def number_of(directive: Directive, text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise wrong(directive, f"{text!r} is no number; give one of 0 or more")
    return int(text)


def takes_only(directive: Directive, *arguments: str, words: bool = True) -> None:
    """Refuse what the command does not take, so that a slip of the pen does not pass for a scenario."""
    for name in directive.arguments:
        if name not in arguments:
            takes = ", ".join(f"{argument}=" for argument in arguments) or "no arguments"
            raise wrong(directive, f"{directive.command} does not know {name}=; it takes {takes}")
    if directive.words and not words:
        raise wrong(directive, f"{directive.command} takes no words; remove {' '.join(directive.words)!r}")
    if directive.lines:
        raise wrong(directive, f"{directive.command} takes no further lines; remove them")


# --- telling --------------------------------------------------------------------------------------------------------


def happened(performance: Performance, stage: Stage, *lines: str) -> str:
    """Say what happened, then how the replicas are, if that is news."""
    view = stage.look()
    is_news = performance.shown is None or performance.shown.still != view.still
    performance.shown = view
    table = world_table(view) if is_news else SAME
    return "\n".join([f"at {view.at_ms} ms", *lines, *stage.take_told(), table])


# --- commands -------------------------------------------------------------------------------------------------------


def acts(
    find: Callable[[Performance, Directive], StageT],
    act: Callable[[StageT, Directive], str | None],
    *arguments: str,
    words: bool = True,
) -> Handler:
    """A command that takes these arguments, acts on the stage, and tells what happened and what ``act`` says of it."""

    def handle(performance: Performance, directive: Directive) -> str:
        stage = find(performance, directive)
        takes_only(directive, *arguments, words=words)
        said = act(stage, directive)
        return happened(performance, stage, *(() if said is None else (said,)))

    return handle


def to_each(find: Callable[[Performance, Directive], StageT], act: Callable[[StageT, Node], object]) -> Handler:
    """A command that does something to each machine that its words name, on which a process is."""

    def act_on_all(stage: StageT, directive: Directive) -> None:
        for node in running_nodes(stage, directive, directive.words):
            act(stage, node)

    return acts(find, act_on_all)
