"""What a sweep leaves: rows that are whole in themselves, histories that can be judged again, nothing written over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.history.tables import table_of
from nemesis.pipeline.local import judge_tables
from nemesis.simulator.corpus import (
    RUN_SCHEMA,
    RUNS,
    TABLES,
    CorpusWriter,
    RunRow,
    lost_result,
    repeat_command,
    row_of,
    rows_of,
    run_seed,
    runs_table,
    tables_of_seeds,
)
from nemesis.simulator.rare import Rare
from nemesis.simulator.run import SimOptions, simulate
from nemesis.simulator.sweep import Lost
from nemesis.simulator.tally import Tally
from nemesis.verdict import Verdict

OPTIONS = SimOptions(seed=0, time_limit_s=12)
WRONG = replace(OPTIONS, variant="ack-before-replication")


def one_run(corpus: dict[str, pa.Table], kind: Kind, run_id: str) -> pa.Table:
    """The rows of one run, as they stand in a run's own folder."""
    rows = corpus[kind.value]
    return rows.filter(pc.equal(rows.column("run_id"), run_id)).drop_columns(["run_id"]).cast(SCHEMAS[kind])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The corpus of three seeds, one of them lost, as it was written and read again."""
    folder = tmp_path_factory.mktemp("corpus")
    with CorpusWriter(folder) as writer:
        for seed in (3, 5):
            writer.add(run_seed(OPTIONS, True, seed).tables)
        writer.add(lost_result(OPTIONS, 7, Lost(error="broken")).tables)
    return {name: pq.read_table(folder / name) for name in TABLES}


def test_a_corpus_has_every_run(corpus: dict[str, pa.Table]) -> None:
    """Each run is one row, the lost one without a verdict, and each table has its declared columns."""
    rows = rows_of(corpus[RUNS])

    assert [(row.seed, row.verdict, row.error) for row in rows] == [
        (3, "valid", None),
        (5, "valid", None),
        (7, None, "broken"),
    ]
    assert rows[0] == row_of(simulate(replace(OPTIONS, seed=3)))
    assert {name: table.schema for name, table in corpus.items()} == dict(TABLES)


def test_a_history_of_a_corpus_is_judged_as_the_run_was(corpus: dict[str, pa.Table]) -> None:
    """The tables of one run in the corpus are those that the run was judged by."""
    run = simulate(replace(OPTIONS, seed=5))
    tables = [one_run(corpus, kind, "5") for kind in (Kind.HISTORY, Kind.LOGS, Kind.EVENTS)]
    counts, findings = judge_tables("5", *tables, whole=True)

    assert tables[0] == table_of(Kind.HISTORY, run.record.history)
    assert (counts, findings.anomalies.to_pylist()) == (run.counts, list(run.anomalies))


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A folder with any table of a corpus in it is refused before anything is written."""
    (tmp_path / "logs").mkdir()
    with pytest.raises(FileExistsError, match="logs"):
        CorpusWriter(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_what_was_written_before_an_end_can_be_read(tmp_path: Path) -> None:
    """A sweep that is interrupted leaves whole files with the runs until then."""
    with pytest.raises(KeyboardInterrupt), CorpusWriter(tmp_path) as writer:
        writer.add(run_seed(OPTIONS, True, 3).tables)
        raise KeyboardInterrupt

    assert [row.seed for row in rows_of(pq.read_table(tmp_path / RUNS))] == [3]


def test_a_conviction_is_a_row_that_says_all() -> None:
    """Verdict, violation, virtual time and the command that repeats it survive the way through Arrow."""
    run = simulate(replace(WRONG, seed=2))
    row = row_of(run)

    assert run.outcome.violation is not None
    assert rows_of(runs_table([row])) == [row]
    assert (row.verdict, row.violation, row.detail, row.at_ms) == (
        "invalid",
        run.outcome.violation.name,
        run.outcome.violation.detail,
        run.outcome.violation.at_ms,
    )
    assert row.run_id == "ack-before-replication-2"
    assert row.command == "nemesis sim --seed 2 --variant ack-before-replication --time-limit 12"


@pytest.mark.parametrize(("limit_s", "told"), [(60.0, "60"), (7.125, "7.125"), (100000.0, "100000")])
def test_the_command_has_the_time_limit_as_it_was(limit_s: float, told: str) -> None:
    """No digit that matters is lost, and none that does not is shown."""
    assert repeat_command(SimOptions(seed=9, time_limit_s=limit_s)) == f"nemesis sim --seed 9 --time-limit {told}"


def test_a_run_that_fails_is_told_among_the_others() -> None:
    """On a cluster too an error of the harness is a row with its seed, and the other seeds go on."""
    unknown = replace(OPTIONS, variant="no-such-variant")
    rows = [row for name, table in tables_of_seeds(unknown, True, [1, 2]) for row in rows_of(table) if name == RUNS]

    assert [(row.seed, row.verdict) for row in rows] == [(1, None), (2, None)]
    assert all("KeyError" in str(row.error) for row in rows)


def row(seed: int, verdict: str | None, **rare: int) -> RunRow:
    """A row as it might be."""
    return RunRow(
        run_id=f"{seed}",
        seed=seed,
        world="quorum",
        variant=None,
        time_limit_s=60,
        verdict=verdict,
        violation="liveness" if verdict == "invalid" else None,
        rare={name.replace("_", "-"): times for name, times in rare.items()},
        simulated_ms=90_000,
        acknowledged=10,
        error="broken" if verdict is None else None,
        command=f"nemesis sim --seed {seed}",
    )


def test_a_tally_counts_runs_and_not_times() -> None:
    """The share of a rare event is that of the runs that had it; what none had is called by its name."""
    tally = Tally([row(1, "valid", election=3, torn_tail=2), row(2, "valid", election=1), row(3, "valid")])
    document = tally.document(wall_s=6.0)

    assert document["rare"]["election"] == {"runs": 2, "share": 0.666667, "times": 4}
    assert document["rare"]["torn-tail"] == {"runs": 1, "share": 0.333333, "times": 2}
    assert "full-disk" in document["never"]
    assert "election" not in document["never"]
    assert (document["speed"]["seeds_per_minute"], document["speed"]["simulated_s_per_wall_s"]) == (30.0, 45.0)
    assert document["failures"] == []


def test_a_tally_keeps_what_is_not_valid() -> None:
    """Whatever is not valid is a failure with its command; an error of the harness counts as no verdict."""
    tally = Tally([row(1, "valid"), row(2, "invalid"), row(3, "unknown"), row(4, None)])

    assert tally.endings == {Verdict.VALID: 1, Verdict.INVALID: 1, Verdict.UNKNOWN: 1, "error": 1}
    assert tally.document(1.0)["violations"] == {"liveness": 1}
    assert [failure["command"] for failure in tally.document(1.0)["failures"]] == [
        f"nemesis sim --seed {seed}" for seed in (2, 3, 4)
    ]


def test_every_rare_event_is_explained(pytestconfig: pytest.Config) -> None:
    """The page of the simulator says of each rare event what happened."""
    page = (pytestconfig.rootpath / "docs" / "simulator.md").read_text(encoding="utf-8")

    assert [name.value for name in Rare if f"`{name.value}`" not in page] == []


def test_every_column_of_a_row_is_declared() -> None:
    """The fields of a row are the columns of its table, in their order."""
    assert list(RunRow.__dataclass_fields__) == RUN_SCHEMA.names
