"""The decoders of histories that any harness may have recorded: each is read, and what was read is judged."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nemesis.formats.errors import HistoryError
from nemesis.formats.kafka_edn import kafka_events, write_edn
from nemesis.formats.reading import read_history_file
from nemesis.formats.recognise import Format
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model, ModelError
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.models.text_store import TextStore
from nemesis.pipeline.corpora.workloads import judge_workload, read_workload
from nemesis.verdict import Verdict
from tests.corruption.base import LOGS, clean
from tests.formats.histories import ALL_SAMPLES, Sample, parquet
from tests.formats.test_readers import ROWS
from tests.fuzz.decoder import Decoder, of_file

BUDGET = Budget(configurations=10_000, frontier=1_000)
MEMORY_BYTES = 16 << 20
MEMORY_PER_BYTE = 2_000
"""The judge has more for each operation than the reader."""
EDN_WORDS = (b"nil", b":ok", b":fail", b":info", b'"', b"[", b"]", b"{", b"}", b"#{", b"#_", b";", b"#a ", b"\\a", b"N")
JSON_WORDS = (b"null", b'"ok"', b'"type"', b'"', b"[", b"]", b"{", b"}", b":", b",", b"true", b'\\"')
WORDS = {
    Format.JSON: JSON_WORDS,
    Format.PARQUET: (),
}


def model_of(sample: Sample) -> Model:
    """The model that a sample is of."""
    if sample.format is Format.PORCUPINE_KV:
        return TextStore()
    return load_model(sample.model, **({"failed_cas_is_read": True} if sample.failed_cas_is_read else {}))


def _judged(known: Format | None, model: Model) -> Callable[[Path], None]:
    """Read a file as of this format, or as what it begins like, and judge it."""

    def read(path: Path) -> None:
        judgements = judge(read_history_file(path, format=known).operations(), model, BUDGET)
        assert all(isinstance(judgement.verdict, Verdict) for judgement in judgements)

    return read


def _of_sample(sample: Sample) -> Decoder:
    return Decoder(
        name=f"history-{sample.name.replace('.', '-')}",
        decode=of_file("history", _judged(sample.format, model_of(sample))),
        right=lambda: [sample.path.read_bytes()],
        refusals=(HistoryError, ModelError),
        words=WORDS.get(sample.format, EDN_WORDS),
        memory_bytes=MEMORY_BYTES,
        memory_per_byte=MEMORY_PER_BYTE,
        cost=20,
    )


def _recognised(path: Path) -> None:
    """Read a file as what it begins like."""
    read_history_file(path).operations()


def _samples() -> Sequence[bytes]:
    """Of each format one, and one that is compressed."""
    whole = [sample.path.read_bytes() for sample in ALL_SAMPLES]
    return [*whole, gzip.compress(whole[0], mtime=0)]


def _parquet() -> Sequence[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return [parquet(Path(folder), ROWS).read_bytes()]


def _kafka() -> Sequence[bytes]:
    """What was done last with one log in a run of this harness, as Jepsen's checker of Kafka workloads reads it."""
    own = [row for row in clean().history if row.get("topic_partition") == LOGS[0]][-USES:]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [_ABSENT | row for row in own]
        write_edn(kafka_events(rows, first_free=100), file)
        file.seek(0)
        return [file.read().encode()]


def _workload(path: Path) -> None:
    """Read a history of a Kafka workload and judge it."""
    history, operations = read_workload(path, Format.EDN)
    judge_workload("fuzzed", history, operations)


USES = 20
"""As many as there must be for one of each kind: what is read in a moment is changed a thousand times as often."""
_ABSENT: dict[str, Any] = dict.fromkeys(
    (
        *("value", "offset", "records", "high_watermark", "leader_epoch", "error", "node", "acks", "limited"),
        *("strict", "seek", "detail", "topic_partition"),
    )
)
DECODERS = (
    *map(_of_sample, ALL_SAMPLES),
    Decoder(
        name="history-recognised",
        decode=of_file("history", _recognised),
        right=_samples,
        refusals=(HistoryError,),
        words=(*EDN_WORDS, *JSON_WORDS),
        memory_bytes=MEMORY_BYTES,
        memory_per_byte=MEMORY_PER_BYTE,
        cost=20,
    ),
    Decoder(
        name="history-parquet",
        decode=of_file("history.parquet", _judged(Format.PARQUET, load_model("cas-register"))),
        right=_parquet,
        refusals=(HistoryError, ModelError),
        memory_bytes=MEMORY_BYTES,
        memory_per_byte=MEMORY_PER_BYTE,
        may_kill=True,
        cost=20,
    ),
    Decoder(
        name="history-kafka",
        decode=of_file("history.edn", _workload),
        right=_kafka,
        refusals=(HistoryError,),
        words=(*EDN_WORDS, b":send", b":poll", b":highwater", b":offset"),
        memory_bytes=MEMORY_BYTES,
        memory_per_byte=MEMORY_PER_BYTE,
        cost=50,
    ),
)
