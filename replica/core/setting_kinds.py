"""What a setting can be: a number in its bounds, a switch, or one of some words; and how it is changed.

Owns how each is read from text, and every sentence about text that is something else. Knows no setting.

Source: Kafka's ``ConfigDef.parseType``; KIP-226 for the update modes.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replica.bounds import INT32_MAX, INT64_MAX
from replica.core.config import InvalidConfigError

SHOWN_MAX = 80

Value = int | bool | str


class UpdateMode(StrEnum):
    """How a setting is changed: by a restart, or while replicas run, for each broker apart or for all alike."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Number(Struct, frozen=True):
    """What a number counts, what it does, and its bounds, both included."""

    unit: str
    says: str
    least: int = 1
    most: int = INT32_MAX
    mode: UpdateMode = UpdateMode.READ_ONLY

    def check(self, name: str, value: int) -> None:
        """Raise InvalidConfigError for a value outside of the bounds."""
        if not self.least <= value <= self.most:
            raise InvalidConfigError(f"{name} is {value}; it must be at least {self.least} and at most {self.most}")

    def read(self, name: str, text: str) -> int:
        """Read a value. Raises InvalidConfigError."""
        number = text.strip()
        digits = number[1:] if number[:1] in ("+", "-") else number
        # The length first: there is no need to work out the value of a megabyte of digits.
        if digits.isascii() and digits.isdigit() and len(digits) <= len(str(INT64_MAX)):
            value = int(number)
            if self.least <= value <= self.most:
                return value
        raise InvalidConfigError(f"{name} is {shown(text)}; it must be a number from {self.least} to {self.most}")


class Switch(Struct, frozen=True):
    """What is switched on or off, and what that does."""

    says: str
    mode: UpdateMode = UpdateMode.READ_ONLY

    def read(self, name: str, text: str) -> bool:
        """Read a value. Raises InvalidConfigError."""
        if text.strip().lower() not in ("true", "false"):
            raise InvalidConfigError(f"{name} is {shown(text)}; it must be true or false")
        return text.strip().lower() == "true"


class Word(Struct, frozen=True):
    """Which of some words it may be, and what that does."""

    says: str
    words: tuple[str, ...]
    mode: UpdateMode = UpdateMode.READ_ONLY

    def read(self, name: str, text: str) -> str:
        """Read a value. Raises InvalidConfigError."""
        for word in self.words:
            if text.strip().lower() == word.lower():
                return word
        raise InvalidConfigError(f"{name} is {shown(text)}; it must be {' or '.join(self.words)}")


Kind = Number | Switch | Word


def written(value: Value) -> str:
    """A value as it is kept: plain digits, a word, true or false."""
    return value if isinstance(value, str) else str(value).lower()


def shown(text: str) -> str:
    """As much of a value as an error repeats."""
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}...")
