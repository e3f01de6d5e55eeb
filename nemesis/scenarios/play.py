"""Play a scenario from its first directive to its last.

Owns what is kept of each step: what it printed, how the cluster looked after it and which messages arrived in it.
Knows no single command, and does not compare: that the output is as expected is a test's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nemesis.scenarios.commands import perform
from nemesis.scenarios.performance import Performance
from nemesis.scenarios.views import WorldView
from nemesis.simulator.scenario_files import Directive


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One directive with the output that it has now; ``view`` is absent where there is no cluster to look at."""

    directive: Directive
    view: WorldView | None
    messages: tuple[str, ...]


def play(directives: Iterable[Directive]) -> tuple[Played, ...]:
    """Perform them all. Raises ScenarioError where one cannot be understood."""
    performance = Performance()
    return tuple(_played(performance, directive) for directive in directives)


def _played(performance: Performance, directive: Directive) -> Played:
    before = performance.messages
    output = perform(performance, directive)
    stage, messages = performance.stage, performance.messages
    return Played(
        directive=replace(directive, output=output),
        view=None if stage is None else stage.look(),
        messages=() if messages is before else messages,
    )
