"""What every test lives under: reproducible random examples, and one worker for what must not run side by side."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, database=None, max_examples=100)
settings.register_profile("thorough", deadline=None, database=None, max_examples=2_000, print_blob=True)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let scenario files be rewritten with what they print now, so that the difference can be read."""
    parser.addoption("--rewrite-scenarios", action="store_true", help="write scenario files anew instead of comparing")


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
