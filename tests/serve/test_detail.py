"""All about one run: anomalies counted and ordered, promises by what became of them, and the story with its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.synth.build import build
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.serve.detail import SHOWN_PER_KIND, Detail, detail_of
from nemesis.serve.store import Store
from nemesis.serve.summary import Summaries
from tests.serve.stores import write_run


def _detail(store: Path, name: str = "run") -> Detail:
    return detail_of(Summaries(Store(store)).one(name), Store(store).folder(name))


def _row(anomaly: str, severity: str = "violation", **fields: object) -> dict[str, object]:
    return {"anomaly": anomaly, "severity": severity, "topic_partition": "log-0", "detail": "so"} | fields


def test_anomalies_are_counted_and_in_order(tmp_path: Path) -> None:
    """What convicts comes first, in the order of the reasons; a row that counts others is counted, and not shown."""
    rows = [
        _row("unseen", "unknown"),
        _row("duplicate"),
        _row("lost-write", evidence={"more": 91}),
        *(_row("lost-write", offsets=[number]) for number in range(SHOWN_PER_KIND + 4)),
    ]
    reasons = ["lost-write: 100", "duplicate: 1"]
    write_run(tmp_path / "run", verdict="invalid", results={"anomalies": rows, "reasons": reasons})
    kinds = _detail(tmp_path).kinds

    assert [(kind.name, kind.count) for kind in kinds] == [("lost-write", 100), ("duplicate", 1), ("unseen", 1)]
    assert [one.where for one in kinds[0].shown] == [f"log-0 at offset {number}" for number in range(SHOWN_PER_KIND)]


def test_promises_are_told_by_what_became_of_them(tmp_path: Path) -> None:
    """Broken ones first, those that nobody judged last, each in the words of its check."""
    checks = {"duplicate": "not judged", "hole": "kept", "lost-write": "violated", "unheard-of": "kept"}
    told = {name: {"kept": kept, "found": 0, "why": ""} for name, kept in checks.items()}
    write_run(tmp_path / "run", verdict="invalid", results={"checks": told})
    promises = _detail(tmp_path).promises

    assert [(kept, [one.name for one in group]) for kept, group in promises] == [
        ("violated", ["lost-write"]),
        ("kept", ["hole", "unheard-of"]),
        ("not judged", ["duplicate"]),
    ]
    assert promises[0][1][0].sentence == "A write that was acknowledged stays in the log."


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    """A store with a judged run that has lost an acknowledged write."""
    from nemesis.pipeline import judge_run, write_results

    plan = Plan(
        model=SynthModel.KAFKA,
        operations=200,
        keys=3,
        processes=3,
        unknown_rate=0.0,
        anomalies={"lost-write": 1},
        seed=1,
    )
    build(plan, tmp_path / "store" / "run")
    write_results(judge_run(tmp_path / "store" / "run", engine="local", master=""), tmp_path / "store" / "run")
    return tmp_path / "store"


def test_a_loss_has_its_story(lossy: Path) -> None:
    """It is the report's: who acknowledged what is lost, and where."""
    assert any("acknowledged" in sentence for sentence in _detail(lossy).story)


def test_no_story_is_read_through_a_link(lossy: Path, tmp_path: Path) -> None:
    """A link among the files of the run would lead the report's reader out of the store: it is not asked."""
    shard = lossy / "run" / "events" / "part-00000.parquet"
    shard.rename(tmp_path / "elsewhere.parquet")
    shard.symlink_to(tmp_path / "elsewhere.parquet")
    told = _detail(lossy)

    assert told.story == ()
    assert "links" in told.story_left_out


def test_a_story_of_a_large_history_is_left_to_the_command(lossy: Path) -> None:
    """Above the bound a page does not read the whole history; it says who tells the story instead."""
    store = Store(lossy)
    told = detail_of(Summaries(store).one("run"), store.folder("run"), story_events_max=10)

    assert told.story == ()
    assert "nemesis explain" in told.story_left_out
