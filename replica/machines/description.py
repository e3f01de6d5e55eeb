"""Which machine a log is of: its name, and the numbers that decide over its results.

Owns the description, its encoding, and the error for a replica whose machine is not the one that its log says. The
replicas of a log never compare notes; so the log itself says once what it is to be folded into, before the first
command, and each replica compares that with what it was started with. Knows nothing of logs and how they are folded.

Source: Kafka's ``metadata.version`` (KIP-778), which stands in the log before what is written by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replica.encoding import INT64_MAX, INT64_MIN, SIGNED, TEXT, Fields, Row

TRAITS_MAX = 100
NAME_CHARACTERS_MAX = 100


class Trait(Struct, frozen=True, kw_only=True):
    """A number that decides over the results: a version, a bound, an option."""

    name: str
    value: int


class MachineDescription(Struct, frozen=True, kw_only=True):
    """A machine by its name, with its traits in the order of their names."""

    name: str
    traits: tuple[Trait, ...]

    def __str__(self) -> str:
        traits = ", ".join(f"{trait.name} {trait.value}" for trait in self.traits)
        return f"{self.name} ({traits})" if traits else self.name


DESCRIPTION = Fields(MachineDescription, name=TEXT, traits=Row(Fields(Trait, name=TEXT, value=SIGNED)))
"""A description as part of something larger."""


class MachineMismatchError(Exception):
    """The log is of another machine than this replica was started with: none of its commands may be applied here.

    Nothing is wrong with the log, nor with the replicas that go on: this one was started wrongly.
    """

    def __init__(self, *, said: MachineDescription, own: MachineDescription) -> None:
        super().__init__(said, own)
        self.said = said
        self.own = own

    def __str__(self) -> str:
        return f"it is of state machine {difference(self.said, self.own)}"


def described(name: str, *sources: Mapping[str, int]) -> MachineDescription:
    """Describe the machine of this name, with the traits of all sources, whose names are different.

    Raises ValueError for traits that cannot be written down.
    """
    traits = [Trait(name=trait, value=value) for source in sources for trait, value in source.items()]
    if len(traits) > TRAITS_MAX:
        raise ValueError(f"a machine has {len(traits)} traits, the most is {TRAITS_MAX}")
    for trait in traits:
        _check_trait(trait)
    if len({trait.name for trait in traits}) < len(traits):
        raise ValueError("two traits of a machine have the same name")
    return MachineDescription(name=name, traits=tuple(sorted(traits, key=lambda trait: trait.name)))


def _check_trait(trait: Trait) -> None:
    if not _can_be_written(trait.name, trait.value):
        raise ValueError(f"a trait is a printable name with a whole number, not {trait.name!r} with {trait.value!r}")
    if not 1 <= len(trait.name) <= NAME_CHARACTERS_MAX:
        raise ValueError(f"the name of a trait is 1 to {NAME_CHARACTERS_MAX} characters, not {trait.name!r}")
    if not INT64_MIN <= trait.value <= INT64_MAX:
        raise ValueError(f"trait {trait.name} is a number of 64 bits, not {trait.value!r}")


def _can_be_written(name: object, value: object) -> bool:
    """Whether a trait is of the right types: machines are others' programs too, which nobody may have checked."""
    return isinstance(name, str) and name.isprintable() and isinstance(value, int)


def difference(said: MachineDescription, own: MachineDescription) -> str:
    """Tell people in which respects two descriptions differ: what is said, and what is here."""
    if said.name != own.name:
        return f"{said.name}, this replica was started with {own.name}"
    theirs, ours = (_values(description) for description in (said, own))
    names = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
    return f"{said.name} with {_told(theirs, names)}, here it has {_told(ours, names)}"


def _values(description: MachineDescription) -> dict[str, int]:
    return {trait.name: trait.value for trait in description.traits}


def _told(values: Mapping[str, int], names: list[str]) -> str:
    return ", ".join(f"{name} {values[name]}" if name in values else f"no {name}" for name in names)
