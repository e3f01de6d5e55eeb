"""The ``nemesis`` command without a cluster: exit codes, stored runs, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from nemesis.cli.__main__ import main
from nemesis.cli.exit import Exit, UnsupportedError, exit_code_of
from nemesis.cli.run import plan, run
from nemesis.cluster.key_value_client import SMALL_SNAPSHOT_RECORD_BYTES, Reads, StoreOptions
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.faults.catalogue import USUAL
from nemesis.runner import RunOptions, new_folder, options_to_json, write_documents
from nemesis.schedules.directed import DEMO, DIRECTED, FOLLOWER_RESTART, ISOLATED_LEADER, UNCLEAN_ELECTION
from nemesis.schedules.drawn import random_schedule
from nemesis.schedules.schedule import schedule_from_json
from nemesis.variants.catalogue import ALL, DIRECTED_VARIANTS
from nemesis.workload.collection import SetWorkload
from nemesis.workload.register import RegisterWorkload
from tests.checks.histories import append, final_isr, poll, replica_log
from tests.checks.simulation import Run
from tests.pipeline.recorded import record_run

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DEFAULTS = {
    "workload": "append",
    "system": "highwater",
    "cluster": "local",
    "keys": None,
    "reads": None,
    "strict_acks": False,
    "nemesis": None,
    "nemesis_interval": None,
    "flip_flop": False,
    "schedule": None,
    "variant": None,
    "time_limit": None,
    "seed": 3,
    "concurrency": None,
    "rate": None,
    "nodes": None,
    "topics": None,
    "partitions": None,
    "replication_factor": None,
    "min_insync_replicas": None,
    "unclean_leader_election": False,
    "acks": "all",
    "idempotence": None,
    "election_timeout_ms": 500,
    "fetch_timeout_ms": 1000,
    "fetch_max_wait_ms": 200,
    "log_flush": "fsync",
    "retention_bytes": None,
    "tls": False,
    "session_timeout_ms": 2500,
    "lag_time_max_ms": 5000,
    "final_time_limit": 45.0,
}


def code_of(*arguments: object) -> object:
    """The exit code of ``nemesis`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def stored_run(folder: Path, *, read: Iterable[int], closed: bool = True) -> Path:
    """A run in which value 7 was acknowledged at offset 0, and the final read returned ``read``."""
    final = poll((2, 3), 0, *enumerate(read), f="final-read", process=1, high_watermark=1)
    run = Run(
        operations=[append((0, 1), 7, 0), final],
        logs=replica_log(1, [(1, [7])]),
        events=[final_isr(1, (1,), 1)],
        gapless=True,
    )
    return record_run(folder, run, shard_rows=2, complete=closed)


def test_a_stored_run_is_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A valid run exits with 0, and results and report are written anew."""
    run = stored_run(tmp_path / "run", read=[7])

    assert code_of("check", run, "--engine", "local") == Exit.VALID

    said = capsys.readouterr().out
    assert "verdict: valid" in said
    assert (
        "  not judged: G0, G0-process, G0-realtime, G1c, G1c-process, G1c-realtime (there were no transactions" in said
    )
    assert "acknowledged writes checked: 1" in said
    assert str(run / "report.html") in said
    results = json.loads((run / "results.json").read_text())
    assert (results["verdict"], results["engine"]["name"]) == ("valid", "local")
    assert (results["checks"]["lost-write"]["kept"], results["checks"]["G0"]["kept"]) == ("kept", "not judged")
    assert (run / "report.html").stat().st_size > 1000


def test_a_page_that_cannot_be_written_hides_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict and results are there before the page is made, and decide the exit; what is wrong with it is told."""
    run = stored_run(tmp_path / "run", read=[])
    (run / "report.html").mkdir()

    assert code_of("check", run, "--engine", "local") == Exit.INVALID

    said = capsys.readouterr()
    assert said.out.startswith("verdict: invalid")
    assert "no report: " in said.err
    assert json.loads((run / "results.json").read_text())["verdict"] == "invalid"


def test_a_lost_write_exits_with_1(tmp_path: Path) -> None:
    """An invalid run exits with 1."""
    assert code_of("check", stored_run(tmp_path, read=[]), "--engine", "local") == Exit.INVALID


def test_a_run_without_an_end_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was cut off is unknown, and says why."""
    run = stored_run(tmp_path, read=[7], closed=False)

    assert code_of("check", run, "--engine", "local") == Exit.UNKNOWN
    assert "the history has no end" in capsys.readouterr().out


def test_without_java_spark_is_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark on demand exits with 3 where there is no Java; where it is only preferred this process judges, and says so.

    What is small is judged here anyway, unless a master is named.
    """
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    run = stored_run(tmp_path / "run", read=[7])

    assert code_of("check", run, "--engine", "spark") == Exit.UNSUPPORTED
    assert "install Java" in capsys.readouterr().err
    assert code_of("check", run, "--master", "local[2]") == Exit.VALID
    assert "this process judges" in capsys.readouterr().err
    assert code_of("check", run) == Exit.VALID
    assert capsys.readouterr().err == "judging with local\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--nemesis", "earthquake"], "partition, kill, pause, rolling-restart"),
        (["run", "--nemesis", ""], "give some of partition, kill, pause"),
        (["run", "--nemesis", "kill,none"], "give some of partition, kill, pause"),
        (["run", "--nemesis", "none", "--store", "/dev/null/store"], "no folder for the run can be made"),
        (["run", "--schedule", "/dev/null"], "neither a file"),
        (["run", "--schedule", __file__], "this is not a schedule, nor any JSON"),
        (["run", "--nodes", "2"], "3<=x<=9"),
        (["run", "--variant", "perfect"], "`nemesis list-variants` lists all"),
        (["run", "--schedule", "no-such"], "isolated-leader"),
        (["run", "--schedule", "demo", "--nemesis", "kill"], "exclude each other"),
        (["run", "--time-limit", "2"], "too short"),
        (["run", "--schedule", "demo", "--time-limit", "3"], "too short for this schedule"),
        (["run", "--fetch-max-wait-ms", "1000"], "must be below --fetch-timeout-ms"),
        (["run", "--rate", "0"], "rate"),
        (["run", "--acks", "2"], "acks"),
        (["run", "--acks", "1", "--idempotence"], "needs --acks all"),
        (["run", "--replication-factor", "4"], "must not fall"),
        (["run", "--min-insync-replicas", "3", "--replication-factor", "2"], "must not fall"),
        (["soak", "--time-limit", "6", "--replication-factor", "4"], "must not fall"),
        (["run", "--master", "nonsense"], "give local[*], local[4], spark://host:7077"),
        (["run", "--master", "local[0]"], "--master"),
        (["soak", "--master", "spark:/host:7077"], "--master"),
        (["check", "/", "--master", "nonsense"], "--engine local"),
        (["frobnicate"], "frobnicate"),
        (["check", "/no/such/folder"], "does not exist"),
        (["check", "/"], "holds no run"),
        (["export", "/"], "holds no run"),
    ],
)
def test_bad_arguments_exit_with_254(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes no sense is refused with what would, and nothing is recorded."""
    monkeypatch.chdir(tmp_path)

    assert code_of(*arguments) == Exit.BAD_ARGUMENTS
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def _interrupted() -> object:
    raise KeyboardInterrupt


def _crashed() -> object:
    raise RuntimeError("a bug")


def _unsupported() -> object:
    raise UnsupportedError("install Java")


def _refused() -> object:
    raise click.ClickException("replica 1 does not serve")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (lambda: None, 0),
        (lambda: 2, 2),
        (_interrupted, 130),
        (_crashed, 255),
        (_unsupported, 3),
        (_refused, 255),
    ],
)
def test_every_way_to_end_has_its_code(command: object, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a command does, the process ends with the code that the help names."""
    assert callable(command)
    assert exit_code_of(command) == code


def test_a_run_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All three tables are written as JSON Lines."""
    run = stored_run(tmp_path / "run", read=[7])

    assert code_of("export", run, "--output", tmp_path / "out") == 0

    lines = (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    assert json.loads(lines[1])["offset"] == 0
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()] == ["5 rows", "1 rows", "1 rows"]


def test_variants_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every mutant is listed with what it breaks, a directed one with its rule, schedule and conviction."""
    assert code_of("list-variants") == 0

    said = capsys.readouterr().out
    assert all(word in said for mutant in ALL for word in (f"{mutant.id} {mutant.name}", mutant.breaks, mutant.summary))
    assert all(
        word in said
        for variant in DIRECTED_VARIANTS.values()
        for word in (*variant.overrides, variant.schedule.name, *variant.convicted_of)
    )
    assert "nothing would show: Each time" in said


def test_a_variant_without_a_schedule_is_refused() -> None:
    """A variant that no live schedule brings about is not run under one that proves nothing, unless that is asked."""
    with pytest.raises(click.UsageError) as refused:
        plan(DEFAULTS | {"variant": "fetch-before-fsync"})
    packaged, _ = plan(DEFAULTS | {"variant": "fetch-before-fsync", "nemesis": ("kill",)})

    assert "nemesis sim --variant fetch-before-fsync" in refused.value.message
    assert all(name in refused.value.message for name in DIRECTED_VARIANTS)
    assert packaged.name == "random"


def test_a_variant_brings_its_schedule() -> None:
    """A variant alone runs under its directed schedule; with kinds or a schedule it runs under those."""
    alone, options = plan(DEFAULTS | {"variant": "ack-before-replication"})
    packaged, _ = plan(DEFAULTS | {"variant": "ack-before-replication", "nemesis": ("kill",)})
    scheduled, _ = plan(DEFAULTS | {"variant": "ack-before-replication", "schedule": DEMO})

    assert alone == ISOLATED_LEADER
    assert "nemesis.variants.server" in options.cluster.server
    assert packaged.name == "random"
    assert scheduled == DEMO


def test_a_workload_on_objects_has_a_store_and_no_topics() -> None:
    """How it reads is the store's."""
    _, options = plan(DEFAULTS | {"workload": "register", "keys": 4, "reads": "stale"})

    assert (options.workload, options.keys, options.cluster.topics.names) == (RegisterWorkload, 4, ())
    assert options.cluster.store == StoreOptions(reads=Reads.STALE)


def test_changes_of_voters_bring_a_store_that_takes_snapshots_often(tmp_path: Path) -> None:
    """So that newcomers load them; also if a stored schedule asks for it."""
    asked = DEFAULTS | {"workload": "register", "nemesis": ("kill", "membership"), "time_limit": 30.0}
    asked |= {"concurrency": 10, "rate": 200.0}
    schedule, options = plan(asked)
    (tmp_path / "schedule.json").write_text(schedule.to_json())
    command = ["--workload", "register", "--schedule", str(tmp_path / "schedule.json"), "--seed", "3"]
    stored = plan(run.make_context("run", command).params)
    _, usual = plan(DEFAULTS | {"workload": "register"})

    assert options.cluster.store == StoreOptions(snapshot_record_bytes=SMALL_SNAPSHOT_RECORD_BYTES)
    assert (stored[0], stored[1].cluster) == (schedule, options.cluster)
    assert usual.cluster.store == StoreOptions()


def test_changes_of_voters_need_objects() -> None:
    """Of a topic's replicas a wiped disk takes what is acknowledged: that workload is refused."""
    with pytest.raises(click.UsageError) as refused:
        plan(DEFAULTS | {"nemesis": ("membership",)})

    assert "--workload register" in refused.value.message


def test_replaced_disks_need_topics(tmp_path: Path) -> None:
    """Objects have no records to lose by a replaced disk, also if a stored schedule asks for it."""
    schedule, options = plan(DEFAULTS | {"nemesis": ("replace-disk",), "time_limit": 30.0})
    (tmp_path / "schedule.json").write_text(schedule.to_json())
    stored = plan(run.make_context("run", ["--schedule", str(tmp_path / "schedule.json"), "--seed", "3"]).params)

    assert options.cluster.store is None
    assert stored[1].cluster == options.cluster
    with pytest.raises(click.UsageError) as refused:
        plan(DEFAULTS | {"nemesis": ("replace-disk",), "workload": "register"})
    assert "membership" in refused.value.message


def test_a_directed_schedule_brings_its_topics() -> None:
    """A schedule that is written for other topics than the usual ones has them, but for what is asked for."""
    _, usual = plan(DEFAULTS)
    _, shaped = plan(DEFAULTS | {"schedule": FOLLOWER_RESTART})
    _, asked = plan(DEFAULTS | {"schedule": FOLLOWER_RESTART, "partitions": 4})

    assert (usual.cluster.topics.names, usual.cluster.topics.replication_factor) == (("topic1-0", "topic1-1"), 3)
    assert (shaped.cluster.topics.names, shaped.cluster.nodes) == (("topic1-0",), 5)
    assert (asked.cluster.topics.partitions, asked.cluster.nodes, usual.cluster.nodes) == (4, 5, 3)
    assert (usual.concurrency, usual.rate, shaped.concurrency, shaped.rate) == (10, 200, 40, 800)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_unclean_elections_are_for_whoever_asks(is_allowed: bool) -> None:
    """The schedule brings a minimum of one replica in sync; whether that may cost records is said by the option."""
    _, options = plan(DEFAULTS | {"schedule": UNCLEAN_ELECTION, "unclean_leader_election": is_allowed})
    topics = options.cluster.topics

    assert (topics.names, topics.min_insync_replicas) == (("topic1-0",), 1)
    assert topics.unclean_leader_election is is_allowed
    assert options_to_json(options)["unclean_leader_election"] is is_allowed


@pytest.mark.parametrize(
    ("acks", "asked", "expected"), [("all", None, True), ("1", None, False), ("all", False, False)]
)
def test_idempotence_goes_with_all_acks(acks: str, asked: bool | None, expected: bool) -> None:
    """Clients number their batches where all replicas are asked for, unless that is not wanted."""
    _, options = plan(DEFAULTS | {"acks": acks, "idempotence": asked})

    assert options.cluster.client.producer_config().is_idempotent is expected


def test_all_packages_are_the_default() -> None:
    """Without any wish the usual kinds are drawn from for 30 seconds; ``none`` draws from none."""
    schedule, options = plan(DEFAULTS)

    assert schedule == random_schedule(seed=3, kinds=USUAL, time_limit_s=30)
    assert options.nemesis == USUAL
    assert plan(DEFAULTS | {"nemesis": ()})[0].steps == ()


def test_a_drawn_seed_is_kept(tmp_path: Path) -> None:
    """Without a seed one is drawn, and the one in test.json repeats the stored schedule."""
    schedule, options = plan(DEFAULTS | {"seed": None})
    write_documents(tmp_path, options, schedule, ["nemesis", "run"], NOW)

    seed = json.loads((tmp_path / "test.json").read_text())["seed"]

    assert plan(DEFAULTS | {"seed": seed})[0].to_json() == (tmp_path / "schedule.json").read_text()
    assert schedule_from_json((tmp_path / "schedule.json").read_text()) == schedule


def test_the_documents_of_a_run(tmp_path: Path) -> None:
    """test.json says what ran, with what, and by which command."""
    write_documents(tmp_path, RunOptions(seed=9, nemesis=("kill",)), DIRECTED["demo"], ["nemesis", "demo"], NOW)

    document = json.loads((tmp_path / "test.json").read_text())

    assert (document["workload"], document["seed"], document["argv"]) == ("append", 9, ["nemesis", "demo"])
    assert document["logs"] == {"__cluster_metadata-0": [1, 2, 3], "topic1-0": [], "topic1-1": []}
    assert document["started_at"] == "2026-01-02T03:04:05+00:00"
    assert document["options"]["schedule"] == "demo"
    assert {"nodes", "nemesis", "time_limit", "concurrency", "rate", "variant"} <= document["options"].keys()
    assert {"topic_count", "partitions", "acks", "idempotence", "replica_lag_time_max_ms"} <= document["options"].keys()
    assert {"python", "grpcio", "pyarrow"} <= document["versions"].keys()


def test_every_setting_has_a_name_of_its_own() -> None:
    """No part of a cluster hides a setting of another in the one list of a run's settings."""
    store = StoreOptions()
    options = RunOptions(seed=9, workload=SetWorkload, cluster=ReplicaOptions(store=store))
    cluster = options.cluster
    own = [field.name for part in (options, cluster) for field in fields(part)]
    own += [field.name for part in (cluster.topics, cluster.client, cluster.timing, store) for field in fields(part)]

    parts = {"seed", "workload", "cluster", "server", "topics", "client", "timing", "store"}
    names = set(own) - parts - {"kind"} | {"cluster"}  # Where its nodes run is told by the option's name.
    assert options_to_json(options).keys() == names
    assert len(names) == len(own) - len(parts)
    on_logs = options_to_json(RunOptions(seed=9)).keys()
    assert on_logs == names - {"keys"} - {field.name for field in fields(store)}


def test_latest_is_the_newest_run(tmp_path: Path) -> None:
    """Each run has a folder of its own, even within one second, and ``latest`` points to the last."""
    first, second = new_folder(tmp_path, NOW), new_folder(tmp_path, NOW)

    assert (first.name, second.name) == ("20260102T030405", "20260102T030405-1")
    assert (tmp_path / "append" / "latest").resolve() == second.resolve()
    assert os.readlink(tmp_path / "append" / "latest") == second.name


def test_help_is_light() -> None:
    """``nemesis --help`` loads neither gRPC, nor Arrow, nor Spark."""
    program = (
        "import sys; from nemesis.cli.__main__ import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('grpc', 'pyarrow', 'pyspark', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert "130 interrupted" in " ".join(done.stdout.split())
