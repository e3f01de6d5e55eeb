"""Files that mean harm, or are merely broken: each ends in the one error, with the line and what to do, and soon."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from nemesis.formats import events as events_module
from nemesis.formats.errors import HistoryError
from nemesis.formats.limits import LINE_BYTES_MAX, NAME_CHARS_MAX, NESTING_MAX, STRING_CHARS_MAX, TIME_MAX
from nemesis.formats.reading import read_history_file
from nemesis.formats.recognise import Format
from tests.formats.histories import SAMPLES, parquet, written

READ = '{"process":0,"type":"invoke","f":"read","value":null}\n'


def json_event(**fields: str) -> str:
    """One event as a line of JSON; ``fields`` are JSON texts."""
    known = {"process": "0", "type": '"invoke"', "f": '"read"', "value": "null"} | fields
    return "{" + ", ".join(f'"{name}": {text}' for name, text in known.items()) + "}\n"


def edn_event(**fields: str) -> str:
    """One event as a line of EDN; ``fields`` are EDN texts."""
    known = {"process": "0", "type": ":invoke", "f": ":read", "value": "nil"} | fields
    return "{" + ", ".join(f":{name} {text}" for name, text in known.items()) + "}\n"


def log_event(text: str) -> str:
    """One line of a Jepsen log."""
    return f"INFO  jepsen.util - {text}\n"


LOGGED = log_event("0\t:invoke\t:read\tnil")
Case = tuple[str, str | bytes, Format, int | None, str]
CASES: tuple[Case, ...] = (
    # Nothing in it.
    ("json without a line", "\n\n", Format.JSON, None, "no operation of a client"),
    ("edn without a form", "; nothing\n", Format.EDN, None, "no operation of a client"),
    ("an empty array", "[]", Format.JSON, None, "no operation of a client"),
    ("only the nemesis", edn_event(process=":nemesis"), Format.EDN, None, "no operation of a client"),
    ("a log of other things", "hello\n", Format.JEPSEN_LOG, 1, "is none"),
    # Cut off.
    ("json cut off", READ + READ[:20], Format.JSON, 2, "cut off"),
    ("an array cut off", "[" + READ, Format.JSON, 2, "cut off"),
    ("an array cut within", "[" + READ[:-5], Format.JSON, 1, "no JSON"),
    ("edn cut off", edn_event() + edn_event()[:25], Format.EDN, 2, "cut off"),
    ("a vector cut off", "[" + edn_event(), Format.EDN, 1, "cut off"),
    ("a log cut off", LOGGED + log_event("0\t:ok\t:read\t12")[:-2], Format.JEPSEN_LOG, 2, "no end"),
    ("a log cut within", LOGGED + "INFO  jepsen.util - 0\t:ok", Format.JEPSEN_LOG, 2, "is none"),
    # Not what it says.
    ("not utf-8", b'{"process": "\xff"}\n', Format.JSON, 1, "0xff is not UTF-8"),
    ("not utf-8 in edn", edn_event().encode() + b'{:f "\xe4"}', Format.EDN, 2, "0xe4 is not UTF-8"),
    ("half a character at the end", edn_event().encode() + b"\xe2\x82", Format.EDN, 2, "not UTF-8"),
    ("zeros", b"\0" * 100, Format.EDN, 1, "no name|neither|no EDN"),
    ("zeros in json", b"\0" * 100, Format.JSON, 1, "no JSON"),
    ("no map", "[[1]]", Format.EDN, 1, "is no map"),
    ("no object", "7\n", Format.JSON, 1, "is no object"),
    ("two objects on a line", READ[:-1] + READ, Format.JSON, 1, "follows the object"),
    ("something behind an array", "[" + READ + "] 7", Format.JSON, 2, "follows the end"),
    ("no comma", "[" + READ + READ + "]", Format.JSON, 2, "between two objects"),
    ("no parquet", "PAR1 or not", Format.PARQUET, None, "no Parquet"),
    ("damaged compression", gzip.compress(READ.encode() * 99)[:-20], Format.JSON, None, "cut off or damaged"),
    ("wrong compression", gzip.compress(READ.encode())[:12] + b"\xff" * 50, Format.JSON, None, "damaged|cannot"),
    # Fields.
    ("a field twice", '{"f": "read", "f": "write"}\n', Format.JSON, 1, "twice"),
    ("a key twice", "{:f :read :f :write}", Format.EDN, 1, "twice"),
    ("a field twice by two names", '{:f :read "f" :write}', Format.EDN, 1, "twice"),
    ("a field of a strange name", "{[1] 2}", Format.EDN, 1, "a field is named"),
    ("no process", edn_event(process="nil"), Format.EDN, 1, "no process"),
    ("no type", '{"process":0,"f":"read"}', Format.JSON, 1, "no type"),
    ("an unknown type", edn_event(type=":okay"), Format.EDN, 1, "type 'okay'"),
    ("an unknown type in a log", log_event("0\t:okay\t:read\tnil"), Format.JEPSEN_LOG, 1, "type 'okay'"),
    ("a type in capitals", json_event(type='"OK"'), Format.JSON, 1, "type 'OK'"),
    ("a number as type", json_event(type="1"), Format.JSON, 1, "the type is '1'"),
    ("a list as f", json_event(f="[1]"), Format.JSON, 1, "the f is"),
    ("an empty f", json_event(f='""'), Format.JSON, 1, "the f is"),
    ("a long f", json_event(f=f'"{"x" * (NAME_CHARS_MAX + 1)}"'), Format.JSON, 1, "NAME_CHARS_MAX"),
    ("a negative process", json_event(process="-3"), Format.JSON, 1, "process -3"),
    ("a truth as process", json_event(process="true"), Format.JSON, 1, "the process is"),
    ("a fraction as process", json_event(process="1.5"), Format.JSON, 1, "the process is"),
    ("a log without a value", log_event("0\t:invoke\t:read"), Format.JEPSEN_LOG, 1, "is not f, value"),
    ("a log with too much", log_event("0\t:invoke\t:read nil 1 2"), Format.JEPSEN_LOG, 1, "is not f, value"),
    ("a log with half a list", log_event("0\t:invoke\t:cas [1 "), Format.JEPSEN_LOG, 1, "has no end"),
    # Numbers.
    ("a negative time", json_event(time="-1"), Format.JSON, 1, "the time is '-1'"),
    ("a gigantic time", json_event(time=str(TIME_MAX + 1)), Format.JSON, 1, "TIME_MAX"),
    ("a gigantic time in edn", edn_event(time=f"{TIME_MAX + 1}N"), Format.EDN, 1, "TIME_MAX"),
    ("a time with a fraction", json_event(time="1.5"), Format.JSON, 1, "the time is '1.5'"),
    ("a time that is no number", json_event(time="NaN"), Format.JSON, 1, "NaN stands where"),
    ("an infinite time", json_event(time="Infinity"), Format.JSON, 1, "Infinity stands where"),
    ("a value out of range", json_event(value="1e999"), Format.JSON, 1, "inf where a number"),
    ("no number in edn", edn_event(value="##NaN"), Format.EDN, 1, "no EDN|neither"),
    ("a number of a million digits", json_event(value="9" * 1_000_000), Format.JSON, 1, "DIGITS_MAX"),
    ("a number of ten million digits", edn_event(value="9" * 10_000_000), Format.EDN, 1, "STRING_CHARS_MAX"),
    ("an index twice", json_event(index="3") + json_event(index="3"), Format.JSON, 2, "index 3 follows index 3"),
    ("an index that goes back", json_event(index="3") + json_event(index="2"), Format.JSON, 2, "follows index 3"),
    ("a negative index", json_event(index="-1"), Format.JSON, 1, "the index is '-1'"),
    # Size and depth.
    ("a text of ten megabytes", json_event(value=f'"{"x" * 10_000_000}"'), Format.JSON, 1, "STRING_CHARS_MAX"),
    ("a text of ten megabytes in edn", edn_event(value=f'"{"x" * 10_000_000}"'), Format.EDN, 1, "STRING_CHARS_MAX"),
    ("a text without an end in edn", '{:f "' + "x" * 3_000_000, Format.EDN, 1, "STRING_CHARS_MAX"),
    ("a comment without an end", ";" * 3_000_000, Format.EDN, 1, "STRING_CHARS_MAX"),
    ("a line without an end", "x" * (LINE_BYTES_MAX + 1), Format.JSON, 1, "LINE_BYTES_MAX"),
    ("deep lists", json_event(value="[" * 90 + "]" * 90), Format.JSON, 1, "NESTING_MAX"),
    ("very deep lists", json_event(value="[" * 500_000 + "]" * 500_000), Format.JSON, 1, "too deep"),
    ("a deep array", "[" + json_event(value="[" * 100_000 + "]" * 100_000) + "]", Format.JSON, 1, "too deep"),
    ("deep lists in edn", edn_event(value="[" * 500_000), Format.EDN, 1, "NESTING_MAX"),
    ("deep objects", json_event(value='{"a":' * 90 + "1" + "}" * 90), Format.JSON, 1, "NESTING_MAX"),
    ("deep lists in a log", log_event("0\t:invoke\t:read\t" + "[" * 90), Format.JEPSEN_LOG, 1, "NESTING_MAX"),
    ("half a surrogate pair", json_event(value='"\\ud800"'), Format.JSON, 1, "surrogate"),
    ("a control character", json_event(value='"\x1b[2J"'), Format.JSON, 1, "no JSON"),
    # Formats of one workload.
    ("a queue as a store", edn_event(f=":dequeue", key='"a"'), Format.PORCUPINE_KV, 1, "none of a key-value store"),
    ("a store without keys", edn_event(f=":get"), Format.PORCUPINE_KV, 1, "no key"),
    ("a put of a number", edn_event(f=":put", key='"a"', value="1"), Format.PORCUPINE_KV, 1, "as a text"),
    ("maelstrom with another workload", edn_event(f=":broadcast"), Format.MAELSTROM, 1, "none of lin-kv"),
    ("maelstrom without keys", edn_event(), Format.MAELSTROM, 1, "no pair of a key and a value"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "known", "line", "what"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_hostile_file_is_refused(
    content: str | bytes, known: Format, line: int | None, what: str, tmp_path: Path
) -> None:
    """The error names the file, the line and the reason, says what to do, and fits on a terminal."""
    path = written(tmp_path, content)

    with pytest.raises(HistoryError, match=what) as caught:
        read_history_file(path, format=known)

    assert caught.value.line == line
    assert caught.value.remedy
    assert str(caught.value).startswith(str(path) if line is None else f"{path}:{line}: ")
    assert len(str(caught.value)) < len(str(path)) + 400
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"; only a comment", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x7fELF\x02\x01", "begins with"),
        (b"<html></html>", "begins with"),
        (b"hello world\n", "begins with"),
        (b"7\n", "begins with"),
        (b"\x89PNG\r\n", "begins with"),
    ],
)
def test_what_is_no_history_is_not_guessed_at(content: bytes, what: str, tmp_path: Path) -> None:
    """A file that begins like no format is refused before a reader sees it."""
    with pytest.raises(HistoryError, match=what):
        read_history_file(written(tmp_path, content))


def test_compressed_zeros_are_not_unpacked_in_memory(tmp_path: Path) -> None:
    """A small file that becomes a large one is given up at the first line that is too long."""
    bomb = gzip.compress(b"{" + b" " * (LINE_BYTES_MAX + 100))

    with pytest.raises(HistoryError, match="LINE_BYTES_MAX"):
        read_history_file(written(tmp_path, bomb), format=Format.JSON)


def test_too_many_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of events has a limit too, that of others' events included."""
    monkeypatch.setattr(events_module, "EVENTS_MAX", 3)

    with pytest.raises(HistoryError, match="EVENTS_MAX"):
        read_history_file(written(tmp_path, edn_event() + edn_event(process=":nemesis") * 3))


@pytest.mark.parametrize(
    ("rows", "row", "what"),
    [
        ([], None, "no column|no operation"),
        ([{"process": 0, "f": "read"}], None, "no column type, only f, process"),
        ([{"process": 0, "type": "ok", "f": None}], 1, "no f"),
        ([{"process": -5, "type": "ok", "f": "read"}], 1, "process -5"),
        ([{"process": 0, "type": "invoke", "f": "read", "value": "[1"}], 1, "no JSON"),
        ([{"process": 0, "type": "invoke", "f": "read", "value": "[1] 2"}], 1, "follows the value"),
        ([{"process": 0, "type": "invoke", "f": "read", "value": float("nan")}], 1, "nan where a number"),
        ([{"process": 0, "type": "invoke", "f": "read", "time": -1}], 1, "the time is"),
        ([{"process": 0, "type": "invoke", "f": "read", "value": b"\xff"}], 1, "a value of type bytes"),
    ],
)
def test_a_parquet_of_something_else_is_refused(
    rows: list[dict[str, object]], row: int | None, what: str, tmp_path: Path
) -> None:
    """Columns and values that are none of a history are named, with the row."""
    with pytest.raises(HistoryError, match=what) as caught:
        read_history_file(parquet(tmp_path, rows))

    assert caught.value.line == row


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """Which of them is meant nobody knows."""
    schema = pa.schema([("process", pa.int64()), ("type", pa.string()), ("f", pa.string()), ("f", pa.string())])
    table = pa.Table.from_arrays([pa.array([0]), pa.array(["ok"]), pa.array(["a"]), pa.array(["b"])], schema=schema)
    path = tmp_path / "history.parquet"
    pa.parquet.write_table(table, path)

    with pytest.raises(HistoryError, match="one name"):
        read_history_file(path)


def test_the_deepest_value_that_is_allowed_is_read(tmp_path: Path) -> None:
    """The limits themselves are within the limits."""
    deep = json_event(value="[" * NESTING_MAX + "]" * NESTING_MAX, time=str(TIME_MAX))
    long = json_event(process="1", value=f'"{"x" * STRING_CHARS_MAX}"')

    assert len(read_history_file(written(tmp_path, deep + long)).events) == 2


def test_a_folder_is_no_file() -> None:
    """What cannot be opened says so."""
    with pytest.raises(HistoryError, match="cannot be read"):
        read_history_file(SAMPLES)


@pytest.mark.parametrize("known", [None, *Format])
def test_a_pipe_is_refused(known: Format | None, tmp_path: Path) -> None:
    """What has no end is not waited for, in no format."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(HistoryError, match="this is no file with an end"):
        read_history_file(tmp_path / "pipe.jsonl", format=known)
