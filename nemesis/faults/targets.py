"""Whom a fault hits: named in the schedule by a word, decided when the fault strikes.

A schedule is made before anybody knows who will lead, so it says "the leader" and not "replica 2". ``@name`` is
whoever an earlier step of the schedule gave that name to. Pure: who leads is told by the caller.
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
    ONE = "one"
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
    """Who is there when a fault strikes. ``leader`` is absent while nobody leads; ``names`` were given before."""

    nodes: tuple[int, ...]
    leader: int | None
    names: Mapping[str, int]


def needs_leader(target: Target) -> bool:
    """Whether it matters who leads for what the word means."""
    return target in (Role.LEADER, Role.FOLLOWER)


def resolve(target: Target, cast: Cast, random: Random) -> tuple[int, ...]:
    """The replicas that ``target`` means now, ascending.

    While nobody leads, the leader is anyone. A follower is one that bears no name yet, if there is such a one.
    """
    if target.startswith(NAME_SIGN):
        return (_named(target, cast),)
    size = len(cast.nodes)
    match role := _role(target):
        case Role.LEADER:
            return (random.choice(cast.nodes) if cast.leader is None else cast.leader,)
        case Role.FOLLOWER:
            return (random.choice(_followers(cast)),)
        case Role.ONE:
            return (random.choice(cast.nodes),)
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
    followers = [node for node in cast.nodes if node != cast.leader]
    nameless = [node for node in followers if node not in cast.names.values()]
    return nameless or followers
