"""The pictures of a run say what its tables hold: its objects, its logs side by side, and its cycles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nemesis.history import APPEND
from nemesis.pipeline import judge_run
from nemesis.pipeline.judgement import write_results
from nemesis.report.conviction_cycle import Cycle, Transaction, cycle_of
from nemesis.report.conviction_logs import EPOCHS_MAX, LogsSideBySide
from nemesis.report.conviction_run import OBJECTS_MAX, Pictures, pictures_of
from nemesis.report.folder import read_run_files
from nemesis.workload.queue import QueueWorkload
from nemesis.workload.register import RegisterWorkload
from tests.pipeline.object_runs import object_run
from tests.pipeline.test_run_objects import READ_1, WRITE_1, WRITE_2
from tests.report.test_report_page import HOSTILE, page_of

if TYPE_CHECKING:
    from tests.report.conftest import RunFolder


def judged(folder: Path) -> Path:
    write_results(judge_run(folder, engine="local"), folder)
    return folder


def pictures(folder: Path) -> Pictures:
    return pictures_of(read_run_files(folder))


# --- objects ----------------------------------------------------------------------------------------------------------


def test_an_object_of_a_run_is_drawn_as_one_of_a_foreign_history_is(tmp_path: Path) -> None:
    """What contradicts itself, the order and its end are those of the run's own history, by its indexes."""
    folder = judged(object_run(tmp_path, RegisterWorkload, *WRITE_1, *WRITE_2, *READ_1))
    (found,) = pictures(folder).objects
    assert (found.name, found.is_minimal) == ("Object x", True)
    assert [line.line for line in found.told] == [0, 2, 4]
    assert [(line.line, line.says) for line in found.order] == [(0, "1"), (2, "2")]
    assert [(line.line, line.says) for line in found.next] == [(4, "cannot be: the state is 2")]
    page = page_of(folder)
    assert "These 3 operations contradict each other" in page.words
    classes = [set((value or "").split()) for name, value in page.attributes if name == "class"]
    assert sum("bar" in each for each in classes) == len(found.bars)
    assert sum("find" in each for each in classes) == len(found.told) + len(found.order) + len(found.next)


def test_only_so_many_objects_are_judged_again_and_the_others_are_counted(tmp_path: Path) -> None:
    """A page of a run with many wrong objects takes as long as one of a few, and says how many are not drawn."""
    rows = [
        row | {"topic_partition": f"x{number:02}"}
        for number in range(OBJECTS_MAX + 3)
        for row in (*WRITE_1, *WRITE_2, *READ_1)
    ]
    found = pictures(judged(object_run(tmp_path, RegisterWorkload, *rows)))
    assert [picture.name for picture in found.objects] == [f"Object x{number:02}" for number in range(OBJECTS_MAX)]
    assert found.notes == ["3 more objects are not linearizable and are not drawn."]


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    """Results that tell of an object which is right, or of another history, give a sentence and no picture."""
    folder = judged(object_run(tmp_path, RegisterWorkload, *WRITE_1, *WRITE_2, *READ_1))
    results = json.loads((folder / "results.json").read_text())
    for row in results["anomalies"]:
        row["topic_partition"] = "y"
    (folder / "results.json").write_text(json.dumps(results))
    assert pictures(folder).notes == ["Object y is not drawn: judged again, no contradiction is found in it."]
    (folder / "test.json").write_text(json.dumps({"workload": QueueWorkload.name}))
    assert pictures(folder).objects == []
    page_of(folder)


def test_an_object_whose_values_are_markup_is_drawn_as_text(tmp_path: Path) -> None:
    """The name of an object is a text on the page, whatever it is."""
    rows = [row | {"topic_partition": HOSTILE} for row in (*WRITE_1, *WRITE_2, *READ_1)]
    page = page_of(judged(object_run(tmp_path, RegisterWorkload, *rows)))
    assert f"Object {HOSTILE}" in page.text
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)


# --- logs -------------------------------------------------------------------------------------------------------------

DIVERGED = {"anomaly": "diverged-log", "severity": "violation", "topic_partition": "log-0", "offsets": [2]}


def logs_of(run: RunFolder, **fields: Any) -> LogsSideBySide:
    (found,) = pictures(run.write(verdict="invalid", anomalies=[DIVERGED | fields])).logs
    return found


def test_logs_stand_side_by_side_with_the_first_offset_that_differs(run_folder: RunFolder) -> None:
    """Each replica's epochs, who led them, and offset by offset what each holds and what was acknowledged there."""
    run_folder.replica_event(0.1, 1, "became-leader", epoch=1, topic_partition="log-0")
    run_folder.replica_event(5.0, 2, "became-leader", epoch=2, topic_partition="log-0")
    run_folder.replica_event(6.0, 3, "became-leader", epoch=2, topic_partition="log-1")
    run_folder.operation(1, 2, APPEND, value=12, offset=2, leader_epoch=1)
    run_folder.log(1, [10, 11, 12, 13], [1, 1, 1, 1])
    run_folder.log(2, [10, 11, 22], [1, 1, 2])
    run_folder.log(3, [10, 11, 22], [1, 1, 2])
    found = logs_of(run_folder)
    assert found.says == "They differ first at offset 2, below the high watermark of replicas 1, 2, 3."
    assert (found.begin, found.end, found.parting) == (0, 4, 50.0)
    assert [[(part.epoch, part.begin, part.width) for part in bar.stretches] for bar in found.bars] == [
        [(1, 0, 100)],
        [(1, 0, 50), (2, 50, 25)],
        [(1, 0, 50), (2, 50, 25)],
    ]
    assert [bar.mark for bar in found.bars] == [100, 75, 75]
    assert [(epoch.number, epoch.leaders, epoch.held) for epoch in found.epochs] == [
        (1, "replica 1", ["0 to 3", "0 to 1", "0 to 1"]),
        (2, "replica 2", ["none", "2", "2"]),
    ]
    rows = {row.offset: row for row in found.offsets.rows}
    assert rows[2].cells == ["12 in epoch 1", "12, epoch 1", "22, epoch 2", "22, epoch 2"]
    assert [offset for offset, row in rows.items() if row.differs] == [2]
    assert rows[3].cells == ["", "13, epoch 1", "beyond its end", "beyond its end"]


def test_logs_that_agree_are_said_to(run_folder: RunFolder) -> None:
    """Where an anomaly is not in the logs, the picture shows that they are the same as far as all go."""
    for replica_id in (1, 2):
        run_folder.log(replica_id, [10, 11, 12][: 4 - replica_id], [1, 1, 2][: 4 - replica_id])
    found = logs_of(run_folder, anomaly="stale-read", offsets=[1])
    assert found.says == "From offset 0 to 1, which all of them have, they hold the same."
    assert found.parting is None
    assert not any(row.differs for row in found.offsets.rows)


def test_of_many_epochs_those_nearest_to_the_anomaly_are_drawn(run_folder: RunFolder) -> None:
    """A log with an epoch for each record has a bounded picture, and the others are counted."""
    count = 10 * EPOCHS_MAX
    for replica_id in (1, 2):
        run_folder.log(replica_id, [*range(count - 1), replica_id], list(range(1, count + 1)))
    found = logs_of(run_folder, offsets=[count - 1])
    assert [epoch.number for epoch in found.epochs] == list(range(count - EPOCHS_MAX + 1, count + 1))
    assert found.epochs_left_out == count - EPOCHS_MAX
    assert (found.begin, found.end) == (count - EPOCHS_MAX, count)


def test_logs_and_cycles_of_markup_are_drawn_as_text(run_folder: RunFolder) -> None:
    """Names and kinds in evidence are texts on the page, whatever they hold."""
    circle = [
        {"before": 0, "after": 2, "kind": HOSTILE, "topic_partition": HOSTILE, "offset": HOSTILE},
        {"before": 2, "after": 0, "kind": "wr", "topic_partition": HOSTILE, "offset": 3, "value": 4},
    ]
    for replica_id in (1, 2):
        run_folder.log(replica_id, [10, 11, 10 * replica_id], [1, 1, replica_id])
    rows = [
        DIVERGED | {"anomaly": HOSTILE},
        {"anomaly": HOSTILE, "severity": HOSTILE, "evidence": {"circle": circle}, "op_indexes": [0, 2]},
    ]
    folder = run_folder.write(verdict="invalid", anomalies=rows)
    assert len(pictures(folder).logs) == len(pictures(folder).cycles) == 1
    page = page_of(folder)
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert len(page.scripts) == 2


# --- cycles -----------------------------------------------------------------------------------------------------------


def cycle(count: int, transactions: dict[int, Transaction] | None = None) -> Cycle:
    """The picture of a circle of so many operations."""
    kinds = ("wr", "ww", "process", "realtime")
    steps = [
        {"before": 10 * k, "after": 10 * ((k + 1) % count), "kind": kinds[k % 4], "topic_partition": "t-0"}
        | {"offset": k, "value": 100 + k}
        for k in range(count)
    ]
    row = {"anomaly": "G1c", "severity": "violation", "evidence": {"circle": steps}, "op_indexes": []}
    found = cycle_of(row, transactions or {})
    assert found is not None
    return found


def test_each_step_of_a_cycle_has_its_reason() -> None:
    """Who stands before whom, and why, in the words of what was sent, polled, done and over."""
    assert [(reason.words, reason.says) for reason in cycle(4).reasons] == [
        ("read from", "T10 polled 100, which T0 had sent to offset 0 of t-0."),
        ("written before", "T10 wrote what stands just before 101, which T20 wrote to offset 1 of t-0."),
        ("same process", "One process did T20, and then T30."),
        ("over before", "T30 was over before T0 began."),
    ]


@pytest.mark.parametrize("count", [2, 3, 5, 12, 20])
def test_boxes_do_not_overlap_and_all_is_inside_the_drawing(count: int) -> None:
    """However many operations a cycle has, each has a place of its own, and arrows go from border to border."""
    lines = {
        10 * k: Transaction(process=str(k), lines=["send 1 to a-rather-long-topic-name-0 at 7"] * 9) for k in range(20)
    }
    found = cycle(count, lines)
    boxes = found.boxes
    for place, one in enumerate(boxes):
        assert one.x >= 0
        assert one.y >= 0
        assert one.x + one.width <= found.width
        assert one.y + one.height <= found.height
        for other in boxes[:place]:
            apart = abs(one.x - other.x) >= one.width or abs(one.y - other.y) >= min(one.height, other.height)
            assert apart, (one.index, other.index)
    assert len({(arrow.label_x, arrow.label_y) for arrow in found.arrows}) == count


@pytest.mark.parametrize(
    "evidence",
    [
        None,
        [],
        {"circle": "all"},
        {"circle": [{"before": 1}]},
        {"circle": [{"before": "1", "after": 2, "kind": "wr"}] * 3},
    ],
)
def test_evidence_of_another_shape_is_no_cycle(evidence: Any) -> None:
    """What a file says in place of a circle gives no picture, and no error."""
    assert cycle_of({"anomaly": "G1c", "evidence": evidence}, {}) is None


def test_the_rest_of_a_long_cycle_is_counted() -> None:
    """Evidence that lists only the beginning of a circle is drawn as a way that does not close."""
    steps = [{"before": k, "after": k + 1, "kind": "wr"} for k in range(5)]
    found = cycle_of({"anomaly": "G1c", "evidence": {"circle": steps}, "op_indexes": list(range(9))}, {})
    assert found is not None
    assert (len(found.boxes), found.left_out) == (6, 3)
