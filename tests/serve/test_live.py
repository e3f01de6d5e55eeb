"""A run that goes on is read as it grows, each shard once."""

from __future__ import annotations

from pathlib import Path

from nemesis.history import APPEND, NEMESIS_PROCESS, EventType, HistoryEvent
from nemesis.history.writer import HistoryWriter
from nemesis.serve.live import FOLLOWED_MAX, LATEST_MAX, LiveRuns
from tests.serve.stores import SECOND, write_run
from tests.serve.test_summary import opened_files


class Growing:
    """A run that is being recorded."""

    def __init__(self, folder: Path) -> None:
        self.writer = HistoryWriter(folder)

    def append(self, at_s: float, type_: EventType, value: int) -> None:
        """One event of an append."""
        self._write(at_s, type_, APPEND, 0, None, value)

    def fault(self, at_s: float, detail: str) -> None:
        """One event of the nemesis."""
        self._write(at_s, EventType.INFO, "kill", NEMESIS_PROCESS, detail, None)

    def _write(
        self, at_s: float, type_: EventType, f: str, process: int, detail: str | None, value: int | None
    ) -> None:
        self.writer.write(
            HistoryEvent(
                index=self.writer.next_index,
                time_ns=int(at_s * SECOND),
                process=process,
                type=type_,
                f=f,
                detail=detail,
                value=value,
            )
        )


def test_what_is_added_is_seen(tmp_path: Path) -> None:
    """Each look tells what was written out until then, with counts of all of it."""
    run, live = Growing(tmp_path / "run"), LiveRuns()
    run.append(0.5, EventType.INVOKE, 1)
    run.append(0.6, EventType.OK, 1)
    assert live.look(tmp_path / "run").events == 0

    run.writer.flush()
    first = live.look(tmp_path / "run")
    assert (first.events, first.outcomes) == (2, {"ok": 1, "fail": 0, "info": 0})

    run.append(2.1, EventType.INVOKE, 2)
    run.append(2.2, EventType.FAIL, 2)
    run.append(2.3, EventType.INVOKE, 3)
    run.append(2.4, EventType.OK, 3)
    run.fault(2.5, '{"replicas": [2, 3], "nothing": null, "fault": {"kind": "kill"}}')
    run.writer.flush()
    second = live.look(tmp_path / "run")
    assert (second.events, second.outcomes) == (7, {"ok": 2, "fail": 1, "info": 0})
    assert [(at.at_s, at.ok) for at in second.seconds] == [(0, 1), (1, 0), (2, 1)]
    assert second.until_s == 2.5
    assert [(row["at"], row["detail"]) for row in second.faults] == [("2.50 s", "replicas: 2, 3; fault: kind: kill")]
    assert [row["at"] for row in second.latest][:2] == ["2.40 s", "2.30 s"]


def test_each_shard_is_read_once(tmp_path: Path) -> None:
    """Only what is new is opened: a run of hours is not read again for each look."""
    run, live = Growing(tmp_path / "run"), LiveRuns()
    for number in range(3):
        run.append(number, EventType.INVOKE, number)
        run.writer.flush()
        with opened_files() as opened:
            live.look(tmp_path / "run")
        assert [Path(path).name for path in opened] == [f"part-{number:05d}.parquet"]


def test_what_is_shown_is_bounded(tmp_path: Path) -> None:
    """The latest events and the last two minutes, however long the run is."""
    run = Growing(tmp_path / "run")
    for number in range(500):
        run.append(number, EventType.INVOKE, number)
        run.append(number, EventType.OK, number)
    run.writer.flush()
    told = LiveRuns().look(tmp_path / "run")

    assert (len(told.latest), told.seconds[0].at_s, told.seconds[-1].at_s) == (LATEST_MAX, 380, 499)
    assert told.outcomes["ok"] == 500


def test_few_runs_are_followed_at_a_time(tmp_path: Path) -> None:
    """Whoever looks at many runs does not fill the memory, and finds the first again."""
    live = LiveRuns()
    folders = [write_run(tmp_path / str(number)) for number in range(FOLLOWED_MAX + 2)]
    for folder in folders:
        live.look(folder)

    assert len(live._followed) == FOLLOWED_MAX
    assert live.look(folders[0]).events == 8
