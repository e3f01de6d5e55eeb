"""The examples of docs/spark.md, run as they stand, on real brokers."""

from __future__ import annotations

import json
import os
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica.spark.options import BATCH_OPTIONS, STREAM_OPTIONS, WRITE_OPTIONS
from tests.spark.live import Live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDRESS = "127.0.0.1:9092"
"""What the page says; replaced by where the test's brokers are."""


def page(root: Path) -> str:
    """The page's text."""
    return (root / "docs" / "spark.md").read_text(encoding="utf-8")


def output_of(program: str, names: dict[str, Any]) -> str:
    """Run a program that goes on with the names of the one before, and return what it prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(program, names)
    return printed.getvalue()


@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_the_examples_do_what_the_page_says(
    pytestconfig: pytest.Config, spark: SparkSession, live: Live, tmp_path: Path
) -> None:
    """Rows are written and counted, a stream copies them, repeats are dropped, and a batch is written under a name."""
    for topic in ("orders", "shouted", "archive"):
        live.create(topic, partitions=2)
    programs = re.findall(r"```python\n(.*?)```", page(pytestconfig.rootpath), re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    checkpoints = tmp_path / "checkpoints"  # The JVM has its own working directory.
    table, stream, repeats, batch = (
        program.replace(ADDRESS, live.servers).replace("checkpoints/", f"{checkpoints}/") for program in programs
    )
    assert re.findall(r"customer-(\d)\s*\|\s*(\d+)", output_of(table, names)) == [
        (str(number), "15" if number < 2 else "14") for number in range(7)
    ]
    (topics,) = json.loads(output_of(stream, names))["topics"].values()
    assert sum(position["offset"] for position in topics["partitions"].values()) == 100
    assert output_of(repeats, names) == "100 100\n100\n"
    output_of(batch, names)
    archived = live.read("archive")
    assert sorted(record.value or b"" for record in archived) == sorted(b"order %d" % number for number in range(100))
    assert {dict(record.headers)["highwater.query"] for record in archived} == {b"archive-orders"}
    assert sorted(os.listdir(checkpoints)) == ["archive", "shouted"]


def test_every_option_is_told(pytestconfig: pytest.Config) -> None:
    """The page names each option that there is."""
    told = page(pytestconfig.rootpath)
    assert [name for name in {*BATCH_OPTIONS, *STREAM_OPTIONS, *WRITE_OPTIONS} if f"`{name}`" not in told] == []
