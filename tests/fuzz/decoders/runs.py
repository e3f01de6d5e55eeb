"""The decoders of a run's folder, which may come from anybody, and of what other systems leave behind and answer."""

from __future__ import annotations

import atexit
import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.anomalies import anomaly_row, anomaly_table, bounded
from nemesis.checks.evidence import MISSING_EVIDENCE
from nemesis.checks.high_watermarks import COMMITTED_TRUNCATED, HIGH_WATERMARK_REGRESSION
from nemesis.checks.in_sync import INCOMPLETE_ISR, ISR_NOT_RESTORED
from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.partition import Partition
from nemesis.checks.replica_events import replica_events_of
from nemesis.checks.replica_logs import REPLICA_STOPPED, TWO_LEADERS
from nemesis.checks.run_checks import CheckOptions, partition_of
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.checks.unclean_elections import Cuts
from nemesis.ci.judged import NotJudgedError, judged_run, verdict_in
from nemesis.cluster.log_lines import log_lines
from nemesis.formats.errors import HistoryError as ForeignHistoryError
from nemesis.history.document import logs_of, logs_that_are, shows_logs, workload_named
from nemesis.history.errors import HistoryError
from nemesis.history.events import (
    BECAME_LEADER,
    DUMP,
    FINAL_ISR,
    HARNESS_PROCESS,
    HIGH_WATERMARK,
    UNCLEAN_ELECTION,
)
from nemesis.history.reader import list_shards, read_history
from nemesis.history.schemas import COMPLETE_MARKER, HISTORY_SCHEMA, SCHEMAS, Kind
from nemesis.history.stopped import Found, Stopped, read_stopped, write_stopped
from nemesis.history.writer import shard_name
from nemesis.pipeline import judge_run
from nemesis.pipeline.corpora.store import batches_of, check_file, operation_files
from nemesis.pipeline.local import dumped_logs, of_run, pair_operations, with_run_id
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.report.folder import _read_json
from nemesis.report.timeline import parsed
from nemesis.serve.rows import read_page
from nemesis.serve.store import NotInStoreError
from nemesis.serve.summary import _read as read_summary
from nemesis.synth.manifest import is_manifest
from nemesis.systems.kafka.logs import HIGH_WATERMARKS, QUORUM_STATE, high_watermarks, quorum_word
from nemesis.systems.kafka.metadata import MalformedError, parse
from nemesis.workload.register import RegisterWorkload
from tests.corruption.base import LOGS, TEST, Recording, clean, objects
from tests.fuzz.decoder import Decoder, SaidNoError, of_bytes, of_file, there
from tests.pipeline.stores import sequence, write_store

JSON_WORDS = (b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b"1", b'"verdict"', b'"replicas"', b'"logs"')
RESULTS = {
    "verdict": "invalid",
    "reasons": ["lost-write: 1"],
    "warnings": [],
    "anomalies": [{"anomaly": "lost-write", "severity": "violation", "evidence": {"more": 2}, "detail": "gone"}],
    "stats": {"events": 3},
    "faults_bit": True,
    "checks": {"losses": {"kept": "violated", "found": 1}, "sessions": {"kept": "kept", "found": 0}},
}
FULL_TEST = json.loads(TEST) | {
    "seed": 7,
    "argv": ["nemesis", "run", "--seed", "7"],
    "options": {"schedule": "kills", "variant": None, "nemesis": ["kill"], "time_limit": 10, "system": "highwater"},
    "versions": {"commit": "abc"},
    "started_at": "2026-01-31T12:00:00+00:00",
    "shows_logs": True,
    "gapless": ["orders-0"],
}
DETAILS = (
    '{"replicas": [1], "logs": {"orders-0": {"batches": 2}}}',
    '{"isr": [1, 2], "replicas": [1, 2, 3], "restored": true, "after_s": 0.5, "elr": []}',
    '{"replicas": [1, 2], "to": 3, "fault_id": 0}',
    '{"leader_id": 2, "isr": [1], "elr": [2], "log_end_offset": 9}',
    '{"changed_at": 2}',
)


@cache
def _run() -> Path:
    """A small run that is whole, with its documents; it is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="fuzzed-run-")) / "run"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    clean().write(folder)
    (folder / "test.json").write_text(json.dumps(FULL_TEST), encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    write_stopped(
        folder,
        Stopped(
            at_s=1.5,
            found=Found(anomaly="duplicate", topic_partition="orders-0", detail="twice", others=1, engine="local"),
        ),
    )
    return folder


def _in_run(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """A decoder of one file of a run whose other files are whole."""

    def decode(content: bytes, folder: Path) -> object:
        run = folder / "run"
        if not run.exists():
            shutil.copytree(_run(), run)
        (run / name).write_bytes(content)
        return read(run)

    return decode


def _read_test(run: Path) -> None:
    """Everything that reads ``test.json``. Raises NotJudgedError."""
    workload_named(run, "append")
    shows_logs(run)
    logs_of(run)
    logs_that_are(run, "gapless")
    logs_that_are(run, "trimmed")
    read_summary("run", run)
    _read_json(run / "test.json", [], "nothing is told")
    judged_run(run)


def _read_results(run: Path) -> None:
    """Everything that reads ``results.json``. Raises NotJudgedError."""
    read_summary("run", run)
    judged_run(run)
    verdict_in(run)


def _read_shards(run: Path) -> None:
    """List one table, whichever the marker's size says: each reads all of the marker."""
    kind = (*Kind,)[(run / Kind.HISTORY / COMPLETE_MARKER).stat().st_size % len(Kind)]
    list_shards(run, kind)


def _read_tables(run: Path) -> None:
    read_summary("run", run)
    read_page(run, Kind.HISTORY, 0)
    read_history(run)


RUN, LOG = "run", LOGS[0]
READ_BY = (FINAL_ISR, BECAME_LEADER, UNCLEAN_ELECTION, HIGH_WATERMARK, "halted")
"""The events of a log whose details somebody reads."""
TELLING = (
    *(MISSING_EVIDENCE, INCOMPLETE_ISR, ISR_NOT_RESTORED, LOST_WRITE, REPLICA_STOPPED, TWO_LEADERS),
    *(HIGH_WATERMARK_REGRESSION, COMMITTED_TRUNCATED),
)
"""The checks that tell what events say."""


@cache
def _partition() -> Partition:
    """A log as it is judged, of a clean run."""
    tables = [pa.Table.from_pylist(rows, schema=SCHEMAS[kind]) for kind, rows in clean().tables.items()]
    history, logs, events = (rows.filter(pc.equal(rows["topic_partition"], LOG)) for rows in tables)
    own = [pair_operations(history, RUN), of_run(logs, RUN, LOG_BATCH_SCHEMA), of_run(events, RUN, RUN_EVENT_SCHEMA)]
    return partition_of((RUN, LOG), own, CheckOptions(evident_runs=frozenset({RUN})))


def _tell_log(content: bytes) -> None:
    """Read a detail as each event of a log and as a dump of it, and say all that the checks make of them."""
    text = content.decode("utf-8", "replace")
    parsed(text)
    about = {"time_ns": 90_000, "replica_id": 2, "epoch": 2, "offset": 9, "topic_partition": LOG, "detail": text}
    rows = [about | {"run_id": RUN, "event": event} for event in READ_BY]
    dump = {"time_ns": 1, "process": HARNESS_PROCESS, "f": DUMP, "type": "info", "detail": text}
    dumped = dumped_logs(pa.Table.from_pylist([dump]), RUN)
    told = replica_events_of(pa.concat_tables([pa.Table.from_pylist(rows, schema=RUN_EVENT_SCHEMA), dumped]))
    partition = replace(_partition(), events=told)
    explained = Cuts(partition).explained
    found = [(check.name, explained(anomaly)) for check in TELLING for anomaly in bounded(check.run(partition))]
    anomaly_table(anomaly_row(RUN, LOG, name, anomaly) for name, anomaly in found)


@cache
def _uses() -> pa.Table:
    """What clients did with a register; the details come last."""
    rows = [row for row in objects().history if row["process"] >= 0]
    return with_run_id(pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA), RUN)


def _tell_object(content: bytes) -> None:
    """Judge a register of which a client has told this detail beside what it did."""
    text = content.decode("utf-8", "replace")
    parsed(text)
    uses = _uses()
    told = uses["detail"].to_pylist()
    told[len(content) % 3 :: 3] = [text] * len(told[len(content) % 3 :: 3])
    judge_objects(uses.set_column(uses.num_columns - 1, "detail", pa.array(told, pa.string())), {RUN: RegisterWorkload})


def _judge(make: Callable[[], Recording]) -> Callable[[bytes, Path], object]:
    """Judge a whole run in which what the harness or a client has told beside an operation is this text."""

    def decode(content: bytes, folder: Path) -> None:
        text = content.decode("utf-8", "replace")
        run = make()
        told = [row for row in (*run.history, *run.events) if row.get("detail") is not None]
        for row in told[len(content) % 3 :: 3]:
            row["detail"] = text
        parsed(text)
        target = folder / "judged"
        shutil.rmtree(target, ignore_errors=True)
        judge_run(run.write(target), engine="local")

    return decode


def _metadata_answer() -> Sequence[bytes]:
    """What a broker of Kafka answers: two brokers, one topic of two partitions."""

    def text(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    def numbers(*values: int) -> bytes:
        return struct.pack(f">i{len(values)}i", len(values), *values)

    brokers = b"".join(struct.pack(">i", one) + text(b"host") + struct.pack(">ih", 9092, -1) for one in (1, 2))
    partitions = b"".join(
        struct.pack(">hiii", 0, number, 1, 5) + numbers(1, 2) + numbers(1) + numbers(2) for number in (0, 1)
    )
    topic = struct.pack(">h", 0) + text("é".encode()) + b"\0" + struct.pack(">i", 2) + partitions
    head = struct.pack(">iii", 1, 0, 2) + brokers + text(b"cluster") + struct.pack(">i", 1)
    return [head + struct.pack(">i", 1) + topic]


def _json(name: str, *, refusals: tuple[type[Exception], ...], read: Callable[[Path], object], file: str) -> Decoder:
    """A JSON document of a run."""
    return Decoder(
        name=name,
        decode=_in_run(file, read),
        right=lambda: [(_run() / file).read_bytes()],
        refusals=refusals,
        words=JSON_WORDS,
        memory_bytes=4 << 20,
        memory_per_byte=1_000,
        cost=10,
    )


def _read_operations(path: Path) -> None:
    """A file of operations on objects, as a folder of them has it."""
    check_file(path)
    for _ in batches_of([path]):
        pass


def _operations() -> Sequence[bytes]:
    """Two objects, of which one has a name."""
    with tempfile.TemporaryDirectory() as folder:
        store = write_store(Path(folder), [sequence(0, 6), sequence(1, 4)], files=1)
        return [path.read_bytes() for path in operation_files(store)]


def _detail(name: str, decode: Callable[[bytes, Path], object], *, cost: int) -> Decoder:
    """The text beside what a run tells."""
    return Decoder(
        name=name,
        decode=decode,
        right=lambda: [text.encode() for text in DETAILS],
        words=JSON_WORDS,
        memory_bytes=64 << 20,
        memory_per_byte=10_000,
        cost=cost,
    )


SHARD = f"history/{shard_name(0)}"
DECODERS = (
    _json("run-test", file="test.json", read=_read_test, refusals=(NotJudgedError,)),
    _json("run-results", file="results.json", read=_read_results, refusals=(NotJudgedError,)),
    _json("run-stopped", file="stopped.json", read=read_stopped, refusals=(HistoryError,)),
    _json("run-complete", file=f"history/{COMPLETE_MARKER}", read=_read_shards, refusals=()),
    Decoder(
        name="run-shard",
        decode=_in_run(SHARD, _read_tables),
        right=lambda: [(_run() / SHARD).read_bytes()],
        refusals=(HistoryError, NotInStoreError),
        memory_bytes=16 << 20,
        memory_per_byte=1_000,
        may_kill=True,
        cost=30,
    ),
    Decoder(
        name="operations-store",
        decode=of_file("operations.parquet", _read_operations),
        right=_operations,
        refusals=(ForeignHistoryError,),
        memory_bytes=16 << 20,
        memory_per_byte=1_000,
        may_kill=True,
        cost=20,
    ),
    _detail("run-detail-logs", of_bytes(_tell_log), cost=20),
    _detail("run-detail-objects", of_bytes(_tell_object), cost=20),
    Decoder(
        name="log-lines",
        decode=of_file("replica.log", lambda path: list(log_lines(path))),
        right=lambda: [b'{"event": "started", "replica": 1}\nhello\n{"event": "x", "n": [1]}\n'],
        words=JSON_WORDS,
        memory_per_byte=400,
        cost=2,
    ),
    Decoder(
        name="manifest",
        decode=of_file("manifest.json", lambda path: there(is_manifest(path) or None)),
        right=lambda: [b'{"plan": {}, "events": 3, "planted": [{"anomaly": "lost-write", "keys": [1]}]}'],
        refusals=(SaidNoError,),
        words=JSON_WORDS,
        memory_per_byte=400,
        cost=2,
    ),
    Decoder(
        name="kafka-high-watermarks",
        decode=of_file(HIGH_WATERMARKS, lambda path: high_watermarks(path.parent)),
        right=lambda: [b"0\n2\norders 0 12\npayments 3 0\n"],
        words=(b" ", b"\n", b"0"),
        memory_per_byte=400,
        cost=2,
    ),
    Decoder(
        name="kafka-quorum-state",
        decode=of_file(str(QUORUM_STATE), lambda path: there(quorum_word(path.parents[1]))),
        right=lambda: [b'{"leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,"data_version":0}'],
        refusals=(SaidNoError,),
        words=(*JSON_WORDS, b'"leaderId":', b"1e999", b"NaN"),
        memory_per_byte=400,
        cost=2,
    ),
    Decoder(
        name="kafka-metadata",
        decode=of_bytes(parse),
        right=_metadata_answer,
        refusals=(MalformedError,),
        memory_per_byte=200,
    ),
)
WHOLE_RUNS = (
    _detail("run-judged-logs", _judge(clean), cost=500),
    _detail("run-judged-objects", _judge(objects), cost=500),
)
"""What the details are read for: hundreds of times as long as to read them, so that the tests alone run it."""
