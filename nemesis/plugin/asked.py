"""What a test asks for: its markers, then what it gives when it runs, and above all the command line.

Owns who wins. Values, no pytest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from nemesis.cli.settings import FAULTS, SettingError, check_settings, draws_its_faults

SEED_BITS = 32
DRAWN_BY = (FAULTS, "time_limit")
"""The settings that a schedule is drawn by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOptions:
    """What the command line of pytest says of all runs. ``keep_all`` keeps valid runs whole as well.

    ``schedule`` is what every run does instead of what it would do: the path of a stored schedule, or a name.
    """

    store: Path
    seed: int | None = None
    time_limit: float | None = None
    schedule: str | None = None
    keep_all: bool = False


def merged(markers: Sequence[tuple[Sequence[Any], Mapping[str, Any]]]) -> dict[str, Any]:
    """The settings of a test's markers, each given by its arguments, the closest one first.

    Raises SettingError for arguments without a name, and for settings that do not exist.
    """
    settings: dict[str, Any] = {}
    for positional, named in reversed(markers):
        if positional:
            raise SettingError(f"the marker nemesis takes settings by name only, and was given {positional[0]!r}")
        settings |= named
    check_settings(settings)
    return settings


def settled(marked: Mapping[str, Any], given: Mapping[str, Any], options: GivenOptions) -> dict[str, Any]:
    """All settings of one run, with its seed. Raises SettingError.

    A time limit of the command line is for schedules that are drawn: a directed one lasts as long as its story. A
    schedule of the command line is done as it stands, whatever faults and time the test asks for.
    """
    settings = {**marked, **given}
    if options.schedule is not None:
        settings = {name: value for name, value in settings.items() if name not in DRAWN_BY}
        settings["schedule"] = options.schedule
    check_settings(settings)
    if options.time_limit is not None and draws_its_faults(settings):
        settings["time_limit"] = options.time_limit
    if options.seed is not None:
        settings["seed"] = options.seed
    if settings.get("seed") is None:
        settings["seed"] = SystemRandom().getrandbits(SEED_BITS)
    return settings
