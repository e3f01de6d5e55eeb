"""Seeds that are spread over a cluster give what they give here, and leave the same corpus."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.pipeline.session import _package
from nemesis.simulator.corpus import TABLES, CorpusWriter, run_seed
from nemesis.simulator.on_spark import simulate_on_spark
from nemesis.simulator.run import SimOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = SimOptions(seed=0, time_limit_s=8)
WRONG = replace(OPTIONS, variant="ack-before-replication")
ORDER = {"runs": ["seed"], "history": ["run_id", "index"], "logs": ["run_id", "replica_id", "base_offset"]}


def read(corpus: Path, name: str) -> pa.Table:
    """One table of a corpus, its rows in an order of their own."""
    table = pq.read_table(corpus / name)
    keys = ORDER.get(name) or [column for column in table.schema.names if column != "detail"]
    return table.sort_by([(key, "ascending") for key in keys]).combine_chunks()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_cluster_gives_the_same_rows_and_the_same_corpus(spark: SparkSession, tmp_path: Path) -> None:
    """Eight seeds on Spark give the rows that they give here, and in Parquet the same tables."""
    seeds = [8, 1, 2, 3, 4, 5, 6, 7]
    here, there = tmp_path / "here", tmp_path / "the re + %20"
    results = [run_seed(OPTIONS, True, seed) for seed in seeds]
    with CorpusWriter(here) as writer:
        for result in results:
            writer.add(result.tables)

    assert simulate_on_spark(OPTIONS, seeds, corpus=str(there), spark=spark) == [result.row for result in results]
    for name, schema in TABLES.items():
        assert read(there, name).schema.names == schema.names
        assert read(there, name).cast(schema).to_pylist() == read(here, name).to_pylist(), name
    assert read(here, "history").num_rows > 8


@pytest.mark.spark
def test_failing_seeds_come_back_as_rows(spark: SparkSession) -> None:
    """What convicts a wrong protocol on a cluster names its seed, its violation and the command that repeats it."""
    rows = simulate_on_spark(WRONG, [1, 2], spark=spark)

    assert [(row.seed, row.verdict, row.violation) for row in rows] == [
        (1, "invalid", "acknowledged-is-committed"),
        (2, "invalid", "acknowledged-is-committed"),
    ]
    assert rows[1].command == "nemesis sim --seed 2 --variant ack-before-replication --time-limit 8"


@pytest.mark.spark
def test_an_error_on_a_worker_is_no_verdict(spark: SparkSession) -> None:
    """A seed at which the simulator itself fails comes back without a verdict, with its error."""
    (row,) = simulate_on_spark(replace(OPTIONS, variant="no-such-variant"), [5], spark=spark)

    assert (row.seed, row.verdict) == (5, None)
    assert "KeyError" in str(row.error)


@pytest.mark.spark
def test_a_corpus_is_not_written_over(spark: SparkSession, tmp_path: Path) -> None:
    """A folder that holds a table already is left as it was."""
    (tmp_path / "runs").mkdir()
    with pytest.raises(FileExistsError, match="runs exists already"):
        simulate_on_spark(OPTIONS, [1], corpus=str(tmp_path), spark=spark)

    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.slow
def test_workers_get_all_that_a_simulation_needs(tmp_path: Path) -> None:
    """The sources that are shipped suffice to simulate: what is imported of this distribution comes out of them."""
    package = _package(tmp_path)
    program = (
        "import sys, nemesis.simulator.corpus as corpus, nemesis.pipeline.frames;"
        "from nemesis.simulator.run import SimOptions;"
        "rows = list(corpus.tables_of_seeds(SimOptions(seed=1, time_limit_s=2), False, [1]));"
        "own = [m.__file__ for name, m in sys.modules.items() if name.split('.')[0] in ('nemesis', 'replica')];"
        f"assert own and all(path.startswith({str(package)!r}) for path in own), own;"
        "print(rows[0][1].column('verdict').to_pylist())"
    )
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.returncode) == ("['valid']\n", 0), done.stderr
