"""What a file may mean in two ways, or in a way that is easily overlooked: told, or refused, and never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

import pytest

from nemesis.cli.exit import Exit
from nemesis.formats import edn as edn_module
from nemesis.formats import json_lines
from nemesis.formats.errors import HistoryError
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.reading import read_history_file
from nemesis.formats.recognise import Format
from nemesis.linearizability.model import Model
from tests.formats.histories import written
from tests.formats.test_check_file import code_and_error, run

Asked = tuple[str, object, object]
STALE = '{"process":0,"type":"invoke","f":"read","value":null}\n'


class Needy(Model):
    """A model that cannot be made of nothing, and is abstract besides."""

    def __init__(self, needed: int) -> None:
        self.needed = needed


def events(*asked: Asked) -> str:
    """JSON Lines of operations by process 0, one after another: f, what is asked, what comes back."""
    lines = []
    for f, argument, result in asked:
        lines.append({"process": 0, "type": "invoke", "f": f, "value": argument})
        lines.append({"process": 0, "type": "ok", "f": f, "value": result})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("model", "asked", "code"),
    [
        ("counter", [("increment", 1, 1), ("increment", 1, 1)], Exit.INVALID),
        ("kv", [("increment", 1, 1), ("increment", 1, 1)], Exit.INVALID),
        ("counter", [("increment", 1, 1), ("increment", 1, 2)], Exit.VALID),
        ("counter", [("increment", 1, None), ("increment", 1, None), ("read", None, 2)], Exit.VALID),
        ("log", [("append", 1, 1)], Exit.INVALID),
        ("log", [("append", "a", "a")], Exit.VALID),
        ("log", [("append", -1, -1)], Exit.VALID),
        ("log", [("append", "a", 0), ("fetch", [0, 10, False], [])], Exit.INVALID),
        ("log", [("append", "a", 0), ("fetch", [0, 10, True], [])], Exit.VALID),
        ("log", [("append", "a", None), ("fetch", [1, 10], [])], Exit.VALID),
        ("cas-register", [("write", 5, 5), ("cas", [5, 2], True)], Exit.VALID),
        ("kv", [("get-versioned", None, None)], Exit.VALID),
    ],
)
def test_what_a_completion_says(model: str, asked: list[Asked], code: Exit, tmp_path: Path) -> None:
    """Numbers that come back are results, be they equal to what was asked; false is false."""
    assert run("check", str(written(tmp_path, events(*asked))), "--model", model)[0] == code


@pytest.mark.parametrize(
    ("model", "asked", "what"),
    [
        ("cas-register", [("cas", [1, 2], False)], "history:2: a compare-and-set succeeded with false"),
        ("kv", [("cas-version", [0, 2], False)], "history:2: a compare-and-set succeeded with false"),
        ("log", [("append", [1, 2], 0), ("fetch", [0, 10], [[1, 2]])], "line 3: fetch"),
        ("log", [("fetch", [0, 10, "no"], [])], "line 1: fetch"),
        ("queue", [("enqueue", None, None)], "line 1: nil was enqueued"),
        ("set", [("add", "a", "a"), ("read", None, "a")], "line 3: a set was read as"),
        ("multi-register", [("txn", [["w", "x", 1]], [])], "line 1: txn of"),
    ],
)
def test_a_value_of_the_wrong_shape_ends_the_command(
    model: str,
    asked: list[Asked],
    what: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line is named, and no verdict given."""
    code, error = code_and_error(capsys, "check", str(written(tmp_path, events(*asked))), "--model", model)

    assert (code, what in error) == (Exit.BAD_ARGUMENTS, True), error


@pytest.mark.parametrize(
    ("f", "asked", "told"), [("launch", 1, None), ("cas", 5, None), ("cas-version", [7, "b"], "a")]
)
def test_failed_operations_must_fit_the_model_as_well(
    f: str, asked: object, told: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What failed is no operation of another object either."""
    text = events((f, asked, told)).replace('"ok"', '"fail"')

    assert code_and_error(capsys, "check", str(written(tmp_path, text)), "--model", "kv")[0] == Exit.BAD_ARGUMENTS


LOGGED = "INFO  jepsen.util - 0\t:invoke\t:write\t1\n"
BARE = "0\t:invoke\t:write\t1\n0\t:ok\t:write\t1\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOGGED + "INFO  jepsen.util - 1\tinvoke\t:read\tnil\n", 2),
        (LOGGED + 'INFO  jepsen.util - "c1"\t:invoke\t:read\tnil\n', 2),
        (LOGGED + "INFO  jepsen.util - [0 1]\t:invoke\t:read\tnil\n", 2),
        (LOGGED + "INFO  jepsen.util - 1\t:invoke\tread\tnil\n", 2),
        (LOGGED + "INFO  jepsen.util - 1 :invoke :read\n", 2),
        (LOGGED + " 1\t:invoke\t:read\tnil\n", 2),
        (BARE + " 1\t:invoke\t:read\tnil\n", 3),
        (BARE + "1\t:invoke\tread\tnil\n", 3),
        (BARE + "2 :ok\n", 3),
        (BARE + "and so on\n", 3),
    ],
)
def test_no_line_of_a_log_is_dropped_that_may_be_an_operation(text: str, line: int, tmp_path: Path) -> None:
    """A line that is not understood may be the one that convicts: it is refused, with its number."""
    with pytest.raises(HistoryError) as caught:
        read_history_file(written(tmp_path, text), format=Format.JEPSEN_LOG)

    assert caught.value.line == line


def test_what_is_no_operation_in_a_log_is_skipped(tmp_path: Path) -> None:
    """Words of others, and what the logger says otherwise, are no operations."""
    others = "\n  at java.lang.Thread.run\nINFO  jepsen.util - Retrying in 5 ms\nINFO  jepsen.core - Analyzing...\n"

    assert len(read_history_file(written(tmp_path, "hello: all is ok\n" + LOGGED + others)).events) == 1


def test_a_long_line_of_a_log_takes_no_time(tmp_path: Path) -> None:
    """The logger's words a thousand times on one line are looked at once each."""
    path = written(tmp_path, LOGGED + "jepsen.util-" * 20_000 + "\n")
    began = process_time()

    assert len(read_history_file(path, format=Format.JEPSEN_LOG).events) == 1
    assert process_time() - began < 1


def test_keys_that_were_found_in_values_are_told(tmp_path: Path) -> None:
    """Whoever did not ask for keys is told that there are some, on the terminal and in the file."""
    path = written(tmp_path, events(("write", [1, 5], [1, 5]), ("read", [1, None], [1, 5])))
    target = tmp_path / "result.json"

    code, said = run("check", str(path), "--model", "register", "--output", str(target))

    assert code == Exit.VALID
    assert "values were taken for [key value] pairs; --key-pairs no denies it" in said.splitlines()
    assert json.loads(target.read_text(encoding="utf-8"))["keys_from_values"] is True


@pytest.mark.parametrize(
    ("asked", "is_keyed"),
    [
        ([("write", [1, 5], None), ("read", [1, None], [1, 5])], True),
        ([("write", [1, 5], [1, 5]), ("delete", [1, None], [1, None])], True),
        ([("cas", [[1, 2], [3, 4]], [[1, 2], [3, 4]]), ("read", None, [3, 4])], False),
        ([("write", [1, None], [1, None]), ("write", [2, None], [2, None])], False),
        ([("write", [1, 2], [1, 2]), ("cas", [[1, 2], [3, 4]], [[1, 2], [3, 4]])], None),
        ([("write", [1, 5], [1, 5]), ("write", 6, 6), ("read", [1, None], [1, 5])], None),
        ([("read", None, [1, 5]), ("read", [1, None], [1, 5])], None),
        ([("write", [1, 5], [1, 5]), ("read", [1], [1, 5])], None),
    ],
)
def test_keys_need_a_proof(asked: list[Asked], is_keyed: bool | None, tmp_path: Path) -> None:
    """A read of ``[key nil]`` proves keys and a plain one denies them; with both or neither, the file is refused."""
    path = written(tmp_path, events(*asked))
    if is_keyed is None:
        with pytest.raises(HistoryError, match="--key-pairs"):
            read_history_file(path)
    else:
        assert read_history_file(path).has_keys_from_values is is_keyed
        assert not read_history_file(path, key_pairs=KeyPairs.NO).has_keys_from_values


def test_too_many_values_in_one_event_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes of compressed brackets do not become a gigabyte; several events may have as much together."""
    monkeypatch.setattr(edn_module, "VALUES_MAX", 100)
    event = "{:process 0, :type :invoke, :f :write, :value [" + "[] " * 80 + "]}\n"
    event += event.replace(":invoke", ":ok")

    assert len(read_history_file(written(tmp_path, event)).events) == 2
    with pytest.raises(HistoryError, match="VALUES_MAX"):
        read_history_file(written(tmp_path, event.replace("[] ", "[] [] ")))


def test_an_event_of_an_array_has_the_limit_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one event may take as much memory as a whole array may, and long ones are read."""
    monkeypatch.setattr(json_lines, "LINE_BYTES_MAX", 20_000)
    text = '[{"process":0,"type":"invoke","f":"write","value":[%s]},\n' + STALE.replace("0", "1", 1) + "]"

    assert len(read_history_file(written(tmp_path, text % ",".join("1" * 6000))).events) == 2
    with pytest.raises(HistoryError, match="LINE_BYTES_MAX"):
        read_history_file(written(tmp_path, text % ",".join("1" * 11_000)))


@pytest.mark.parametrize("model", ["nemesis.linearizability.model:Model", "tests.formats.test_doubtful:Needy"])
def test_a_model_that_cannot_be_made_is_a_bad_argument(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An abstract class, and one that needs arguments, are named with the reason."""
    code, error = code_and_error(capsys, "check", str(written(tmp_path, STALE)), "--model", model)

    assert (code, f"{model} cannot be made" in error) == (Exit.BAD_ARGUMENTS, True), error


def test_the_output_is_checked_before_anything_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result that cannot be written is not computed: the path is refused before the file is even read."""
    where = ["--output", str(tmp_path / "nowhere" / "x")]

    code, error = code_and_error(capsys, "check", str(written(tmp_path, "")), "--model", "register", *where)

    assert (code, "No such file or directory" in error) == (Exit.BAD_ARGUMENTS, True), error


def numbered(*indexes: int | None) -> str:
    """A write, a read of it by another, and a read of what nobody here wrote; lines with these indexes."""
    lines = [(0, "write", "1"), (0, "write", "1"), (1, "read", "null"), (1, "read", "1"), (1, "read", "null")]
    lines.append((1, "read", "7"))
    return "".join(
        json.dumps({"process": process, "type": ("invoke", "ok")[place % 2], "f": f, "value": json.loads(value)})[:-1]
        + ("" if index is None else f', "index": {index}')
        + "}\n"
        for place, ((process, f, value), index) in enumerate(zip(lines, indexes, strict=True))
    )


@pytest.mark.parametrize(
    ("indexes", "missing"),
    [
        ((0, 1, 2, 3, 4, 5), 0),
        ((1, 2, 3, 4, 5, 6), 0),
        ((None,) * 6, 0),
        ((0, 1, None, None, 4, 5), 0),
        ((0, 1, 4, 5, 6, 7), 2),
        ((2, 3, 4, 5, 6, 7), 1),
        ((0, 1, None, None, 5, 6), 1),
    ],
)
@pytest.mark.parametrize("engine", ["one", "many"])
def test_what_lines_that_are_missing_could_explain_is_undecided(
    tmp_path: Path, indexes: tuple[int | None, ...], missing: int, engine: str
) -> None:
    """Where indexes tell that lines are missing, what nobody wrote convicts nobody, and the reason says so."""
    path = written(tmp_path, numbered(*indexes)).rename(tmp_path / "history.jsonl")
    asked = [str(path)] if engine == "one" else [str(tmp_path), "--engine", "local"]
    code, said = run("check", *asked, "--model", "register")
    assert code == (Exit.UNKNOWN if missing else Exit.INVALID), said
    assert (f"{missing} lines are missing by the indexes" in said) is bool(missing)
    assert read_history_file(path).lines_missing == missing


def test_lines_of_others_are_no_gap(tmp_path: Path) -> None:
    """What is there of the nemesis has its indexes, though nobody judges it."""
    first, *rest = numbered(0, 2, 3, 4, 5, 6).splitlines(keepends=True)
    other = '{"process": "nemesis", "type": "info", "f": "kill", "value": null, "index": 1}\n'
    path = written(tmp_path, "".join([first, other, *rest]))
    assert read_history_file(path).lines_missing == 0


@pytest.mark.parametrize(("shift", "code"), [(0, Exit.INVALID), (2, Exit.UNKNOWN)])
def test_a_kafka_workload_is_doubted_alike(tmp_path: Path, shift: int, code: Exit) -> None:
    """A poll of a value that no line sent convicts only where no line is missing by the indexes."""
    send, poll = [["send", "a", 1]], [["poll"]]
    values = [send, [["send", "a", [0, 1]]], poll, [["poll", {"a": [[0, 1], [1, 9]]}]]]
    lines = [
        {"index": place + (shift if place > 1 else 0), "process": place // 2, "type": ("invoke", "ok")[place % 2]}
        | {"f": "send" if place < 2 else "poll", "value": value}
        for place, value in enumerate(values)
    ]
    path = written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines))
    found, said = run("check", str(path), "--model", "kafka")
    assert found == code, said
    assert ("2 lines are missing by the indexes" in said) is bool(shift)
