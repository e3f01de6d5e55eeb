"""The history of a Kafka workload as the columns that the checks of logs take.

Owns what the operations of such a workload mean: ``send``, ``poll`` and ``txn`` of micro-operations ``[send k v]`` and
``[poll]``, ``assign`` and ``subscribe`` of keys, ``crash``. A key is a topic-partition. What a consumer is expected to
read next is forgotten of a key that an assign or subscribe takes from it, and of all keys where it seeks to the start
or where an assign follows a subscribe: the group may have moved it.
Whatever else a history has, such as ``debug-topic-partitions``, is nobody's reading or writing. An exported run of this
harness tells of each of its operations what Jepsen has no word for (``kafka_edn``), and that is believed. Source:
``jepsen.tests.kafka``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from nemesis.checks.schemas import MICRO_OPERATION_SCHEMA
from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.formats.kafka_marks import MARKS, Pair, pairs_of, row_of_marks
from nemesis.formats.values import Keyword, MapValue, Tagged, Truth
from nemesis.history.events import APPEND, POLL, EventType
from nemesis.linearizability.operations import Value

RUN_ID = "history"
OFFSET_MAX = 2**63 - 2
"""The greatest offset: the one behind it must fit 64 bits."""
_VALUE_MIN, _VALUE_MAX = -(2**63), 2**63 - 1
_SEND, _POLL = "send", "poll"
_MICRO = (_SEND, _POLL, "txn")
_ASSIGN, _SUBSCRIBE = "assign", "subscribe"
_LENGTHS: Mapping[Value, tuple[int, ...]] = {_SEND: (3,), _POLL: (1, 2)}

BATCH_ROWS = 1_000
"""So many operations are there as dictionaries at a time."""

Row = dict[str, Any]


def micro_operations(events: Sequence[Event], path: Path) -> pa.Table:
    """The operations as ``MICRO_OPERATION_SCHEMA``; their indexes are those of the events, or else their places.

    Raises HistoryError for what no Kafka workload writes.
    """
    rows = _rows(events, path)
    batches = [
        pa.RecordBatch.from_pylist(batch, schema=MICRO_OPERATION_SCHEMA)
        for batch in iter(lambda: list(islice(rows, BATCH_ROWS)), [])
    ]
    return pa.Table.from_batches(batches, schema=MICRO_OPERATION_SCHEMA)


def _rows(events: Sequence[Event], path: Path) -> Iterator[Row]:
    consumers: dict[int, _Consumer] = {}
    for pair in pairs_of(events, path):
        marks = pair.invocation.extra.get(MARKS)
        if marks is not None:
            yield row_of_marks(pair, _micro_rows(pair, path), path)
            continue
        consumer = consumers.setdefault(pair.process, _Consumer())
        if pair.invocation.f in (_ASSIGN, _SUBSCRIBE):
            consumer.take(pair, path)
        for row in _micro_rows(pair, path):
            yield consumer.marked(row) if row["f"] == POLL else row


@dataclass(slots=True)
class _Consumer:
    """What one process holds, and where it does not read on.

    ``read`` are the topic-partitions that it has an expectation of, ``forgotten`` those that it had one of.
    """

    subscribed: bool = False
    read: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)

    def take(self, pair: Pair, path: Path) -> None:
        """An assign or subscribe, which counts unless it failed."""
        if pair.type is EventType.FAIL:
            return
        asked = pair.invocation
        if not isinstance(asked.value, tuple):
            refuse(path, asked.line, f"{asked.f} of {excerpt(edn_text(asked.value))}", "give the list of its keys")
        was_subscribed, self.subscribed = self.subscribed, asked.f == _SUBSCRIBE
        sought = asked.extra.get("seek-to-beginning?", asked.extra.get("seek-to-beginning")) is Truth.TRUE
        has_left_group = was_subscribed and not self.subscribed
        kept = set() if sought or has_left_group else {name_of(key) for key in asked.value}
        self.forgotten |= self.read - kept
        self.read &= kept

    def marked(self, row: Row) -> Row:
        """A poll's row, as one that goes on or begins anew."""
        name = row["topic_partition"]
        is_new = name in self.forgotten
        self.forgotten.discard(name)
        self.read.add(name)
        return row | {"seek": is_new, "subscribed": self.subscribed}


def name_of(key: Value) -> str:
    """A key as the name of a topic-partition: a text is its own; 1 and "1" are one key, as in JSON's objects."""
    return key if isinstance(key, str) else edn_text(key)


def _invoked(pair: Pair, path: Path) -> list[tuple[Value, ...]]:
    """The micro-operations as they were asked."""
    value, line = pair.invocation.value, pair.invocation.line
    if not isinstance(value, tuple):
        refuse(path, line, f"{pair.invocation.f} of {excerpt(edn_text(value))}", "give a list of [send k v] and [poll]")
    return [_micro(micro, path, line) for micro in value]


def _micro(micro: Value, path: Path, line: int) -> tuple[Value, ...]:
    name = micro[0] if isinstance(micro, tuple) and micro else None
    word = name.name if isinstance(name, Keyword) else name
    if not isinstance(micro, tuple) or word not in _LENGTHS or len(micro) not in _LENGTHS[word]:
        remedy = "write [send k v], [poll] or [poll {...}]"
        refuse(path, line, f"the micro-operation {excerpt(edn_text(micro))}", remedy)
    return (word, *micro[1:])


def _micro_rows(pair: Pair, path: Path) -> list[Row]:
    """The sends, and what was polled of each topic-partition, in order of their first places."""
    if pair.invocation.f not in _MICRO:
        return []
    invoked = _invoked(pair, path)
    line = pair.invocation.line if pair.completion is None else pair.completion.line
    completed = _completed(pair, invoked, path, line)
    rows: list[Row] = []
    polled: dict[str, Row] = {}
    for place, (asked, ended) in enumerate(zip(invoked, completed, strict=True)):
        if asked[0] == _SEND:
            offset = _acknowledged(asked, ended, path, line)
            about = {"f": APPEND, "topic_partition": name_of(asked[1]), "value": _value(asked[2], path, line)}
            rows.append(_row(pair, place) | about | {"offset": offset})
            continue
        for key, records in _polled(ended, path, line):
            name = name_of(key)
            if name not in polled:
                polled[name] = _row(pair, place) | {"f": POLL, "topic_partition": name, "records": []}
                rows.append(polled[name])
            polled[name]["records"] += records
    moved = _rebalanced(pair, path, line)
    return [row | {"rebalanced": row["topic_partition"] in moved} for row in rows]


def _completed(pair: Pair, invoked: Sequence[tuple[Value, ...]], path: Path, line: int) -> Sequence[tuple[Value, ...]]:
    value = None if pair.completion is None else pair.completion.value
    if not isinstance(value, tuple):
        return invoked
    completed = [_micro(micro, path, line) for micro in value]
    if [micro[0] for micro in completed] != [micro[0] for micro in invoked]:
        problem = f"completes other micro-operations than line {pair.invocation.line} invokes"
        refuse(path, line, problem, "give each its result, in order")
    return completed


def _acknowledged(asked: tuple[Value, ...], ended: tuple[Value, ...], path: Path, line: int) -> int | None:
    """Where a send stands, if the completion says so: ``[offset value]``, the offset nil where nobody knows."""
    _, key, value = asked
    told = ended[2]
    if ended[1] != key or (told[1:] != (value,) if isinstance(told, tuple) else told != value):
        problem = f"{excerpt(edn_text(ended[1:]))} completes a send of {excerpt(edn_text(asked[1:]))}"
        refuse(path, line, problem, "complete it as [send k [offset v]] or [send k v]")
    if not isinstance(told, tuple) or told[0] is None:
        return None
    return _offset(told[0], path, line)


def _polled(ended: tuple[Value, ...], path: Path, line: int) -> Iterator[tuple[Value, list[Row]]]:
    """What a poll returned of each key; the keys in one order, whatever that of the map is."""
    found = ended[1] if len(ended) > 1 else None
    if found is None:
        return
    if not isinstance(found, MapValue):
        refuse(path, line, f"a poll returned {excerpt(edn_text(found))}", "write [poll {k [[offset v] ...]}]")
    for key, records in sorted(found.items, key=lambda item: name_of(item[0])):
        if not isinstance(records, tuple):
            refuse(path, line, f"a poll returned {excerpt(edn_text(records))}", "write [[offset v] ...] for each key")
        yield key, [_record(record, path, line) for record in records]


def _record(record: Value, path: Path, line: int) -> Row:
    if not isinstance(record, tuple) or len(record) != 2:
        refuse(path, line, f"a poll returned the record {excerpt(edn_text(record))}", "write each as [offset v]")
    value = _value(record[1], path, line)
    if value is None:
        refuse(path, line, f"a poll returned the record {excerpt(edn_text(record))}", "give each its value")
    return {"offset": _offset(record[0], path, line), "value": value}


def _offset(offset: Value, path: Path, line: int) -> int:
    if not isinstance(offset, int) or not 0 <= offset <= OFFSET_MAX:
        refuse(path, line, f"the offset {excerpt(edn_text(offset))}", f"give one from 0 to {OFFSET_MAX} (OFFSET_MAX)")
    return offset


def _value(value: Value, path: Path, line: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or not _VALUE_MIN <= value <= _VALUE_MAX:
        refuse(path, line, f"the value {excerpt(edn_text(value))}", "send whole numbers of 64 bits")
    return value


def _rebalanced(pair: Pair, path: Path, line: int) -> frozenset[str]:
    """The topic-partitions that were taken or given while the operation went on."""
    log = None if pair.completion is None else pair.completion.extra.get("rebalance-log")
    if log is None:
        return frozenset()
    if not isinstance(log, tuple):
        refuse(path, line, f"the rebalance-log is {excerpt(edn_text(log))}", "write a list of maps with their keys")
    return frozenset(name_of(key) for entry in log for key in _keys_of(entry))


def _keys_of(entry: Value) -> Iterable[Value]:
    plain = entry.value if isinstance(entry, Tagged) else entry
    fields = plain.as_dict() if isinstance(plain, MapValue) else {}
    keys = fields.get(Keyword("keys"), fields.get("keys", ()))
    return keys if isinstance(keys, tuple | frozenset) else ()


def _row(pair: Pair, place: int) -> Row:
    """What all rows of one operation have in common."""
    begin, end = pair.invocation, pair.completion
    error = None if end is None or end.error is None else end.error
    absent: Mapping[str, Any] = dict.fromkeys(MICRO_OPERATION_SCHEMA.names)
    return {
        **absent,
        "run_id": RUN_ID,
        "process": pair.process,
        "type": pair.type.value,
        "invoke_index": pair.invoked_at,
        "return_index": pair.returned_at,
        "invoke_ns": begin.time or 0,
        "return_ns": None if end is None else end.time,
        "limited": False,
        "strict": False,
        "seek": False,
        "error": error if error is None or isinstance(error, str) else edn_text(error),
        "place": place,
        "committed": False,
        "subscribed": False,
        "rebalanced": False,
    }
