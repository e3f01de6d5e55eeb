"""A small store, and a client that asks the application about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nemesis.serve.application import application
from tests.serve.stores import write_run

HOST = "http://127.0.0.1"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three runs of two workloads: one valid, one invalid, one without a verdict; and a link to the last one."""
    root = tmp_path / "store"
    write_run(root / "append" / "20260102T030405")
    write_run(root / "append" / "20260103T030405", verdict="invalid", seed=8, started_at="2026-01-03T03:04:05+00:00")
    write_run(
        root / "register" / "20260104T030405",
        verdict=None,
        workload="register",
        started_at="2026-01-04T03:04:05+00:00",
        versions={"commit": "fff000fff000"},
    )
    (root / "append" / "latest").symlink_to("20260103T030405")
    return root


@pytest.fixture
def client(store: Path) -> Iterator[TestClient]:
    """Asks as a browser on this machine would."""
    with TestClient(application(store), base_url=HOST) as asking:
        yield asking
