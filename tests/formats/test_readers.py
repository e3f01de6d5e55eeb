"""Each format is read as what its writer meant: the same operations from all of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nemesis.formats.keyed import KeyPairs
from nemesis.formats.reading import ReadHistory, read_history_file
from nemesis.formats.recognise import Format, recognised
from nemesis.formats.values import Keyword, Truth
from nemesis.linearizability.operations import Operation, Outcome
from tests.formats.histories import ALL_SAMPLES, SAMPLES, Sample, parquet, written


def read(name: str, **options: Any) -> ReadHistory:
    """A sample."""
    return read_history_file(SAMPLES / name, **options)


def told(operations: Iterable[Operation]) -> list[tuple[Any, ...]]:
    """What matters of operations, short enough for a table."""
    return [(op.process, op.f, op.key, op.argument, op.result, op.outcome, op.line) for op in operations]


def test_edn_with_one_map_a_line() -> None:
    """Events of the nemesis are left out, and an info has no end."""
    history = read("register.edn")

    assert (history.format, history.skipped) == (Format.EDN, 1)
    assert told(history.operations()) == [
        (0, "write", None, 1, None, Outcome.OK, 1),
        (1, "cas", None, (1, 2), None, Outcome.INFO, 4),
        (0, "read", None, None, 2, Outcome.OK, 6),
    ]
    assert [(op.invoked, op.returned) for op in history.operations()] == [(0, 1), (2, None), (4, 5)]


def test_edn_as_one_vector_of_records() -> None:
    """Tags of records, discarded forms and instants do not disturb, and the keys are found in the values."""
    assert told(read("records.edn").operations()) == [
        (0, "write", 7, 1, None, Outcome.OK, 2),
        (0, "read", 7, None, None, Outcome.OK, 5),
    ]


def test_a_log_of_jepsen() -> None:
    """Other lines are skipped, ``:timed-out`` is no value, and both ways of logging are read."""
    history = read("register.log")

    assert history.skipped == 1
    assert told(history.operations()) == [
        (0, "write", None, 3, None, Outcome.OK, 2),
        (1, "cas", None, (3, 4), None, Outcome.INFO, 3),
        (2, "read", None, None, None, Outcome.FAIL, 7),
        (3, "read", None, None, 4, Outcome.OK, 9),
    ]
    assert history.events[3].error == Keyword("timed-out")


def test_a_history_txt_of_jepsen() -> None:
    """The bare lines of a history.txt are read, errors included."""
    assert told(read("history.txt").operations()) == [
        (0, "read", 5, None, None, Outcome.OK, 1),
        (1, "cas", 5, (1, 2), None, Outcome.FAIL, 3),
    ]


def test_json_lines() -> None:
    """The records of a fetch come out of its map, and that it may be stale goes into what was asked."""
    history = read("log.jsonl")

    assert told(history.operations()) == [
        (0, "append", "a", 7, (0, 7), Outcome.OK, 1),
        (1, "fetch", "a", (0, 10, True), (), Outcome.OK, 3),
        (1, "fetch", "a", (0, 10), (7,), Outcome.OK, 5),
    ]
    assert history.events[2].extra == {"stale": Truth.TRUE}
    assert history.events[0].time == 1000


def test_a_json_array() -> None:
    """An array is read object by object, each with the line on which it begins."""
    assert told(read("transactions.json").operations()) == [
        (0, "txn", None, (("w", "x", 1),), (("w", "x", 1),), Outcome.OK, 2),
        (1, "txn", None, (("r", "x", None),), (("r", "x", 1),), Outcome.OK, 4),
    ]


def test_porcupines_store() -> None:
    """The key stands beside the value, and values are texts with their escapes undone."""
    assert told(read("store.porcupine").operations()) == [
        (0, "get", "5", None, "", Outcome.OK, 1),
        (1, "append", "5", "x 1 0 y", None, Outcome.OK, 2),
        (0, "put", "6", 'a "b"', None, Outcome.OK, 5),
        (1, "get", "5", None, "x 1 0 y", Outcome.OK, 7),
        (0, "append", "6", "!", None, Outcome.OK, 9),
        (0, "get", "6", None, 'a "b"!', Outcome.OK, 11),
    ]


def test_maelstroms_store() -> None:
    """A compare-and-set that failed for want of a leader is no evidence, and is not there."""
    assert told(read("maelstrom.edn", format=Format.MAELSTROM).operations()) == [
        (0, "write", 0, 3, None, Outcome.OK, 1),
        (1, "cas", 0, (1, 4), None, Outcome.FAIL, 3),
        (2, "read", 1, None, None, Outcome.FAIL, 7),
        (2, "read", 0, None, 3, Outcome.OK, 9),
    ]


ROWS = [
    {"index": 0, "process": 0, "type": "invoke", "f": "cas", "key": "a", "value": "[1, 2]", "time": 10},
    {"index": 1, "process": 0, "type": "ok", "f": "cas", "key": "a", "value": "[1, 2]", "time": 20},
    {"index": 2, "process": 1, "type": "invoke", "f": "read", "key": "a", "value": None, "time": 30},
    {"index": 3, "process": 1, "type": "ok", "f": "read", "key": "a", "value": '"x"', "time": 40},
]


def test_parquet_with_json_values(tmp_path: Path) -> None:
    """A column of texts holds JSON, and a missing value is nil."""
    history = read_history_file(parquet(tmp_path, ROWS))

    assert history.format is Format.PARQUET
    assert told(history.operations()) == [
        (0, "cas", "a", (1, 2), None, Outcome.OK, 1),
        (1, "read", "a", None, "x", Outcome.OK, 3),
    ]


def test_parquet_with_typed_values(tmp_path: Path) -> None:
    """A column of another type holds the values themselves."""
    rows = [
        {"process": 0, "type": "invoke", "f": "read", "value": None},
        {"process": 0, "type": "ok", "f": "read", "value": [4, 5]},
    ]
    schema = pa.schema(
        [("process", pa.int32()), ("type", pa.string()), ("f", pa.string()), ("value", pa.list_(pa.int64()))]
    )

    assert told(read_history_file(parquet(tmp_path, rows, schema)).operations()) == [
        (0, "read", None, None, (4, 5), Outcome.OK, 1)
    ]


@pytest.mark.parametrize("sample", ALL_SAMPLES, ids=lambda sample: sample.name)
def test_every_sample_is_recognised(sample: Sample) -> None:
    """The first bytes tell the format; Maelstrom's is that of any EDN."""
    known = Format.EDN if sample.format is Format.MAELSTROM else sample.format

    assert recognised(sample.path) is known


@pytest.mark.parametrize("sample", ALL_SAMPLES, ids=lambda sample: sample.name)
def test_compression_windows_and_byte_order_marks_do_not_matter(sample: Sample, tmp_path: Path) -> None:
    """A file that is compressed, has lines that end as on Windows, or begins with a mark is read as the file itself."""
    content = sample.path.read_bytes()
    expected = told(read_history_file(sample.path, format=sample.format).operations())
    variants = [gzip.compress(content), content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content]

    for variant in variants:
        path = written(tmp_path, variant)
        assert recognised(path) is recognised(sample.path)
        assert told(read_history_file(path, format=sample.format).operations()) == expected


PAIRED = [
    # Keys are there: a read asks with [key nil].
    ('{"process":0,"type":"invoke","f":"read","value":[1,null]}', True),
    # Pairs for other reasons.
    ('{"process":0,"type":"invoke","f":"cas","value":[1,2]}', False),
    ('{"process":0,"type":"invoke","f":"fetch","value":[1,null]}', False),
    ('{"process":0,"type":"invoke","f":"write","value":[1,0]}', False),
    ('{"process":0,"type":"invoke","f":"read","value":null}', False),
    ('{"process":0,"type":"invoke","f":"read","key":7,"value":[1,null]}', False),
]


@pytest.mark.parametrize(("line", "are_keys"), PAIRED)
def test_keys_in_values_are_told_from_other_pairs(line: str, are_keys: bool, tmp_path: Path) -> None:
    """Without being asked, a pair is a key and a value only where nothing else writes one."""
    [operation] = read_history_file(written(tmp_path, line)).operations()

    assert (operation.key == 1) is are_keys


def test_keys_in_values_can_be_forced_or_forbidden(tmp_path: Path) -> None:
    """What was asked for outranks how the values look."""
    write = '{"process":0,"type":"invoke","f":"write","value":[0,1]}'
    read_ = '{"process":0,"type":"invoke","f":"read","value":[0,null]}'

    [forced] = read_history_file(written(tmp_path, write), key_pairs=KeyPairs.YES).operations()
    [forbidden] = read_history_file(written(tmp_path, read_), key_pairs=KeyPairs.NO).operations()

    assert (forced.key, forced.argument) == (0, 1)
    assert (forbidden.key, forbidden.argument) == (None, (0, None))
