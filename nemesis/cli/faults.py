"""The options that choose the kinds of faults, how often each comes, and in which order.

Owns their form: names with commas between them, each with its weight if it has one, or none at all.
"""

from __future__ import annotations

import click

from nemesis.faults.catalogue import KINDS, USUAL
from nemesis.schedules.drawn import flip_flop_schedule, random_schedule
from nemesis.schedules.schedule import Schedule

NO_FAULTS = "none"
WEIGHT_MAX = 100


def _kinds(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Read ``partition,kill:3``; ``none`` is no kind at all, an absent option says nothing.

    A kind with a weight is named as often as that.
    """
    del context, parameter
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == [NO_FAULTS]:
        return ()
    named = [kind for word in words for kind in _weighted(word, value)]
    if not named:
        raise _refusal(value)
    return tuple(named)


def _weighted(word: str, value: str) -> list[str]:
    name, sign, number = word.partition(":")
    weight = int(number) if number.isdecimal() else 0 if sign else 1
    if name not in KINDS or not 1 <= weight <= WEIGHT_MAX:
        raise _refusal(value)
    return [name] * weight


def _refusal(value: str) -> click.BadParameter:
    known = ", ".join(KINDS)
    return click.BadParameter(
        f"{value!r}: give some of {known}, separated by commas, and behind a colon a weight from 1 to {WEIGHT_MAX} for "
        f"what is to come more often; or {NO_FAULTS}"
    )


def drawn_schedule(*, seed: int, kinds: tuple[str, ...], time_limit_s: float, flip_flop: bool) -> Schedule:
    """The schedule that these options ask for. Raises ValueError where there is too little time."""
    make = flip_flop_schedule if flip_flop else random_schedule
    return make(seed=seed, kinds=kinds, time_limit_s=time_limit_s)


nemesis_option = click.option(
    "--nemesis",
    callback=_kinds,
    metavar="NAMES",
    help=f"{', '.join(KINDS)}; NAME:WEIGHT to draw one more often; or {NO_FAULTS}. [default: {','.join(USUAL)}]",
)

flip_flop_option = click.option(
    "--flip-flop", is_flag=True, help="Let the kinds of faults take turns, each until the next strikes."
)
