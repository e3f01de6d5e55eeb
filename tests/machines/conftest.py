"""What every test of a store begins with."""

from __future__ import annotations

import pytest

from tests.machines.key_value_store import Store


@pytest.fixture
def store() -> Store:
    """An empty store."""
    return Store()
