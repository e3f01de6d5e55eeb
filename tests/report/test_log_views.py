"""Each log over time holds what was told of it, and claims nothing between two tellings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nemesis.history import APPEND, EventType
from nemesis.report.data import read_run
from nemesis.report.log_views import LOGS_MAX, POINTS_MAX
from nemesis.report.values import LogView

if TYPE_CHECKING:
    from tests.report.conftest import RunFolder


def told(
    run: RunFolder, time_s: float, replica_id: int, event: str, epoch: int | None = None, **detail: object
) -> None:
    """Something that a replica told of ``log-0``."""
    run.replica_event(time_s, replica_id, event, epoch=epoch, topic_partition="log-0", detail=json.dumps(detail))


def view_of(run: RunFolder) -> LogView:
    """The only log of a run, which begins at 0 s and ends at 20 s."""
    for time_s in (0, 20):
        run.replica_event(time_s, 9, "started")
    (view,) = read_run(run.write(verdict="valid")).log_views
    return view


def test_who_is_in_sync_is_told_by_each_leader_and_by_each_change(run_folder: RunFolder) -> None:
    """What a leader told when it was elected holds until a change, or the next leader, tells otherwise."""
    told(run_folder, 1, 1, "became-leader", 1, isr=[1, 2, 3])
    told(run_folder, 3, 1, "isr-shrunk", 1, isr=[1, 3], left=[2])
    told(run_folder, 8, 3, "became-leader", 2, isr=[3])
    spans = {(one.replica_id, one.start_s, one.end_s) for one in view_of(run_folder).in_sync}
    assert spans == {(replica, 1, 3) for replica in (1, 2, 3)} | {(1, 3, 8), (3, 3, 8), (3, 8, 20)}


def test_of_a_leader_that_did_not_tell_only_its_changes_say_who_was_in_sync(run_folder: RunFolder) -> None:
    """A change tells who was in sync before it and who is from then on; behind such an election nobody knows."""
    told(run_folder, 1, 1, "became-leader", 1)
    told(run_folder, 3, 1, "isr-shrunk", 1, isr=[1, 3], left=[2])
    told(run_folder, 5, 1, "isr-expanded", 1, isr=[1, 2, 3], joined=[2])
    told(run_folder, 8, 2, "became-leader", 2)
    spans = {(one.replica_id, one.start_s, one.end_s) for one in view_of(run_folder).in_sync}
    before = {(replica, 1, 3) for replica in (1, 2, 3)}
    assert spans == before | {(1, 3, 5), (3, 3, 5)} | {(replica, 5, 8) for replica in (1, 2, 3)}


def test_a_change_after_another_says_nothing_of_the_time_before_it(run_folder: RunFolder) -> None:
    """What was before the first thing that is known of a log is not known."""
    told(run_folder, 3, 1, "isr-expanded", 1, isr=[1, 2], joined=[2])
    assert [(one.replica_id, one.start_s, one.end_s) for one in view_of(run_folder).in_sync] == [(1, 3, 20), (2, 3, 20)]


def test_log_end_offsets_are_those_that_were_told(run_folder: RunFolder) -> None:
    """By a change of role, by a truncation, and by the final log; a truncation tells from where to where as well."""
    told(run_folder, 1, 1, "became-leader", 1, log_end_offset=5)
    run_folder.replica_event(
        2, 1, "truncated", topic_partition="log-0", offset=3, detail='{"from_offset": 9, "end_offset": 3}'
    )
    run_folder.log(1, values=[10, 11], epochs=[1, 1])
    view = view_of(run_folder)
    (ends,) = view.log_ends
    assert (ends.replica_id, ends.times_s, ends.offsets) == (1, (1.0, 2.0, 20.0), (5, 3, 2))
    assert [(cut.time_s, cut.from_offset, cut.to_offset) for cut in view.cuts] == [(2.0, 9, 3)]


def test_a_long_series_keeps_its_extremes(run_folder: RunFolder) -> None:
    """Of ten thousand looks at most so many are drawn, among them the one moment at which the high watermark fell."""
    for number in range(10_000):
        offset = 7 if number == 6_543 else number + 100
        run_folder.replica_event(number / 1000, 1, "high-watermark", topic_partition="log-0", offset=offset)
    (series,) = view_of(run_folder).high_watermarks
    assert len(series.offsets) <= POINTS_MAX
    assert {min(series.offsets), max(series.offsets)} == {7, 10_099}
    assert list(series.times_s) == sorted(series.times_s)


def test_acknowledged_offsets_belong_to_their_log(run_folder: RunFolder) -> None:
    """What clients were told of one log stands in its drawing, in order of time, and only what was acknowledged."""
    for number, (log, outcome) in enumerate((("a", "ok"), ("b", "ok"), ("a", "fail"), ("a", "ok"))):
        run_folder.event(number, EventType.INVOKE, APPEND, number, topic_partition=log, value=number)
        run_folder.event(number + 0.5, EventType(outcome), APPEND, number, topic_partition=log, offset=number)
    views = {view.name: view for view in read_run(run_folder.write(verdict="valid")).log_views}
    assert views["a"].acknowledged.offsets == (0, 3)
    assert views["a"].acknowledged.times_s == (0.5, 3.5)
    assert views["b"].acknowledged.offsets == (1,)


def test_the_logs_of_anomalies_are_drawn_before_all_others(run_folder: RunFolder) -> None:
    """Of many logs a bounded number is drawn, those in question first, and the page says that there are more."""
    for number in range(40):
        run_folder.replica_event(number, 1, "became-leader", epoch=1, topic_partition=f"log-{number}")
    row = {"anomaly": "lost-write", "severity": "violation", "topic_partition": "log-39"}
    run = read_run(run_folder.write(verdict="invalid", anomalies=[row]))
    assert run.log_views[0].name == "log-39"
    assert len(run.log_views) == LOGS_MAX
    assert any("24 of 40 logs are drawn" in note for note in run.notes)
