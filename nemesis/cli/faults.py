"""The options that choose the kinds of faults, how often each comes, and in which order.

Owns their form: names with commas between them, each with its weight if it has one, or none at all.
"""

from __future__ import annotations

import click

from nemesis.faults.catalogue import KINDS, USUAL
from nemesis.schedules.drawn import flip_flop_schedule, random_schedule
from nemesis.schedules.schedule import Schedule
from replica.cli.help import meant

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
        raise _refusal(value, "")
    return tuple(named)


def _weighted(word: str, value: str) -> list[str]:
    name, sign, number = word.partition(":")
    weight = int(number) if number.isdecimal() else 0 if sign else 1
    if name not in KINDS or not 1 <= weight <= WEIGHT_MAX:
        raise _refusal(value, "" if name in KINDS else meant(name, KINDS))
    return [name] * weight


def _refusal(value: str, likely: str) -> click.BadParameter:
    known = ", ".join(KINDS)
    return click.BadParameter(
        f"{value!r}{likely}: give some of {known}, separated by commas, and behind a colon a weight from 1 to "
        f"{WEIGHT_MAX} for what is to come more often; or {NO_FAULTS}"
    )


def _completed(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell may write on: the last of the names, behind those that stand there."""
    del context, parameter
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{kind}" for kind in (*KINDS, NO_FAULTS) if kind.startswith(last)]


def drawn_schedule(
    *, seed: int, kinds: tuple[str, ...], time_limit_s: float, flip_flop: bool, interval_s: float | None
) -> Schedule:
    """The schedule that these options ask for. Raises ValueError where there is too little time, or too much said."""
    if not flip_flop:
        return random_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s, interval_s=interval_s)
    if interval_s is not None:
        raise ValueError("--flip-flop and --nemesis-interval exclude each other: kinds take turns without a pause")
    return flip_flop_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s)


nemesis_option = click.option(
    "--nemesis",
    callback=_kinds,
    shell_complete=_completed,
    metavar="NAMES",
    help=f"The kinds of faults, with commas between, NAME:WEIGHT for one that is to come more often, or {NO_FAULTS}; "
    f"`nemesis doctor` lists them. [default: {','.join(USUAL)}]",
)

flip_flop_option = click.option(
    "--flip-flop", is_flag=True, help="Let the kinds of faults take turns, each until the next strikes."
)

interval_option = click.option(
    "--nemesis-interval",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="From the end of a fault to the next, on average. [default: 3, or what the fault takes to be over]",
)
