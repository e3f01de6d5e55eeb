"""The disk that most tests of the storage begin with."""

from __future__ import annotations

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from tests.storage.disks import formatted


@pytest.fixture
def files() -> SimulatedFiles:
    """A disk with a formatted data directory."""
    return formatted()
