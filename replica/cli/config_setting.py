"""A setting of a replica, as an option of the command line and as a key of a file: one declaration for both.

Owns what is told of a setting (its unit, what it may be, its default) and which values of a file it takes. Knows not
which settings there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from replica.core.setting_kinds import UpdateMode

SHOWN_MAX = 80
"""Characters of a value that an error repeats."""
NUMBER_MAX = 1 << 64
"""Larger numbers are not written out."""


class WrongValueError(ValueError):
    """A value that a setting cannot have; the message says what it may be."""


class Setting(click.Option):
    """An option that can come from ``REPLICA_<NAME>`` and from a file as well.

    ``unit`` says what is counted, or what kind of thing it is. ``may_be`` says in words what an option may be whose
    type does not say it. ``holds`` is what holds where nothing is given: several values where parts differ in it.
    ``mode`` is how it is changed once replicas run.
    """

    def __init__(
        self,
        param_decls: Sequence[str],
        *,
        unit: str,
        may_be: str = "",
        holds: Sequence[Any] = (),
        mode: UpdateMode = UpdateMode.READ_ONLY,
        **attributes: Any,
    ) -> None:
        key = next(name for name in param_decls if name.startswith("--")).partition("/")[0].removeprefix("--")
        self.key = key
        self.variable = f"REPLICA_{key.upper().replace('-', '_')}"
        super().__init__(param_decls, envvar=self.variable, **attributes)
        self.unit = unit
        self.holds = tuple(holds)
        self.mode = mode
        self._may_be = may_be

    @property
    def may_be(self) -> str:
        """Which values it may have, in words."""
        match self.type:
            case _ if self.is_flag:
                return "true or false"
            case click.IntRange(min=least, max=most):
                return f"{least} to {most}"
            case click.Choice(choices=choices):
                return ", ".join(map(str, choices))
            case _:
                return self._may_be

    def in_force(self, value: Any) -> Any:
        """What counts for a value that was or was not given; a list where parts of the replica differ in it."""
        if value is not None and value != ():
            return list(value) if self.multiple else value
        return self.holds[0] if len(self.holds) == 1 else list(self.holds) or None

    def from_file(self, value: Any) -> Any:
        """Check a value that stands in a file, and return it as click takes it. Raises WrongValueError."""
        if self.multiple:
            return self._entries(value)
        if not self._fits(value):
            raise WrongValueError(f"is {shown(value)}; it must be {self._wanted}")
        if isinstance(self.type, click.Path) and not value.isprintable():  # Such as the text of a key.
            raise WrongValueError("is no path, which has neither line breaks nor control characters")
        return value

    def _fits(self, value: Any) -> bool:
        match self.type:
            case _ if self.is_flag:
                return isinstance(value, bool)
            case click.IntRange(min=int(least), max=int(most)):
                return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
            case click.Choice(choices=choices):
                return isinstance(value, str) and value in choices
            case _:
                return isinstance(value, str) and value != ""

    @property
    def _wanted(self) -> str:
        match self.type:
            case _ if self.is_flag:
                return self.may_be
            case click.IntRange():
                return f"a whole number from {self.may_be}"
            case click.Choice(choices=choices):
                return "one of " + ", ".join(f'"{choice}"' for choice in choices)
            case _:
                return f"{self.unit} in quotes"

    def _entries(self, value: Any) -> list[str]:
        """The entries of a table or of a list, as the option takes them one by one."""
        name, is_table, content = self.unit.partition("=")
        if not is_table:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise WrongValueError(f'is {shown(value)}; it must be a list of {self.unit}: ["{self.unit}"]')
            return value
        if not isinstance(value, Mapping):
            raise WrongValueError(
                f'is {shown(value)}; it must be a table: [{self.key}], and below it {name} = "{content}"'
            )
        for each, given in value.items():
            if "=" in each:
                raise WrongValueError(f"has the key {shown(each)}; it must be {name} alone")
            if not isinstance(given, str):
                raise WrongValueError(f"has {shown(given)} for {shown(each)}; it must be {content} in quotes")
        return [f"{each}={given}" for each, given in value.items()]


def shown(value: object) -> str:
    """As much of a value as an error repeats; of a text of several lines, which may be a key, nothing."""
    match value:
        case bool():
            return str(value).lower()
        case str() if "\n" in value:
            return "a text of several lines"
        case str():
            return repr(value if len(value) <= SHOWN_MAX else f"{value[:SHOWN_MAX]}...")
        case int() if abs(value) > NUMBER_MAX:
            return "a number that is too large"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return str(value)
