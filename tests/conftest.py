"""What every test lives under: reproducible random examples, and one worker for what must not run side by side."""

from __future__ import annotations

import gc
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("thorough", deadline=None, database=None, max_examples=2_000, print_blob=True)
settings.load_profile("default")

# Spark has small jobs here, which end before its Java machine has earned back what it spends on optimising them.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let scenario files be rewritten with what they print now, so that the difference can be read."""
    parser.addoption("--rewrite-scenarios", action="store_true", help="write scenario files anew instead of comparing")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only tests with processes are asked for, leave the files alone that have none, which are most of them."""
    if config.getoption("markexpr") != "cluster" or not collection_path.match("test_*.py"):
        return None
    return None if _names_cluster(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all Spark tests on one xdist worker, for their one session, and those with processes on one a file.

    This must come before xdist's own hook, which looks for groups.
    """
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("cluster") is not None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
        if item.get_closest_marker("cluster") is not None and not _names_cluster(item.path):
            raise pytest.UsageError(f"{item.path} has tests with processes: write mark.cluster into it")


def pytest_collection_finish() -> None:
    """What was collected stays until the end: let the garbage collector not walk through it again and again."""
    gc.freeze()


@cache
def _names_cluster(path: Path) -> bool:
    return "mark.cluster" in path.read_text(encoding="utf-8")
