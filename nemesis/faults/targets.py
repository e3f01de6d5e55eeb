"""Whom a fault hits: named in the schedule by a word, decided when the fault strikes.

A schedule is made before anybody knows who will lead, so it says "the leader" and not "replica 2". ``@name`` is
whoever an earlier step of the schedule gave that name to. In a cluster of many logs, "the leader" is that of one log,
and its followers and its ISR are those of the same log. Pure: who leads is told by the caller, and of which log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import assert_never

NAME_SIGN = "@"


class Role(StrEnum):
    """The words for targets."""

    LEADER = "leader"
    FOLLOWER = "follower"
    FOLLOWERS = "followers"
    ISR = "isr"
    CONTROLLER = "controller"
    ONE = "one"
    OTHER = "other"
    MINORITY = "minority"
    MAJORITY = "majority"
    ALL = "all"
    NOBODY = "nobody"


Target = Role | str
"""A ``Role``, or ``@name``."""


class InvalidTargetError(ValueError):
    """The word means nobody: it is no role, and nobody was given that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who is there when a fault strikes. ``leader`` is absent while nobody leads; ``names`` were given before.

    ``replicas`` have the log in question, where not all nodes do; ``isr`` are those of them that are in sync.
    ``controller`` is absent while nobody is, and where there is none.
    """

    nodes: tuple[int, ...]
    leader: int | None
    names: Mapping[str, int]
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    controller: int | None = None


def needs_leader(target: Target) -> bool:
    """Whether it matters who leads for what the word means."""
    return target in (Role.LEADER, Role.FOLLOWER, Role.FOLLOWERS, Role.ISR, Role.CONTROLLER)


def resolve(target: Target, cast: Cast, random: Random) -> tuple[int, ...]:
    """The replicas that ``target`` means now, ascending.

    While nobody leads, the leader is anyone; and while nobody is the controller or in sync, so are they. A follower is
    one that bears no name yet, if there is such a one; and so is an other.
    """
    if target.startswith(NAME_SIGN):
        return (_named(target, cast),)
    size = len(cast.nodes)
    match role := _role(target):
        case Role.LEADER:
            return (random.choice(cast.nodes) if cast.leader is None else cast.leader,)
        case Role.FOLLOWER:
            return (random.choice(_nameless(cast, _followers(cast))),)
        case Role.FOLLOWERS:
            return tuple(_followers(cast))
        case Role.ISR:
            return cast.isr or (random.choice(cast.nodes),)
        case Role.CONTROLLER:
            return (random.choice(cast.nodes) if cast.controller is None else cast.controller,)
        case Role.ONE:
            return (random.choice(cast.nodes),)
        case Role.OTHER:
            return (random.choice(_nameless(cast, cast.nodes)),)
        case Role.MINORITY:
            return tuple(sorted(random.sample(cast.nodes, (size - 1) // 2)))
        case Role.MAJORITY:
            return tuple(sorted(random.sample(cast.nodes, size // 2 + 1)))
        case Role.ALL:
            return cast.nodes
        case Role.NOBODY:
            return ()
        case _:
            assert_never(role)


def _role(target: Target) -> Role:
    try:
        return Role(target)
    except ValueError:
        words = ", ".join(Role)
        raise InvalidTargetError(f"{target!r} is no target: give {words} or {NAME_SIGN}name") from None


def _named(target: Target, cast: Cast) -> int:
    name = target.removeprefix(NAME_SIGN)
    if name not in cast.names:
        known = ", ".join(sorted(cast.names)) or "none"
        raise InvalidTargetError(f"nobody is called {name!r}; names given so far: {known}")
    return cast.names[name]


def _followers(cast: Cast) -> Sequence[int]:
    """The replicas of the log beside its leader; anyone but the leader, where it has no others."""
    others = [node for node in cast.replicas or cast.nodes if node != cast.leader]
    return others or [node for node in cast.nodes if node != cast.leader]


def _nameless(cast: Cast, nodes: Sequence[int]) -> Sequence[int]:
    return [node for node in nodes if node not in cast.names.values()] or nodes
