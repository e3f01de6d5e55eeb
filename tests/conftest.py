"""What every test lives under: reproducible random examples, and one worker for what must not run side by side."""

from __future__ import annotations

import gc
import os
from collections.abc import Container
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find
from hypothesis.strategies import booleans
from xdist.scheduler import LoadGroupScheduling

from tests.depth import Depth, choose, chosen

# Spark has small jobs here, which end before its Java machine has earned back what it spends on optimising them.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the depth be chosen, and files of what is printed or drawn be rewritten, for their difference to be read."""
    depths = [depth.value for depth in Depth]
    parser.addoption("--depth", choices=depths, default=Depth.NORMAL.value, help="how deep: see tests/depth.py")
    parser.addoption("--first-seed", type=int, default=0, help="where seeds begin that are not fixed")
    parser.addoption("--rewrite", action="store_true", help="write scenario and golden files anew instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the depth before test modules are imported, which count by it."""
    choose(Depth(config.getoption("depth")), config.getoption("first_seed"))
    config.option.loadscopereorder = False  # The order is that of ``_turn``, and not of how many tests a file has.
    # Tests make many objects and few circles: at Python's own threshold, 700, looking for these took a twentieth.
    gc.set_threshold(50_000, 20, 20)


def pytest_report_header(config: pytest.Config) -> str:
    """Print what repeats this run."""
    return f"depth: {config.getoption('depth')}, seeds from {config.getoption('first_seed')}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only tests with processes are asked for, leave the files alone that have none, which are most of them."""
    if config.getoption("markexpr") != "cluster" or not collection_path.match("test_*.py"):
        return None
    return None if _names_cluster(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of this depth, and those of Spark on one xdist worker, for their one session; begin the longest.

    This must come before xdist's own hook, which looks for groups.
    """
    items[:], others = chosen(items)
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: _turn(item, slow))
    config.hook.pytest_deselected(items=others)
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("cluster") is not None and not _names_cluster(item.path):
            raise pytest.UsageError(f"{item.path} has tests with processes: write mark.cluster into it")


def _turn(item: pytest.Item, slow: Container[Path]) -> int:
    """When a test begins. What begins last keeps one worker while all others are done: so it is to be short."""
    if any(map(item.get_closest_marker, ("spark", "xdist_group"))):
        return 0
    return 1 if item.get_closest_marker("long") is not None or item.path in slow else 2


def pytest_collection_finish() -> None:
    """What was collected stays until the end: let the garbage collector not walk through it again and again."""
    find(booleans(), bool)  # Else, on Python 3.14, Hypothesis would miss its generator, which is made at its first use.
    gc.freeze()


class ByFile(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """A group stays on one worker, and so does the rest of a file: what it makes once is made once."""

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        return group if group != nodeid else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadGroupScheduling | None:
    """Deal files out, but for tests with processes: these wait more than they work, and none has much in common."""
    return None if config.getoption("markexpr") == "cluster" else ByFile(config, log)


@cache
def _names_cluster(path: Path) -> bool:
    return "mark.cluster" in path.read_text(encoding="utf-8")
