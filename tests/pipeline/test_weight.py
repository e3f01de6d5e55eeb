"""How much of a topic-partition is judged is measured in one way, and whoever judges keeps to it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from nemesis.history.schemas import HISTORY_SCHEMA
from nemesis.pipeline import judge_run
from nemesis.pipeline.weight import BYTES_OF_WEIGHT, Weight
from nemesis.verdict import Verdict
from nemesis.workload.register import RegisterWorkload
from tests.pipeline.object_runs import used_store
from tests.pipeline.recorded import cluster_run, record_run
from tests.workload.fake_store import LostUpdates


@pytest.mark.parametrize("rows_at_once", [1, 7, 1_000])
def test_weight_is_that_of_all_pieces(rows_at_once: int) -> None:
    """In whatever pieces rows come they weigh the same: one each, one each record, and their texts together."""
    event = dict.fromkeys(HISTORY_SCHEMA.names) | {"index": 0, "time_ns": 0, "process": 0, "type": "ok", "f": "poll"}
    read = event | {"records": [{"offset": 0, "value": 1}, {"offset": 1, "value": 2}]}
    failed = event | {"error": "x" * (BYTES_OF_WEIGHT - len("ok") - len("poll"))}
    table = pa.Table.from_pylist([event, read, failed] * 100, schema=HISTORY_SCHEMA)
    weight = Weight(table.slice(at, rows_at_once) for at in range(0, 300, rows_at_once))
    assert weight.total == 300 + 200 + (100 * BYTES_OF_WEIGHT + 200 * len("okpoll")) // BYTES_OF_WEIGHT


def test_a_log_with_too_much_is_unknown_in_this_process_too(tmp_path: Path) -> None:
    """One log more is not looked at, by any check, and its run is unknown for that reason; the others are looked at."""
    folder = record_run(tmp_path / "run", cluster_run())
    whole, part = (judge_run(folder, engine="local", weight_max=most) for most in (29, 28))
    (reason,) = (reason for reason in part.reasons if "more than are judged at once, 28" in reason)
    looked = {check.name: check.looked for check in whole.checks}
    assert reason.startswith("orders-0: 29 rows and records")
    assert whole.verdict is Verdict.VALID
    assert part.verdict is Verdict.UNKNOWN
    assert part.stats == whole.stats
    assert all(check.missed == 1 for check in part.checks if looked[check.name])
    assert 0 < sum(check.looked for check in part.checks) < sum(looked.values())


def test_an_object_with_too_much_is_unknown_in_this_process_too(tmp_path: Path) -> None:
    """Of what is used too much it is said that nobody knows whether it is linearizable."""
    folder = used_store(tmp_path / "run", RegisterWorkload, LostUpdates(Random(3)), events=200)
    assert judge_run(folder, engine="local").verdict is not Verdict.UNKNOWN
    part = judge_run(folder, engine="local", weight_max=10)
    (check,) = (check for check in part.checks if check.name == "nonlinearizable")
    assert (part.verdict, check.looked) == (Verdict.UNKNOWN, 0)
    assert "rows and records are more than are judged at once, 10" in check.why
