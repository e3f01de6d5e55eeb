"""The options that choose faults: names, weights, turns; and what some faults need of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from nemesis.cli.run import plan, run
from nemesis.faults.catalogue import KINDS, USUAL
from nemesis.faults.needs import Need
from nemesis.runner import SERVER_IN_HAND, SMALL_SEGMENT_BYTES
from nemesis.schedules.drawn import flip_flop_schedule, random_schedule


def asked(*words: str) -> dict[str, Any]:
    """The options of ``nemesis run``, as the command reads them."""
    return dict(run.make_context("run", ["--seed", "3", *words]).params)


def test_weights_are_how_often_a_package_is_named() -> None:
    """A name with a weight is drawn so much more often than the others."""
    kinds = ("kill", "kill", "kill", "delay")
    schedule, options = plan(asked("--nemesis", "kill:3, delay"))

    assert options.nemesis == kinds
    assert schedule == random_schedule(seed=3, kinds=kinds, time_limit_s=30)


@pytest.mark.parametrize("value", ["kil", "kill:0", "kill:101", "kill:x", "kill:", ",", "none,kill"])
def test_what_is_no_package_is_refused(value: str) -> None:
    """A word that is no kind of fault, or a weight out of bounds, is told with what could be given."""
    with pytest.raises(click.BadParameter, match="give some of partition, kill"):
        asked("--nemesis", value)


def test_the_usual_is_what_it_was() -> None:
    """Without being asked, faults are drawn from the four kinds that need nothing and judge nobody."""
    schedule, options = plan(asked())

    assert options.nemesis == USUAL == ("partition", "kill", "pause", "rolling-restart")
    assert schedule == random_schedule(seed=3, kinds=USUAL, time_limit_s=30)


def test_packages_take_turns_when_asked() -> None:
    """A flip-flop is another schedule of the same kinds, and a schedule that is given has none."""
    schedule, _ = plan(asked("--nemesis", "kill,delay", "--flip-flop"))

    assert schedule == flip_flop_schedule(seed=3, kinds=("kill", "delay"), time_limit_s=30)
    with pytest.raises(click.UsageError, match="exclude each other"):
        plan(asked("--schedule", "demo", "--flip-flop"))


def test_a_kill_at_a_point_brings_replicas_that_stand_still(tmp_path: Path) -> None:
    """The kind and a stored schedule bring them, with a wrong rule as well; nothing else does."""
    schedule, options = plan(asked("--nemesis", "kill-at"))
    (tmp_path / "schedule.json").write_text(schedule.to_json())
    _, stored = plan(asked("--schedule", str(tmp_path / "schedule.json")))
    _, wrong = plan(asked("--nemesis", "kill-at", "--variant", "ack-before-replication"))
    _, usual = plan(asked("--nemesis", "kill"))

    for able in (options, stored, wrong):
        assert able.cluster.can_stand_still
        assert able.cluster.server[: len(SERVER_IN_HAND)] == SERVER_IN_HAND
    assert wrong.cluster.server[-1] == "ack-before-replication"
    assert not usual.cluster.can_stand_still
    assert usual.cluster.server == ("-m", "replica.cli", "start")


@pytest.mark.parametrize("name", ["clock-jump", "clock-stop", "clock-drift", "wall-clock-jump", "clock-strobe"])
def test_a_fault_of_clocks_brings_replicas_whose_clocks_can_be_set(tmp_path: Path, name: str) -> None:
    """The kind and a stored schedule bring them, with what else is asked for; a burst of load needs none of it."""
    schedule, options = plan(asked("--nemesis", name))
    (tmp_path / "schedule.json").write_text(schedule.to_json())
    _, stored = plan(asked("--schedule", str(tmp_path / "schedule.json")))
    _, both = plan(asked("--nemesis", f"{name},kill-at"))
    _, burst = plan(asked("--nemesis", "burst"))

    for able in (options, stored, both):
        assert able.cluster.clocks_in_hand
        assert able.cluster.server == SERVER_IN_HAND
    assert [run.cluster.can_stand_still for run in (options, stored, both)] == [False, False, True]
    assert not burst.cluster.clocks_in_hand


@pytest.mark.parametrize("kind", sorted(word for word, fault in KINDS.items() if fault.need is Need.DISKS))
def test_faults_of_disks_bring_disks_that_can_be_broken(tmp_path: Path, kind: str) -> None:
    """The kinds and a stored schedule bring them, beside replicas that stand still as well; nothing else does."""
    schedule, options = plan(asked("--nemesis", kind))
    (tmp_path / "schedule.json").write_text(schedule.to_json())
    _, stored = plan(asked("--schedule", str(tmp_path / "schedule.json")))
    _, both = plan(asked("--nemesis", f"kill-at,{kind}", "--variant", "ack-before-replication"))
    _, usual = plan(asked("--nemesis", "kill-at"))

    for able in (options, stored, both):
        assert able.cluster.can_break_disks
        assert able.cluster.server[: len(SERVER_IN_HAND)] == SERVER_IN_HAND
    assert both.cluster.can_stand_still
    assert both.cluster.server[-1] == "ack-before-replication"
    assert not usual.cluster.can_break_disks
    assert (options.cluster.log_segment_bytes, usual.cluster.log_segment_bytes) == (SMALL_SEGMENT_BYTES, None)


def test_when_logs_are_flushed_can_be_said() -> None:
    """The option goes on to the replicas; without it they do what they do without it."""
    _, options = plan(asked("--log-flush", "os"))
    _, usual = plan(asked())

    assert options.cluster.log_arguments == ("--log-flush", "os")
    assert usual.cluster.log_arguments == ()


def test_when_another_system_flushes_cannot_be_said() -> None:
    """An option that only our replicas have is refused, not passed over."""
    with pytest.raises(click.UsageError, match="--log-flush means nothing to the system redis"):
        plan(asked("--system", "redis", "--workload", "register", "--log-flush", "os"))
