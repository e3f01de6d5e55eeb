"""A sweep on a Spark cluster: the same simulation, the same rows, the same corpus.

Owns what is handed to the pipeline, which knows nothing of simulation: the work as a function of seeds, and the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from nemesis.pipeline.spread import Session, spread
from nemesis.simulator.corpus import RUNS, TABLES, RunRow, rows_of, tables_of_seeds
from nemesis.simulator.run import SimOptions


def simulate_on_spark(
    options: SimOptions,
    seeds: Sequence[int],
    *,
    corpus: str | None = None,
    master: str = "local[*]",
    spark: Session | None = None,
) -> list[RunRow]:
    """Simulate ``options`` with every seed; their rows in the order of the seeds. See ``spread`` for the rest."""
    with_tables = corpus is not None
    tables = TABLES if with_tables else {RUNS: TABLES[RUNS]}
    where = corpus if corpus is None or "://" in corpus else f"file://{Path(corpus).resolve()}"
    runs = spread(
        seeds,
        partial(tables_of_seeds, options, with_tables),
        tables,
        collect=RUNS,
        corpus=where,
        master=master,
        spark=spark,
    )
    by_seed = {row.seed: row for row in rows_of(runs)}
    return [by_seed[seed] for seed in seeds]
