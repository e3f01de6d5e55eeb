"""A run that grows is judged by Structured Streaming as by the single process, row by row and step by step."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nemesis.checks.check import Row
from nemesis.pipeline import judge_run
from nemesis.pipeline.streaming import FollowError, Growth
from nemesis.pipeline.streaming.follow import InProcessFollower
from nemesis.pipeline.streaming.on_spark import SparkFollower
from tests.checks.histories import append, became_leader, poll
from tests.checks.simulation import Run
from tests.pipeline.prefixes import Growing
from tests.pipeline.test_streaming import WRONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def sorted_rows(rows: list[Row]) -> list[Row]:
    """In an order that does not depend on which micro-batch found them."""
    return sorted(rows, key=str)


def test_both_engines_find_the_same_at_each_step(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that have been written are found in full, once, whatever is added in between."""
    folder = tmp_path / "a [run] {x}* + %20"
    followers = SparkFollower(spark, folder), InProcessFollower(folder)
    assert [follower.catch_up() for follower in followers] == [[], []], "there is no run yet"
    growing = Growing(folder, WRONG)
    counts = []
    leaders = became_leader(1, 1), became_leader(2, 1)
    steps = (partial(growing.write, 6), partial(growing.write, 8), partial(growing.tell, *leaders), growing.finish)
    try:
        for step in steps:
            step()
            on_spark, in_process = (sorted_rows(follower.catch_up()) for follower in followers)
            assert on_spark == in_process
            counts.append(len(in_process))
    finally:
        followers[0].close()
    assert counts == [0, 2, 1, 0]
    assert followers[0].look() == followers[0].catch_up() == [], "it is closed"
    followers[0].close()
    assert judge_run(folder, spark=spark).verdict == "invalid"


def test_a_process_that_changes_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """What a process did elsewhere is not taken for the end of what it did here."""
    here, there = {"topic_partition": "log-0"}, {"topic_partition": "log-1"}
    operations = [
        append((0, None), 7, type="info") | here,
        append((1, 2), 8, 0) | there,
        poll((3, 4), 0, (0, 7), process=1) | here,
        poll((5, 6), 0, (0, 9), process=1) | there,
    ]
    run = Run(operations=operations, logs=[], events=[], gapless=False)
    growing = Growing(tmp_path / "run", run)
    growing.write(7)
    follower = SparkFollower(spark, tmp_path / "run")
    try:
        found = follower.catch_up()
    finally:
        follower.close()
    assert sorted_rows(found) == sorted_rows(InProcessFollower(tmp_path / "run").look())
    assert {row["topic_partition"] for row in found} == {"log-1"}


def test_what_cannot_be_followed_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """The reason is that of the single process, and asking again gives it again."""
    growing = Growing(tmp_path / "run", WRONG)
    growing.write(8)
    follower = SparkFollower(spark, tmp_path / "run", Growth(tmp_path / "run", events_max=7))
    try:
        for _ in range(2):
            with pytest.raises(FollowError, match="longer than 7 events"):
                follower.catch_up()
    finally:
        follower.close()
