"""The table of systems: what it names can be loaded, and naming costs nothing."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from nemesis.cli.workload import workload_asked
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.errors import UnsupportedError
from nemesis.history.events import METADATA_LOG
from nemesis.systems import catalogue, programs
from nemesis.systems.catalogue import HIGHWATER, SYSTEMS, UnknownSystemError, missing, offer_of
from nemesis.workload.catalogue import WORKLOADS

LIBRARIES = tuple(library for entry in SYSTEMS.values() for library in entry.offer.libraries)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_name_leads_to_a_class(name: str) -> None:
    """The class of each system is where the table says, and tells the offer that stands there."""
    for library in SYSTEMS[name].offer.libraries:
        pytest.importorskip(library)

    assert offer_of(SYSTEMS[name].where) is SYSTEMS[name].offer


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cassandra", "none of highwater, etcd"),
        ("nowhere.at.all:System", "cannot be had: No module named 'nowhere'"),
        ("nemesis.systems.foreign:Nothing", "has no attribute 'Nothing'"),
        ("pathlib:Path", "is no system: it has no offer"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, said: str) -> None:
    """What is neither in the table nor a class of a system is told, with what is wrong with it."""
    with pytest.raises(UnknownSystemError, match=said):
        offer_of(name)


def test_naming_systems_imports_none_of_their_libraries() -> None:
    """The command line, which lists all systems, has loaded no library that only one of them needs."""
    program = f"import sys, nemesis.cli.run; print([name for name in {LIBRARIES!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"


def test_a_program_that_is_not_there_is_told_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is installed each system says so, and what to install."""
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", "/nowhere")

    assert missing(HIGHWATER) is None
    assert missing("etcd") == "etcd is not installed: apt-get install etcd-server"
    assert missing("redis") == "redis-server is not installed: apt-get install redis-server"
    with pytest.raises(UnsupportedError, match="java is not installed"):
        catalogue.check_installed("kafka")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"system": "etcd", "workload": "append"}, "etcd knows no workload append: give register or"),
        ({"system": "redis", "workload": "bank"}, "redis knows no workload bank: give register or set or counter"),
        ({"system": "redis", "reads": "stale"}, "redis knows no stale reads"),
        (
            {"system": "kafka", "workload": "append", "variant": "no-epochs"},
            "--variant means nothing to the system",
        ),
        ({"strict_acks": True}, "--strict-acks means nothing to the workload register"),
        (
            {"workload": "append", "strict_acks": True, "acks": "0"},
            "--strict-acks means nothing to appends",
        ),
    ],
)
def test_what_a_system_has_no_use_for_is_refused(given: dict[str, object], said: str) -> None:
    """Options that mean nothing to the system that is asked for are wrong arguments, and never passed over."""
    counts = dict.fromkeys(("keys", "reads", "topics", "partitions", "replication_factor", "min_insync_replicas"))
    usual = {"system": HIGHWATER, "workload": "register", "strict_acks": False, "acks": "all", "variant": None}

    with pytest.raises(click.UsageError, match=said):
        workload_asked({**counts, **usual, **given})


def test_only_logs_that_are_read_are_expected() -> None:
    """A run of our replicas or of Kafka has the nodes' logs in it, one of a store that shows none has not."""
    assert {name: entry.offer.shows_logs for name, entry in SYSTEMS.items()} == {
        "highwater": True,
        "etcd": False,
        "redis": False,
        "kafka": True,
    }


def test_where_every_offset_holds_a_record_is_declared() -> None:
    """Nobody but clients writes to the partitions of our and Kafka's topics; the metadata log has other records too."""
    options = ReplicaOptions()
    declared = {name: list(entry.offer.gapless(options)) for name, entry in SYSTEMS.items()}
    topics = list(options.topics.names)
    assert declared == {"highwater": topics, "etcd": [], "redis": [], "kafka": topics}
    assert topics
    assert METADATA_LOG not in topics


def test_a_system_offers_what_its_clients_can_do() -> None:
    """Which workloads a system is used for follows from what its clients can do, and ours can do everything."""
    assert SYSTEMS[HIGHWATER].offer.workloads == tuple(WORKLOADS)
    assert {name: SYSTEMS[name].offer.workloads for name in ("redis", "kafka")} == {
        "redis": ("register", "set", "counter"),
        "kafka": ("append",),
    }
