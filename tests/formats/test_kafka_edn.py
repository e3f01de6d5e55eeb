"""A run of this harness becomes a history that Jepsen's checker of Kafka workloads understands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemesis.cli.__main__ import cli
from nemesis.formats.edn_text import edn_text
from nemesis.formats.kafka_edn import export_kafka_edn, kafka_events
from nemesis.formats.reading import read_history_file
from nemesis.history import APPEND, FINAL_READ, POLL, EventType, HistoryEvent, PolledRecord
from nemesis.history.writer import HistoryWriter

INVOKE, OK, FAIL, INFO = EventType.INVOKE, EventType.OK, EventType.FAIL, EventType.INFO


def recorded(folder: Path, events: Sequence[dict[str, Any]]) -> Path:
    """A run folder with these events, of process 0 and log t-0."""
    with HistoryWriter(folder) as writer:
        for index, fields in enumerate(events):
            known: dict[str, Any] = {"process": 0, "topic_partition": "t-0"} | fields
            writer.write(HistoryEvent(index=index, time_ns=index * 10, **known))
    return folder


def exported(folder: Path, events: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the exported file."""
    target = folder / "history.edn"
    count = export_kafka_edn(recorded(folder / "run", events), target)
    lines = target.read_text(encoding="utf-8").splitlines()
    assert len(lines) == count
    return lines


RECORDS = (PolledRecord(offset=0, value=7), PolledRecord(offset=2, value=8))


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([{"type": INVOKE, "f": APPEND, "value": 7}], ':type :invoke, :process 0, :f :send, :value [[:send "t-0" 7]]'),
        (
            [{"type": INVOKE, "f": APPEND, "value": 7}, {"type": OK, "f": APPEND, "value": 7, "offset": 3}],
            ':type :ok, :process 0, :f :send, :value [[:send "t-0" [3 7]]]',
        ),
        (
            [{"type": INVOKE, "f": APPEND, "value": 7}, {"type": FAIL, "f": APPEND, "value": 7, "error": "no leader"}],
            ':type :fail, :process 0, :f :send, :value [[:send "t-0" 7]], :error "no leader"',
        ),
        ([{"type": INVOKE, "f": POLL, "offset": 0}], ":type :invoke, :process 0, :f :poll, :value [[:poll]]"),
        (
            [{"type": INVOKE, "f": POLL, "offset": 0}, {"type": OK, "f": POLL, "records": RECORDS}],
            ':type :ok, :process 0, :f :poll, :value [[:poll {"t-0" [[0 7] [2 8]]}]]',
        ),
        (
            [{"type": INVOKE, "f": POLL, "offset": 0}, {"type": OK, "f": POLL, "records": ()}],
            ":type :ok, :process 0, :f :poll, :value [[:poll {}]]",
        ),
        (
            [{"type": INVOKE, "f": "kill", "process": -1, "topic_partition": None, "detail": '{"node": 1}'}],
            ':type :info, :process :nemesis, :f :kill, :value "{\\"node\\": 1}"',
        ),
        # Acknowledged by less than all replicas: nothing was promised.
        (
            [
                {"type": INVOKE, "f": APPEND, "value": 7, "acks": 1},
                {"type": OK, "f": APPEND, "value": 7, "offset": 3, "acks": 1},
            ],
            ':type :info, :process 0, :f :send, :value [[:send "t-0" 7]]',
        ),
    ],
)
def test_an_event_becomes_a_micro_operation(events: list[dict[str, Any]], last: str, tmp_path: Path) -> None:
    """Each kind of event is written as Jepsen's workload would have."""
    place = len(events) - 1

    written = exported(tmp_path, events)[-1].split(", :highwater {")[0].removesuffix("}")
    assert written == f"{{:index {place}, :time {place * 10}, {last}"


def processes(events: Sequence[dict[str, Any]]) -> list[Any]:
    """Who each event is of, to Jepsen."""
    rows = [
        {"index": index, "time_ns": index, "process": 0, "topic_partition": "t-0", "value": None, "offset": None}
        | {"records": None, "error": None, "acks": None, "seek": None}
        | fields
        for index, fields in enumerate(events)
    ]
    return [event.process for event in kafka_events(rows, first_free=50)]


POLLED = [{"type": INVOKE, "f": POLL}, {"type": OK, "f": POLL}]
SOUGHT = [{"type": INVOKE, "f": POLL, "seek": True}, {"type": OK, "f": POLL}]
READ = [{"type": INVOKE, "f": FINAL_READ}, {"type": OK, "f": FINAL_READ}]
LOST = [{"type": INVOKE, "f": APPEND}, {"type": INFO, "f": APPEND}]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (POLLED * 2, [0, 0, 0, 0]),
        (SOUGHT, [0, 0]),
        (POLLED + SOUGHT, [0, 0, 50, 50]),
        (READ * 2, [0, 0, 50, 50]),
        (SOUGHT + SOUGHT + POLLED, [0, 0, 50, 50, 50, 50]),
        (LOST + POLLED, [0, 0, 50, 50]),
    ],
)
def test_who_seeks_is_somebody_else(events: list[dict[str, Any]], expected: list[int]) -> None:
    """A process that goes back in a log that it polled would be convicted of it; so would one that outlives an info."""
    assert processes(events) == expected


def test_the_command_exports_to_the_file_that_jepsen_looks_for(tmp_path: Path) -> None:
    """``nemesis export --format edn`` writes history.edn where it was told to, and says how much."""
    folder = recorded(tmp_path / "run", [{"type": INVOKE, "f": POLL, "offset": 0}])

    result = CliRunner().invoke(cli, ["export", str(folder), "--format", "edn", "--output", str(tmp_path / "out")])

    assert result.output == f"{tmp_path / 'out' / 'history.edn'}: 1 events\n"
    assert (tmp_path / "out" / "history.edn").read_text(encoding="utf-8").startswith("{:index 0, :time 0,")


def test_an_exported_run_can_be_read(tmp_path: Path) -> None:
    """What is exported is a history in EDN, with its operations in pairs."""
    exported(tmp_path, [{"type": INVOKE, "f": APPEND, "value": 7}, {"type": OK, "f": APPEND, "value": 7, "offset": 0}])

    [operation] = read_history_file(tmp_path / "history.edn").operations()

    assert edn_text(operation.result) == '[[:send "t-0" [0 7]]]'
