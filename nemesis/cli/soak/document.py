"""What is swept, read and refused: a file, and what the command line adds.

Owns its form: ``name``, ``[options]`` (what all runs have in common) and ``[matrix]`` (lists, of which every
combination is run, and ``seeds``). What it cannot mean is told with the key and the line where it stands.

Every combination of a sweep's axes with every seed, in the order of the file, seeds last.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from nemesis.cli.settings import SettingError, check_settings

NAME, OPTIONS, MATRIX, SEEDS = "name", "options", "matrix", "seeds"
SEEDS_MAX = 10_000
VALUES_MAX = 1000
_NAME = re.compile(r"[\w.-]+")
_TABLE = re.compile(r"\s*\[\s*(\w+)\s*\]")


class SweepError(ValueError):
    """A file that is no sweep; the message begins with its name and, where there is one, the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """``options`` are settings of every run, ``axes`` lists of settings to combine.

    Each combination is run with all ``seeds``, and with as many more as ``drawn`` says.
    """

    name: str
    options: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    drawn: int = 0

    def with_options(self, given: Mapping[str, Any]) -> Sweep:
        """The same with these settings in the place of its own. Raises SweepError, without a line."""
        for name, value in given.items():
            if name in self.axes:
                raise SweepError(f"{name} = {value!r}: it stands in [{MATRIX}] of {self.name}")
            try:
                check_settings({name: value})
            except SettingError as error:
                raise SweepError(str(error)) from None
        return replace(self, options={**self.options, **given})

    def with_seeds(self, listed: str | None, drawn: int) -> Sweep:
        """The same with the seeds of a text such as ``1-10,17``, if there is one, and so many drawn ones.

        Where there is no other, one is drawn. Raises SweepError.
        """
        seeds = self.seeds if listed is None else seeds_of(listed) if listed else ()
        if seeds is None:
            raise SweepError(f"{listed!r}: give up to {SEEDS_MAX} seeds and ranges of seeds, such as 1-10,17")
        if listed == "" and not drawn:
            raise SweepError("there is no seed to run: give --seeds or --fresh")
        return replace(self, seeds=seeds, drawn=drawn or int(not seeds))


def read_sweep(path: Path) -> Sweep:
    """Read a sweep. Raises SweepError for what it cannot mean, OSError where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # No TOML, no UTF-8, thousands of digits, or too deep in brackets.
        raise SweepError(f"{path}: {error}") from None
    return _Reader(path, text, document).sweep()


class _Reader:
    """One file, and what is wrong with it."""

    def __init__(self, path: Path, text: str, document: Mapping[str, Any]) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._document = document

    def sweep(self) -> Sweep:
        for name in self._document:
            if name not in (NAME, OPTIONS, MATRIX):
                raise self._error("", name, f"there is no such key: give {NAME}, [{OPTIONS}] and [{MATRIX}]")
        options, matrix = self._table(OPTIONS), self._table(MATRIX)
        for name, value in options.items():
            self._check_option(name, value, matrix)
        axes = {name: self._axis(name, values) for name, values in matrix.items() if name != SEEDS}
        seeds = self._seeds(matrix)
        return Sweep(name=self._name(), options=options, axes=axes, seeds=seeds, drawn=int(not seeds))

    def _name(self) -> str:
        name = self._document.get(NAME, self._path.stem)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise self._error("", NAME, f"{name!r} is no name of a folder: use letters, digits, dots, - and _")
        return name

    def _table(self, name: str) -> dict[str, Any]:
        table = self._document.get(name, {})
        if not isinstance(table, dict):
            raise self._error("", name, f"{table!r} is no table: write [{name}], and its keys below")
        return table

    def _check_option(self, name: str, value: Any, matrix: Mapping[str, Any]) -> None:
        if name in matrix:
            raise self._error(OPTIONS, name, f"it stands in [{MATRIX}] as well")
        if name in ("seed", SEEDS):
            raise self._error(OPTIONS, name, f"seeds belong in [{MATRIX}]: {SEEDS} = [1, 2, 3]")
        self._check_setting(OPTIONS, name, value)

    def _axis(self, name: str, values: Any) -> tuple[Any, ...]:
        if name == "seed":
            raise self._error(MATRIX, name, f"it is called {SEEDS} here")
        if not isinstance(values, list) or not 1 <= len(values) <= VALUES_MAX:
            raise self._error(MATRIX, name, f"{values!r}: give a list of values, each of which is run")
        for value in values:
            self._check_setting(MATRIX, name, value)
        return tuple(values)

    def _check_setting(self, table: str, name: str, value: Any) -> None:
        try:
            check_settings({name: value})
        except SettingError as error:
            raise self._error(table, name, str(error)) from None

    def _seeds(self, matrix: Mapping[str, Any]) -> tuple[int, ...]:
        given = matrix.get(SEEDS, [])
        seeds = seeds_of(given)
        if seeds is None or len(seeds) > SEEDS_MAX or (SEEDS in matrix and not seeds):
            said = f'{given!r}: give 1 to {SEEDS_MAX} seeds, as [1, 2, 3] or as "1-10,17"'
            raise self._error(MATRIX, SEEDS, said)
        return seeds

    def _error(self, table: str, key: str, message: str) -> SweepError:
        name = f"{table}.{key}" if table else key
        return SweepError(f"{self._path}:{line_of(self._lines, table, key)}: {name}: {message}")


def seeds_of(given: Any) -> tuple[int, ...] | None:
    """The seeds that a list of numbers or a text such as ``1-10,17`` names; nothing if it names none."""
    if isinstance(given, list):
        whole = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in given)
        return tuple(given) if whole else None
    if not isinstance(given, str) or not re.fullmatch(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*", given):
        return None
    bounds = [part.partition("-") for part in given.split(",")]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in bounds]
    return tuple(seed for some in ranges for seed in some) if sum(map(len, ranges)) <= SEEDS_MAX else None


def line_of(lines: list[str], table: str, key: str) -> int:
    """The line, from 1, where a key of a table stands; that of the table's own where the key is not found, else 1."""
    here, of_table = "", 1
    key_here = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[.=]""")
    dotted = re.compile(rf"""\s*{re.escape(table)}\s*[.=].*\b{re.escape(key)}\b""")
    for number, line in enumerate(lines, 1):
        header = _TABLE.match(line)
        if header:
            here = header.group(1)
            of_table = number if here == (table or key) else of_table
        elif (here == table and key_here.match(line)) or (table and not here and dotted.match(line)):
            return number
    return of_table


RUNS_MAX = 100_000
SEED_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run: ``combination`` names what it shares with its other seeds, ``settings`` are all of it."""

    combination: str
    seed: int
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What tells it from all others of its sweep."""
        return f"{self.combination}, seed {self.seed}"


def cells_of(sweep: Sweep, random: Random) -> Iterator[Cell]:
    """One round of the sweep; seeds that it does not name are drawn from ``random`` for each combination."""
    for values in itertools.product(*sweep.axes.values()):
        chosen = dict(zip(sweep.axes, values, strict=True))
        for seed in (*sweep.seeds, *(random.getrandbits(SEED_BITS) for _ in range(sweep.drawn))):
            settings = {**sweep.options, **chosen, "seed": seed}
            yield Cell(combination=_named(chosen) or sweep.name, seed=seed, settings=settings)


def count_of(sweep: Sweep) -> int:
    """How many runs one round has."""
    count = len(sweep.seeds) + sweep.drawn
    for values in sweep.axes.values():
        count *= len(values)
    return count


def _named(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in chosen.items())


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
