"""Which rules a bench goes by that is told none: the right ones, but while a wrong rule is to be convicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from replica.core.rules import Rules

_rules = [Rules()]


def rules_now() -> Rules:
    """The rules for a bench that is told none."""
    return _rules[-1]


@contextmanager
def ruled_by(rules: Rules) -> Iterator[None]:
    """Have benches go by these rules."""
    _rules.append(rules)
    try:
        yield
    finally:
        _rules.pop()


def assert_convicts(test: Callable[[], None], wrong: Rules) -> None:
    """A test of a rule holds by the right rules, and not by these."""
    test()
    with ruled_by(wrong), pytest.raises(AssertionError):
        test()
