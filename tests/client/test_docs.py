"""The examples of docs/clients.md, run as they stand, on real brokers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from replica.client import Admin, ClientError, ViewConfig
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster

pytestmark = pytest.mark.cluster

ADDRESS = "127.0.0.1:9092"
"""What the page says; replaced by where the test's brokers are."""


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """Three brokers that are active, by the address of one."""
    with LocalCluster(tmp_path, size=3) as cluster:
        cluster.format()
        cluster.start(options=("--group", "kv=key-value"))
        address = next(iter(cluster.addresses.values()))
        asyncio.run(wait_active(address, len(cluster.ids)))
        yield address


async def wait_active(address: str, count: int) -> None:
    """Wait until so many brokers are active."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with Admin(address, ViewConfig(metadata_timeout_ms=500)) as admin:
        while time.monotonic() < deadline:
            try:
                described = await admin.describe_cluster(timeout_ms=1000)
            except ClientError:
                continue
            if sum(broker.is_active for broker in described.brokers) == count:
                return
            await asyncio.sleep(0.05)
    raise AssertionError("the brokers do not come up")


def examples(page: Path) -> list[str]:
    """The programs on the page, in their order."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def output_of(program: str) -> list[str]:
    """Run a program in a thread without an event loop, and return the lines that it prints."""
    printed = StringIO()
    names: dict[str, Any] = {"__name__": "example"}
    with ThreadPoolExecutor(1) as thread, redirect_stdout(printed):
        thread.submit(exec, program, names).result()
    return printed.getvalue().splitlines()


def test_the_examples_do_what_the_page_says(pytestconfig: pytest.Config, bootstrap: str) -> None:
    """A topic is created once, records are written one by one and in bulk and read again, and a visit is counted."""
    programs = examples(pytestconfig.rootpath / "docs" / "clients.md")
    outputs = [output_of(program.replace(ADDRESS, bootstrap)) for program in programs]
    created, written, many, records, told, columns, letters, counted = outputs
    assert created[0].startswith("TOPIC_ALREADY_EXISTS ")
    assert sorted(line.split()[0] for line in created[1:]) == ["1", "2", "3"]
    assert [line.split()[1] for line in written] == [str(offset) for offset in range(100)]
    assert many[0].startswith("1000 records from offset ")
    assert told == ["alice apples 3"]
    assert len(records) == 100 + 1000 + 3
    assert columns[0].startswith("1104 ['topic', 'partition', 'offset', ")
    assert letters == ["0", "2", "[b'one', b'two', b'three']"]
    assert counted == ["b'red'", "1 at revision 3", "3 b'visits' b'1'"]
