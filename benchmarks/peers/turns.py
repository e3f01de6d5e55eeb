"""Rounds of systems of rows: each system is started, measured and stopped before the next one is.

Owns the order and the document of figures. A system is started anew in each round, and once for each durability that a
row asks of it, so that whatever else this machine does meanwhile meets all of them alike. What fails is told, and the
next row is taken.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.etcd import Etcd
from benchmarks.peers.highwater import Highwater
from benchmarks.peers.kafka import Kafka
from benchmarks.peers.rabbitmq import RabbitMq
from benchmarks.peers.rows import Row, Turn, warm_up
from benchmarks.peers.system import Durability, System

SYSTEMS: tuple[type[System], ...] = (Highwater, Kafka, Etcd, RabbitMq)
"""In the order of their turns. Aims are those of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured, and how long: ``warm_up`` s after a start, ``seconds`` for a row, ``kills`` of each leader in a
    round."""

    systems: Sequence[type[System]]
    rows: Sequence[Row]
    rounds: int
    warm_up: float
    seconds: float
    kills: int


@dataclass(slots=True)
class Measured:
    """The figures of each row and system, by their names, and what failed."""

    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)


async def measure(plan: Plan, tell: Callable[[str], None]) -> Measured:
    """Take all rounds; ``tell`` of each figure as it comes."""
    measured = Measured()
    for number in range(1, plan.rounds + 1):
        for system in plan.systems:
            for durability in system.durabilities:
                rows = [row for row in plan.rows if row.durability_for(system) is durability]
                if rows:
                    tell(f"round {number} of {plan.rounds}: {system.name}, {durability}")
                    await take_turn(system, durability, rows, plan, measured, tell)
    return measured


async def take_turn(
    kind: type[System],
    durability: Durability,
    rows: Iterable[Row],
    plan: Plan,
    measured: Measured,
    tell: Callable[[str], None],
) -> None:
    """Start a system, take the rows, stop it."""
    with tempfile.TemporaryDirectory(prefix="highwater-peers-", ignore_cleanup_errors=True) as folder:
        system = kind(Path(folder), durability)
        try:
            try:
                await system.start()
                turn = Turn(system=system, seconds=plan.seconds, kills=plan.kills)
                await warm_up(turn, plan.warm_up)
                await take_rows(turn, rows, measured, tell)
            finally:
                await system.stop()
        except Exception as error:
            failed(measured, system, "start or stop", error, tell)


async def take_rows(turn: Turn, rows: Iterable[Row], measured: Measured, tell: Callable[[str], None]) -> None:
    """Take each row, whatever becomes of the others."""
    for row in rows:
        try:
            figures = await row.measure(turn)
        except Exception as error:
            failed(measured, turn.system, row.name, error, tell)
            continue
        if not figures:
            continue
        measured.figures.setdefault((row.name, turn.system.name), []).extend(figures)
        tell(f"  {row.title}: {', '.join(map(shown, figures))} {row.unit}")


def failed(measured: Measured, system: System, what: str, error: Exception, tell: Callable[[str], None]) -> None:
    """Note what went wrong with what, and tell it."""
    why = f"{type(error).__name__}: {error}"
    measured.failures.append({"system": system.name, "what": what, "why": why})
    tell(f"  {what} failed: {why}")


def shown(figure: float) -> str:
    """Three digits that count, or all of a large number."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def document(plan: Plan, measured: Measured, systems: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is written as JSON: all figures, and what must be known of where they come from.

    ``systems`` are all, as they were ``described`` before they were measured, those that are missing here too.
    """
    return {
        "rounds": plan.rounds,
        "warm_up_s": plan.warm_up,
        "seconds": plan.seconds,
        "kills_a_round": plan.kills,
        "systems": systems,
        "rows": [row_figures(row, plan.systems, measured) for row in plan.rows],
        "failures": measured.failures,
    }


def described(system: type[System]) -> dict[str, Any]:
    """One system: what it is, how durable it is by default, what is not its default, and what is missing."""
    missing = system.missing()
    return {
        "name": system.name,
        "version": None if missing else system.version(),
        "missing": missing,
        "durabilities": [str(durability) for durability in system.durabilities],
        "settings": dict(system.settings),
    }


def row_figures(row: Row, systems: Sequence[type[System]], measured: Measured) -> dict[str, Any]:
    """One row: what it is, what was found, and whether the aim is met."""
    found = {system: measured.figures.get((row.name, system.name)) for system in systems}
    taken = {system: figures for system, figures in found.items() if figures}
    names: Mapping[str, Sequence[float]] = {system.name: figures for system, figures in taken.items()}
    ours = names.get(SYSTEMS[0].name)
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "more_is_better": row.more_is_better,
        "durability": None if row.durability is None else str(row.durability),
        "aim": {
            "figure": row.aim.figure,
            "worst": row.aim.worst,
            "ahead_of": list(row.aim.ahead_of),
            "times": row.aim.times,
            "is_met": None if ours is None else row.is_met(ours, names),
        },
        "figures": {system.name: spread(row, system, figures) for system, figures in taken.items()},
    }


def spread(row: Row, system: type[System], figures: Sequence[float]) -> dict[str, Any]:
    """One system's figures of a row."""
    return {
        "durability": str(row.durability_for(system)),
        "median": statistics.median(figures),
        "lowest": min(figures),
        "highest": max(figures),
        "all": list(figures),
    }
