"""A run that grows while it is judged: what is found when, and what ends the following."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from nemesis.checks import Verdict
from nemesis.checks.check import Row
from nemesis.cli.follow import Watch, first_anomaly, judged_at_the_end
from nemesis.faults.processes import Kill
from nemesis.faults.targets import Role
from nemesis.history import HistoryError
from nemesis.history.reader import ShardListing, list_shards, read_history
from nemesis.history.recorder import Clock
from nemesis.history.schemas import Kind
from nemesis.history.stopped import Found, Stopped, read_stopped, write_stopped
from nemesis.history.writer import HistoryWriter, shard_name
from nemesis.pipeline import EngineUnavailableError, judge_run, write_results
from nemesis.pipeline.local import judge_locally
from nemesis.pipeline.runs import open_runs
from nemesis.pipeline.streaming import Follower, FollowError, Growth, following
from nemesis.pipeline.streaming.follow import InProcessFollower
from nemesis.report.data import read_run
from nemesis.runner import FirstAnomaly, OpenRun, RunOptions
from nemesis.schedules.schedule import Inject, Schedule, Step
from nemesis.workload.ending import ReportWriter
from tests.checks.histories import append, became_leader, final_isr, poll, replica_log
from tests.checks.simulation import Run
from tests.pipeline.prefixes import Growing
from tests.pipeline.recorded import record_run
from tests.workload.fake_system import FakeSystem

WRONG = Run(
    operations=[
        append((0, 1), 7, 0, leader_epoch=1),
        append((2, 3), 8, 1, leader_epoch=1),
        poll((4, 5), 0, (0, 7), (1, 8), process=1),
        poll((6, 7), 0, (0, 7), (1, 99), process=2),
        append((8, 9), 9, 2, leader_epoch=1),
        append((10, 11), 10, 3, leader_epoch=1) | {"topic_partition": "log-1"},
        poll((12, 13), 2, (2, 9), process=1),
        poll((14, 15), 0, (0, 7), (1, 8), process=3),
    ],
    logs=replica_log(1, [(1, [7, 8, 9])]),
    events=[became_leader(1, 1), became_leader(2, 1)],
    gapless=False,
)
SOUND = [
    append((0, 1), 7, 0),
    append((2, 3), 8, 1),
    poll((4, 5), 0, (0, 7), (1, 8), process=1),
    append((6, 7), 9, 2),
    poll((8, 9), 0, (0, 7), (1, 8), (2, 9), process=2),
]
CLEAN = Run(
    operations=[*WRONG.operations[:3], poll((6, 7), 0, (0, 7), (1, 8), f="final-read", process=1)],
    logs=replica_log(1, [(1, [7, 8])]),
    events=[final_isr(1, (1,), 2)],
    gapless=False,
)
FOUND = Found(anomaly="duplicate", topic_partition="log-0", detail="a value stands twice", others=2, engine="local")


def kinds(follower: Follower) -> list[str]:
    """What a follower finds that is new."""
    return [row["anomaly"] for row in follower.look()]


def test_each_anomaly_is_found_when_it_is_written_and_once(tmp_path: Path) -> None:
    """Nothing before, nothing twice, and what only the logs show is left to the end."""
    growing, follower = Growing(tmp_path / "run", WRONG), InProcessFollower(tmp_path / "run")
    assert kinds(follower) == []
    growing.write(6)
    assert kinds(follower) == []
    growing.write(8)
    assert sorted(kinds(follower)) == ["inconsistent-offsets", "phantom-read"]
    assert kinds(follower) == []
    growing.tell(became_leader(1, 1))
    assert kinds(follower) == []
    growing.tell(became_leader(2, 1))
    assert kinds(follower) == ["two-leaders"]
    growing.finish()
    assert follower.catch_up() == []


def test_what_is_too_much_for_the_end_is_too_much_meanwhile(tmp_path: Path) -> None:
    """A topic-partition is judged up to as much as at the end; others that have less go on to be."""
    growing = Growing(tmp_path / "run", WRONG)
    found = {most: InProcessFollower(tmp_path / "run", weight_max=most) for most in (7, 8, 100)}
    growing.write(8)
    assert [sorted(kinds(found[most])) for most in found] == [[], *[["inconsistent-offsets", "phantom-read"]] * 2]


def test_only_what_has_new_rows_is_judged_again(tmp_path: Path) -> None:
    """A topic-partition about which nothing new is written is not judged again: its anomalies wait in the files."""
    growing = Growing(tmp_path / "run", WRONG)
    judged: list[list[str]] = []

    class Watched(InProcessFollower):
        def judge(self, touched: list[str]) -> list[Row]:
            judged.append(touched)
            return super().judge(touched)

    follower = Watched(tmp_path / "run")
    for end in (10, 12, 12, 16):
        growing.write(end)
        follower.look()
    assert judged == [["log-0"], ["log-1"], ["log-0"]]


def test_a_shard_behind_a_gap_waits(tmp_path: Path) -> None:
    """What is written behind a missing shard, or is not whole, is not read before the gap is filled."""
    growing = Growing(tmp_path / "run", WRONG)
    for end in (4, 6, 8):
        growing.write(end)
    second = tmp_path / "run/history" / shard_name(1)
    away = second.rename(tmp_path / "run/history/.part-00001.parquet.unfinished")
    growth = Growth(tmp_path / "run")
    assert [len(paths) for paths in growth.look().values()] == [1, 0]
    away.rename(second)
    assert [len(paths) for paths in growth.look().values()] == [2, 0]
    assert [len(paths) for paths in growth.paths.values()] == [3, 0]


def test_what_cannot_be_followed_says_so(tmp_path: Path) -> None:
    """A shard that is no shard, one with other columns, a changed bit, and a history that is too long."""
    growing = Growing(tmp_path / "run", WRONG)
    growing.write(16)
    shard = tmp_path / "run/history" / shard_name(0)
    with pytest.raises(FollowError, match="longer than 15 events"):
        InProcessFollower(tmp_path / "run", Growth(tmp_path / "run", events_max=15)).look()
    whole = shard.read_bytes()
    shard.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    with pytest.raises(FollowError, match="is damaged"):
        InProcessFollower(tmp_path / "run").look()
    shard.write_bytes(b"PAR1")
    with pytest.raises(FollowError, match="cannot be read"):
        InProcessFollower(tmp_path / "run").look()
    growing.tell(became_leader(1, 1))
    shard.write_bytes((tmp_path / "run/events" / shard_name(0)).read_bytes())
    with pytest.raises(FollowError, match="other columns"):
        InProcessFollower(tmp_path / "run").look()


def test_a_connect_server_cannot_follow(tmp_path: Path) -> None:
    """What a server finds while it runs it cannot hand back: it is said before anything begins."""
    with (
        pytest.raises(EngineUnavailableError, match="Spark Connect"),
        following(tmp_path, engine="spark", master="sc://nowhere:1"),
    ):
        pass
    with following(tmp_path, engine="local") as follower:
        assert follower.look() == []


def test_what_stopped_a_run_is_told_with_its_verdict(tmp_path: Path) -> None:
    """Why a run is shorter than its schedule stands in results.json and in the report; the verdict is judged anew."""
    folder = record_run(tmp_path / "run", WRONG)
    write_stopped(folder, Stopped(at_s=12.345, found=FOUND))
    judgement = judge_run(folder, engine="local")
    sentence = "stopped after 12.3 s at the first anomaly, duplicate of log-0: a value stands twice, and 2 more"
    assert judgement.verdict is Verdict.INVALID
    assert sentence in judgement.warnings
    write_results(judgement, folder)
    assert sentence in read_run(folder).judgement.warnings


def test_a_run_that_was_stopped_for_nothing_is_unknown(tmp_path: Path) -> None:
    """If the whole does not show what stopped the run, one of the two is wrong, whatever else is wrong with it."""
    folder = record_run(tmp_path / "run", CLEAN)
    assert judge_run(folder, engine="local").verdict is Verdict.VALID
    write_stopped(folder, Stopped(at_s=1, found=FOUND))
    judgement = judge_run(folder, engine="local")
    assert judgement.verdict is Verdict.UNKNOWN
    assert "one of the two is wrong" in judgement.reasons[0]


@pytest.mark.parametrize(
    ("anomaly", "topic_partition", "is_shown"),
    [
        ("inconsistent-offsets", "log-0", True),
        ("inconsistent-offsets", "log-1", False),
        ("aborted-read", "log-0", False),
        ("phantom-read", "log-0", True),
        ("stale-read", "log-0", False),
        ("no-such-kind", "log-0", False),
    ],
)
def test_what_stopped_a_run_must_be_what_the_whole_shows(
    anomaly: str, topic_partition: str, is_shown: bool, tmp_path: Path
) -> None:
    """A violation of another kind, or of another topic-partition, does not stand for it."""
    folder = record_run(tmp_path / "run", WRONG)
    write_stopped(folder, Stopped(at_s=1, found=replace(FOUND, anomaly=anomaly, topic_partition=topic_partition)))
    judgement = judge_run(folder, engine="local")
    assert judgement.verdict is Verdict.INVALID
    assert any("one of the two is wrong" in reason for reason in judgement.reasons) != is_shown


def test_a_run_whose_stop_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """A damaged stopped.json is a reason not to call a run valid, and no error that ends the job."""
    folder = record_run(tmp_path / "run", CLEAN)
    (folder / "stopped.json").write_text("{")
    judgement = judge_run(folder, engine="local")
    assert judgement.verdict is Verdict.UNKNOWN
    assert "does not say what stopped" in judgement.reasons[0]


@pytest.mark.parametrize("ends_before", list(Kind))
def test_a_run_that_ends_while_its_shards_are_listed_is_not_convicted(ends_before: Kind, tmp_path: Path) -> None:
    """What was listed is a beginning then, and what it lacks may stand in the rest."""
    last = poll((10, 11), 0, (0, 7), (1, 8), (2, 9), f="final-read", process=3)
    logs, events = replica_log(1, [(1, [7, 8, 9])]), [final_isr(1, (1,), 3)]
    run = Run(operations=[*SOUND, last], logs=logs, events=events, gapless=False)
    growing = Growing(tmp_path / "run", run)
    growing.write(6)
    left = [growing]

    def ending(folder: Path, kind: Kind) -> ShardListing:
        if kind is ends_before and left:
            left.pop().finish()
        return list_shards(folder, kind)

    (judgement,) = judge_locally(open_runs([tmp_path / "run"], ending))
    assert judgement.verdict is Verdict.UNKNOWN, judgement.reasons
    assert judge_run(tmp_path / "run", engine="local").verdict is Verdict.VALID


def test_a_follower_that_has_failed_fails_ever_after(tmp_path: Path) -> None:
    """What it could not read once would be missing from all that it finds later."""
    Growing(tmp_path / "run", WRONG).write(16)
    shard = tmp_path / "run/history" / shard_name(0)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    follower = InProcessFollower(tmp_path / "run")
    with pytest.raises(FollowError, match="is damaged"):
        follower.look()
    shard.write_bytes(whole)
    with pytest.raises(FollowError, match="is damaged"):
        follower.look()


def test_what_stopped_a_run_is_read_back(tmp_path: Path) -> None:
    """The file has all of it; none means that nothing stopped the run, and a damaged one is an error."""
    assert read_stopped(tmp_path) is None
    path = write_stopped(tmp_path, Stopped(at_s=1.5, found=FOUND))
    assert read_stopped(tmp_path) == Stopped(at_s=1.5, found=FOUND)
    for damaged in ("{", "[]", "{}", json.dumps({"at_s": 1, "found": {"anomaly": "duplicate"}})):
        path.write_text(damaged)
        with pytest.raises(HistoryError, match="does not say what stopped"):
            read_stopped(tmp_path)


class TwoFaced(FakeSystem):
    """Shows another value than it has acknowledged, as soon as somebody has come to the tenth offset."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, f: str, value: int) -> None:
        if f == "poll" and value >= 10:
            for log in self.logs.values():
                log[value:] = [shown % 10**6 + 10**6 for shown in log[value:]]


async def recorded(folder: Path, system: FakeSystem, first_anomaly: FirstAnomaly) -> Stopped | None:
    """A run of a minute over a system that is lists, with a kill in its first second and another at its end."""
    kills = [Inject(fault_id=number, fault=Kill(target=Role.ONE)) for number in range(2)]
    steps = tuple(Step(at_s=59.0 * number, action=kill) for number, kill in enumerate(kills))
    with HistoryWriter(folder) as writer:
        clock = Clock()
        options = RunOptions(seed=1, concurrency=2, rate=200.0, final_time_limit=2.0)
        schedule = Schedule(name="test", time_limit_s=60.0, steps=steps)
        reports = ReportWriter(writer, clock)
        run = OpenRun(system, writer, clock, reports, options, schedule, lambda _: None, first_anomaly)
        return await run.record()


@pytest.mark.slow
async def test_a_run_stops_at_its_first_anomaly(tmp_path: Path) -> None:
    """No further fault is done, the one that was is healed, and the history has its end, and says why it came."""
    folder, system = tmp_path / "run", TwoFaced()
    async with asyncio.timeout(50):
        stopped = await recorded(folder, system, partial(first_anomaly, Watch(InProcessFollower(folder), "local")))
    assert stopped is not None
    assert stopped.found.anomaly in ("phantom-read", "inconsistent-offsets")
    rows = read_history(folder).to_pylist()
    assert [json.loads(row["detail"]) for row in rows if row["f"] == "stop"] == [asdict(stopped)]
    told = [row["f"] for row in rows]
    assert told.count("kill") == 2, "begun and done, once"
    assert told.index("stop") < told.index("start") < told.index("final-read")
    assert system.running == {1, 2, 3}
    write_stopped(folder, stopped)
    judgement = judge_run(folder, engine="local")
    assert judgement.verdict is Verdict.INVALID
    assert stopped.found.anomaly in {row["anomaly"] for row in judgement.anomalies}


@pytest.mark.parametrize("error", [None, RuntimeError("no room"), FollowError("too long")])
async def test_a_run_goes_on_when_nobody_looks_any_more(error: Exception | None, tmp_path: Path) -> None:
    """A follower that finds nothing or fails stops nothing."""

    class Failing(InProcessFollower):
        def look(self) -> list[Row]:
            if error is not None:
                raise error
            return []

    waiting = first_anomaly(Watch(Failing(tmp_path), "local"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await recorded(tmp_path / "run", FakeSystem(), lambda: waiting)
    assert "stop" not in read_history(tmp_path / "run").column("f").to_pylist()


class Deaf(io.StringIO):
    """A stream whose reader has left."""

    def write(self, text: str) -> int:
        """Nobody takes it."""
        raise BrokenPipeError


class Dying(InProcessFollower):
    """A follower whose engine has died: nothing can be asked of it, and it cannot be ended."""

    def look(self) -> list[Row]:
        """Its engine does not answer."""
        raise ConnectionRefusedError("nobody is there")

    def close(self) -> None:
        """Nor here."""
        raise ConnectionRefusedError("nobody is there")


@pytest.mark.parametrize("follower", [InProcessFollower, Dying])
async def test_a_run_is_told_of_to_nobody(follower: type[InProcessFollower], tmp_path: Path) -> None:
    """When standard error is closed, what is found and what fails are not told, and are no error of the recording."""
    Growing(tmp_path / "run", WRONG).write(8)
    with contextlib.redirect_stderr(Deaf()):
        found = await first_anomaly(Watch(follower(tmp_path / "run"), "local"))
    assert (found is None) == (follower is Dying)


@pytest.mark.parametrize("dies_early", [True, False])
def test_a_run_is_judged_without_the_engine_that_died(
    dies_early: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it was asked once more or is only to be ended: this process judges, and says so."""
    folder = record_run(tmp_path / "run", WRONG)
    watch = Watch(Dying(folder), "spark")
    if dies_early:
        assert watch.ask(watch.follower.look) == []
    judgement = judged_at_the_end(folder, watch, "local[1]")
    assert judgement.verdict is Verdict.INVALID
    assert judgement.engine["name"] == "local"
    assert "when it is over, by this process: ConnectionRefusedError" in capsys.readouterr().err


def test_a_run_that_is_too_long_to_be_followed_keeps_its_engine(tmp_path: Path) -> None:
    """Nothing is wrong with Spark then, and a long run is what it is for."""
    Growing(tmp_path / "run", WRONG).write(16)
    watch = Watch(InProcessFollower(tmp_path / "run", Growth(tmp_path / "run", events_max=15)), "spark")
    assert watch.ask(watch.follower.look) == []
    assert (watch.has_failed, watch.engine) == (True, "spark")


@pytest.mark.parametrize(("run", "verdict"), [(CLEAN, Verdict.UNKNOWN), (WRONG, Verdict.INVALID)])
def test_what_was_told_must_stand_in_the_whole(run: Run, verdict: Verdict, tmp_path: Path) -> None:
    """Else a run that would be valid is unknown, and one that is invalid says it as well."""
    folder = record_run(tmp_path / "run", run)
    watch = Watch(InProcessFollower(folder), "local")
    watch.told.append({"anomaly": "stale-read", "topic_partition": "log-0"})
    judgement = judged_at_the_end(folder, watch, "local[1]")
    assert judgement.verdict is verdict
    assert "not shown by the whole: stale-read of log-0; one of the two is wrong" in judgement.reasons[-1]
