"""Settings by name, and the words of the command that they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemesis.cli.run import TIME_LIMIT_S_DEFAULT
from nemesis.cli.settings import (
    FINAL_TIME_LIMIT_S_DEFAULT,
    OVERHEAD_S_MAX,
    SettingError,
    at_most_s,
    check_settings,
    draws_its_faults,
    words_of,
)
from nemesis.schedules.directed import DIRECTED
from nemesis.schedules.schedule import Schedule
from nemesis.variants.catalogue import DIRECTED_VARIANTS

VARIANT = "ack-before-replication"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"faults": ["partition", "kill"]}, ("--nemesis", "partition,kill")),
        ({"faults": "kill"}, ("--nemesis", "kill")),
        ({"faults": []}, ("--nemesis", "none")),
        ({"time_limit": 8.5, "seed": 0}, ("--time-limit", "8.5", "--seed", "0")),
        ({"idempotence": False, "unclean_leader_election": True}, ("--no-idempotence", "--unclean-leader-election")),
        ({"variant": None, "acks": 1}, ("--acks", "1")),
        ({"stop_at_anomaly": True}, ("--stop-at-anomaly",)),
        ({"stop_at_anomaly": False}, ()),
    ],
)
def test_settings_are_options(settings: dict[str, Any], words: tuple[str, ...]) -> None:
    """Each setting is the option of its name; an absent one is left to the command, and all of them are accepted."""
    check_settings(settings)
    assert words_of(settings) == words


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"fault": ["kill"]},
            r"there is no setting 'fault' \(did you mean faults\?\): give some of faults, system, workload",
        ),
        ({"nemesis": "kill"}, "there is no setting 'nemesis'"),
        ({"store": "x"}, "there is no setting 'store'"),
        (
            {"faults": ["kil"]},
            r"faults = .*'kil' \(did you mean kill\?\): give some of partition, kill, pause, rolling-restart",
        ),
        ({"nodes": "many"}, "nodes = 'many'"),
        ({"nodes": 2}, "nodes = 2: .*2 is not in the range"),
        ({"seed": -1}, "seed = -1: "),
        ({"variant": "none-such"}, "variant = 'none-such'"),
        ({"nodes": False}, "nodes = False"),
        ({"idempotence": "yes"}, "idempotence = 'yes'"),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(settings: dict[str, Any], said: str) -> None:
    """A setting that does not exist, or a value that it cannot have, is told with its name before anything starts."""
    with pytest.raises(SettingError, match=said) as refused:
        check_settings(settings)
    assert refused.value.name == next(iter(settings))


@pytest.mark.parametrize(
    ("settings", "drawn"),
    [
        ({}, True),
        ({"faults": ["kill"]}, True),
        ({"schedule": "isolated-leader"}, False),
        ({"variant": "ack-before-replication"}, False),
        ({"variant": "ack-before-replication", "faults": ["kill"]}, True),
    ],
)
def test_a_directed_schedule_lasts_as_long_as_its_story(settings: dict[str, Any], drawn: bool) -> None:
    """A variant brings a directed schedule, unless kinds of faults are asked for."""
    assert draws_its_faults(settings) is drawn


def test_the_bound_on_a_run_is_that_of_the_command() -> None:
    """A run without a time limit may take as long as the command's own default, and what comes on top of that."""
    assert at_most_s({}) == TIME_LIMIT_S_DEFAULT + FINAL_TIME_LIMIT_S_DEFAULT + OVERHEAD_S_MAX == 375.0


@pytest.mark.parametrize(
    ("settings", "workload_s"),
    [
        ({"time_limit": 900}, 900.0),
        ({"schedule": "isolated-leader"}, DIRECTED["isolated-leader"].time_limit_s),
        ({"variant": VARIANT}, DIRECTED_VARIANTS[VARIANT].schedule.time_limit_s),
        ({"variant": VARIANT, "schedule": "isolated-leader", "time_limit": 80}, 80.0),
        ({"variant": VARIANT, "faults": ["kill"]}, TIME_LIMIT_S_DEFAULT),
        ({"schedule": "nowhere"}, TIME_LIMIT_S_DEFAULT),
    ],
)
def test_the_bound_follows_what_the_run_does(settings: dict[str, Any], workload_s: float) -> None:
    """A directed schedule brings its own time; one that the command refuses is given the usual one to be refused in."""
    assert at_most_s(settings) == workload_s + FINAL_TIME_LIMIT_S_DEFAULT + OVERHEAD_S_MAX


def test_a_stored_schedule_that_takes_long_is_not_taken_for_a_run_that_hangs(tmp_path: Path) -> None:
    """The time in the file counts."""
    stored = tmp_path / "schedule.json"
    stored.write_text(Schedule(name="long", time_limit_s=2000, steps=()).to_json(), encoding="utf-8")
    assert at_most_s({"schedule": str(stored), "seed": 3}) > 2000
