"""How descriptors are divided, and how many a process takes."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest

from replica.core.config import InvalidConfigError
from replica.server.descriptors import LIMIT_LEAST, RESERVE_LEAST, DescriptorBudget, descriptor_budget
from replica.storage.bounded_files import OPEN_MAX_LEAST

TAKE = "from replica.server.descriptors import raise_descriptor_limit as take; import resource; "
TAKE += "print(take(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"


@pytest.mark.parametrize(
    ("limit", "connections_max", "listeners", "connections", "files"),
    [
        (128, 1000, 1, 24, 24),
        (128, 1000, 2, 12, 24),
        (256, 1000, 1, 80, 80),
        (256, 10, 1, 10, 150),
        (1024, 1000, 1, 416, 416),
        (1024, 1000, 2, 208, 416),
        (20_000, 1000, 2, 1000, 15_436),
    ],
)
def test_what_the_reserve_leaves_is_divided(
    limit: int, connections_max: int, listeners: int, connections: int, files: int
) -> None:
    """Connections have half of it and no more than they may, files the rest."""
    budget = descriptor_budget(limit, connections_max=connections_max, listeners=listeners)
    assert budget == DescriptorBudget(connections=connections, files=files)


def test_no_descriptor_is_given_away_twice() -> None:
    """Whatever the limit is, there are connections, enough files to work with, and a reserve."""
    limits = (*range(LIMIT_LEAST, 3000), 1 << 20)
    for limit, connections_max, listeners in product(limits, (1, 1000, 1_000_000), (1, 2)):
        budget = descriptor_budget(limit, connections_max=connections_max, listeners=listeners)
        assert 1 <= budget.connections <= connections_max
        assert budget.files >= OPEN_MAX_LEAST
        assert budget.connections * listeners + budget.files + RESERVE_LEAST <= limit


def test_too_few_are_refused() -> None:
    """In one sentence that says how many there are and how many there should be."""
    with pytest.raises(InvalidConfigError, match="may open 127 files; a replica needs 128 at least"):
        descriptor_budget(127, connections_max=1, listeners=1)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """A process takes all that it may have."""
    shell = f'ulimit -Sn 200 && ulimit -Hn 300 && exec {sys.executable} -c "$0"'
    done = subprocess.run(["sh", "-c", shell, TAKE], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["300", "300"]
