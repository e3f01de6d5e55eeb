"""From judgements to what the user gets: a row for each object, a row with evidence for each that is not valid.

Owns joining the windows of an object, names, the order of the rows, the verdict on all, and the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nemesis.pipeline.corpora.encoding import ints
from nemesis.pipeline.corpora.schemas import ANOMALIES, ANOMALY_ROWS, JUDGEMENT_ROWS, KEY_ROWS, KEYS
from nemesis.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was found. ``keys`` (``KEY_ROWS``) and ``anomalies`` (``ANOMALY_ROWS``) are in the order of (run, key)."""

    verdict: Verdict
    keys: pa.Table
    anomalies: pa.Table

    @property
    def counts(self) -> Mapping[str, int]:
        """How many objects have each verdict."""
        return Counter(self.keys.column("verdict").to_pylist())


def results_of(judgements: pa.Table, names: pa.Table, model: str) -> Results:
    """The results of ``judgements`` (``JUDGEMENT_ROWS``) of objects with ``names`` (``OBJECT_ROWS``)."""
    joined, windows = _joined(judgements)
    run_id, key = _named(ints(joined, "object", 0), names)
    count = joined.num_rows
    rows = joined.append_column("run_id", run_id).append_column("key", key)
    rows = rows.append_column("windows", pa.array(windows, pa.int32()))
    rows = rows.append_column("model", pa.array([model] * count, pa.string()))
    rows = rows.sort_by([("run_id", "ascending"), ("object", "ascending")])
    anomalies = rows.filter(pc.not_equal(rows.column("verdict"), Verdict.VALID.value))
    return Results(
        verdict=Verdict.worst(pc.unique(rows.column("verdict")).to_pylist()),
        keys=rows.select(KEY_ROWS.names).cast(KEY_ROWS),
        anomalies=anomalies.select(ANOMALY_ROWS.names).cast(ANOMALY_ROWS),
    )


def write_results(results: Results, folder: Path) -> None:
    """Write ``keys`` and ``anomalies`` as Parquet, each partitioned by verdict. Raises FileExistsError."""
    for name, table in ((KEYS, results.keys), (ANOMALIES, results.anomalies)):
        (folder / name).mkdir(parents=True)
        pq.write_to_dataset(table, folder / name, partition_cols=["verdict"], compression="zstd")


def _joined(judgements: pa.Table) -> tuple[pa.Table, list[int]]:
    """One row for each object, and from how many windows."""
    cut = np.unique(ints(judgements, "object", 0)[ints(judgements, "window", 0) > 0])
    if not len(cut):
        return judgements, [1] * judgements.num_rows
    is_cut = pa.array(np.isin(ints(judgements, "object", 0), cut))
    whole = judgements.filter(pc.invert(is_cut))
    parts = sorted(judgements.filter(is_cut).to_pylist(), key=itemgetter("object", "window"))
    groups = [list(group) for _, group in groupby(parts, key=itemgetter("object"))]
    rows = pa.Table.from_pylist([_of_windows(group) for group in groups], schema=JUDGEMENT_ROWS)
    return pa.concat_tables([whole, rows]), [1] * whole.num_rows + [len(group) for group in groups]


def _of_windows(windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The judgement of an object from those of its windows: the first of the worst ones tells why."""
    worst = max(windows, key=lambda window: Verdict(window["verdict"]).badness)
    summed = ("operations", "unknown_outcomes", "judged", "configurations")
    row = worst | {name: sum(window[name] for window in windows) for name in summed}
    row["decided"] = 0
    for window in windows:
        row["decided"] += window["decided"]
        if window["verdict"] != Verdict.VALID:
            return row
    return row | {"kernel": "+".join(sorted({window["kernel"] for window in windows}))}


def _named(objects: Any, names: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The run and the key of each object; an object without a name is its number."""
    own = names.sort_by("object")
    known = ints(own, "object", 0)
    if not len(known):
        return pa.array([""] * len(objects), pa.string()), pa.array(objects).cast(pa.string())
    places = np.minimum(np.searchsorted(known, objects), len(known) - 1)
    is_named = pa.array(known[places] == objects)
    run_id, key = (own.column(name).combine_chunks().take(pa.array(places)) for name in ("run_id", "key"))
    numbers = pa.array(objects).cast(pa.string())
    return pc.if_else(is_named, run_id, ""), pc.if_else(is_named, key, numbers)
