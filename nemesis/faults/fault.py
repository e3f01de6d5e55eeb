"""A fault as a value: all that anybody may want to know of it beside how it is done.

Owns what every fault says of itself: its data and their form in JSON, its words in a history, whom and which links it
is about, its dice and how long it lasts, what it needs of a cluster, its look, and what the documentation tells of it.
Each is declared once, by the class of the fault, in the file of its family, which also knows how it is aimed, done and
undone. ``catalogue`` lists the families; all tables follow from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import EnumType
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar, Self, get_type_hints

from nemesis.faults.links import Link
from nemesis.faults.look import Look
from nemesis.faults.needs import Need
from nemesis.faults.targets import Role, Target

FAULT_S = (1.0, 4.5)
"""How long a fault lasts, where it does not say something else."""
HEALTHY_S = (2.0, 4.0)
"""How long it is healthy after a fault."""
SECOND_SHARE = 0.2
"""How often another fault strikes into one."""
TARGETS = ("target", "source", "destination")
"""The fields that say whom a fault is about."""
ANY_ONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ONE)
ANYONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.FOLLOWERS, Role.ONE, Role.MAJORITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is done, and to whom. The class says the rest."""

    kind: ClassVar[str]
    """Its word: of ``--nemesis``, where it is drawn, of schedules, and the first one of its name."""
    does: ClassVar[str]
    """What it does, for the documentation."""
    undone: ClassVar[str]
    """What its healing does, for the documentation."""
    healer: ClassVar[str]
    """The word for its healing."""
    need: ClassVar[Need]
    look: ClassVar[Look]

    prefix: ClassVar[str] = ""
    """Stands before the kind in its name."""
    told_by: ClassVar[str | None] = None
    """The field whose value ends its name."""
    is_healed_by_name: ClassVar[bool] = False
    """Whether its healing is called by its name as well."""
    steps: ClassVar[tuple[str, ...]] = ()
    """The operations by which it is done, if it is only begun by its injection."""

    drawn_as: ClassVar[int | None] = None
    """Its place among the kinds that seeds draw from; absent where none does. What came later stands later."""
    dice: ClassVar[Mapping[str, Sequence[Any]]] = MappingProxyType({})
    """What each field may be, in the order in which it is drawn."""
    against_leader: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """The fields of the one that takes a leader away, beside its target."""
    is_usual: ClassVar[bool] = False
    """Whether it is drawn where nothing is asked for."""
    recovery_s: ClassVar[tuple[float, float]] = HEALTHY_S
    """How long it is healthy after it."""
    share: ClassVar[float] = 0.0
    """How often it is drawn for certain, among others; else by chance as all of them."""
    second_share: ClassVar[float] = SECOND_SHARE
    """How often another one strikes into it."""
    is_alone_at_first: ClassVar[bool] = False
    """Whether nothing strikes into the first two faults of a run that has it."""
    comes_one_at_a_time: ClassVar[bool] = False
    """Whether no second one of its kind strikes into it, where there is anything else."""
    strikes_into_others: ClassVar[bool] = False
    """Whether it is what strikes into others, as a rule."""
    is_spared: ClassVar[bool] = False
    """Whether it is left alone by those that strike into others."""

    # --- words --------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of doing it, in the history."""
        return f"{self.prefix}{self.kind}" + ("" if self.told_by is None else f"-{getattr(self, self.told_by)}")

    @property
    def healing(self) -> str:
        """The name of undoing it."""
        return f"{self.healer}-{self.name}" if self.is_healed_by_name else self.healer

    @classmethod
    def names(cls) -> frozenset[str]:
        """All that ``name`` may say."""
        word = f"{cls.prefix}{cls.kind}"
        return frozenset({word} if cls.told_by is None else {f"{word}-{end}" for end in choices(cls)[cls.told_by]})

    # --- whom ---------------------------------------------------------------------------------------------------------

    @property
    def targets(self) -> tuple[Target, ...]:
        """Whom it is about, in words."""
        return tuple(getattr(self, name) for name in TARGETS if name in self.__dataclass_fields__)

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """The links that it touches among ``nodes``, and those of clients, when it is ``about`` these."""
        del nodes, about, random
        return frozenset()

    def concerns(self, nodes: Sequence[int], about: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
        """The nodes that it is told of."""
        del nodes, links
        return tuple(about)

    def told(self, links: frozenset[Link]) -> dict[str, Any]:
        """What the history says of it."""
        return {"fault": self.to_json()} | ({"links": sorted(links)} if links else {})

    # --- dice ---------------------------------------------------------------------------------------------------------

    @classmethod
    def on_leader(cls, random: Random) -> Fault:
        """One after which the others must choose a new leader, or that comes as near to it as this kind can."""
        del random
        leader = {"target": Role.LEADER} if "target" in cls.__dataclass_fields__ else {}
        return cls(**{**leader, **cls.against_leader})

    @classmethod
    def drawn(cls, random: Random) -> Fault:
        """Any of this kind."""
        return cls(**{name: random.choice(options) for name, options in cls.dice.items()})

    @classmethod
    def certain(cls, random: Random) -> Fault | None:
        """What strikes second in every run that has this kind, if anything does."""
        del random
        return None

    @property
    def lasts_s(self) -> tuple[float, float]:
        """How long it lasts."""
        return FAULT_S

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """``kind`` and its fields."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_fields(cls, given: dict[str, Any]) -> Self:
        """The reverse, without the kind. Raises ``ValueError`` for what cannot be."""
        try:
            return cls(**{name: _typed(cls, name, value) for name, value in given.items()})
        except TypeError as error:
            raise ValueError(f"{cls.kind} cannot be made of {sorted(given)}: {error}") from None


def named(**values: Any) -> Mapping[str, Any]:
    """These values by name, which nobody changes."""
    return MappingProxyType(values)


def chosen_from(words: Sequence[str], what: str) -> Any:
    """A field that is one of these words: there is no such ``what`` but those."""
    return field(metadata={"words": tuple(words), "what": what})


def hints(fault: type[Fault]) -> dict[str, Any]:
    """The type of each field, in order."""
    found = get_type_hints(fault)
    return {one.name: found[one.name] for one in fields(fault)}


def choices(fault: type[Fault]) -> dict[str, tuple[str, ...]]:
    """The words of each field that is one of some words."""
    words: dict[str, tuple[str, ...]] = {
        one.name: one.metadata["words"] for one in fields(fault) if "words" in one.metadata
    }
    return words | {name: tuple(hint) for name, hint in hints(fault).items() if isinstance(hint, EnumType)}


def check_at_least(least: int, **values: int) -> None:
    """Refuse a fault that could not be done, or would do nothing and be told as done. Raises ValueError."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name} is {value}: give {least} or more")


def _typed(fault: type[Fault], name: str, value: Any) -> Any:
    hint = hints(fault).get(name)
    if isinstance(hint, EnumType):
        return hint(value)
    if value not in choices(fault).get(name, (value,)):
        what = fault.__dataclass_fields__[name].metadata["what"]
        raise ValueError(f"{value!r} is no {what}: give one of {', '.join(choices(fault)[name])}")
    return value
