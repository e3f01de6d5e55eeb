"""One topic-partition of one run as numpy arrays: what every check looks at.

Owns the step from Arrow columns to arrays, once for all checks and all topic-partitions of a call. Absent numbers
become ``NONE``: offsets, epochs and replica ids are 0 or more, so -1 cannot be mistaken. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nemesis.checks.replica_events import ReplicaEvents
from nemesis.checks.schemas import MICRO_OPERATION_SCHEMA, OPERATION_SCHEMA
from nemesis.history.events import APPEND, FINAL_READ, POLL, EventType

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NONE = -1
NEVER = int(np.iinfo(np.int64).max)
"""The return index of an operation that never returned, and the operation index of what no operation showed."""

ALL = -1
"""The ``acks`` of an append that names none."""

KEY = ("run_id", "topic_partition")
"""What is judged on its own."""

BATCH_IDENTITY = ("base_offset", "last_offset", "leader_epoch", "crc")
"""Two batches are the same when these are."""

_INT_COLUMNS = {
    "process": NONE,
    "invoke_index": NONE,
    "return_index": NEVER,
    "value": 0,
    "offset": NONE,
    "position": NONE,
    "high_watermark": NONE,
    "leader_epoch": NONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The operations of one topic-partition in order of invocation: arrays of equal length, one entry each.

    An append that asked for less than all replicas and succeeded is not ``ok`` here and has no ``offset``: where it
    stands, and whether it stays, was not promised. ``committed`` are the others that are known to have happened. One
    that sends several values, or sends and polls, has several rows, ``place`` in it ascending. ``table`` has the same
    rows. The records of all ok polls are in ``record_row`` (the row of their poll, ascending), ``record_offset`` and
    ``record_value``; ``returned_row`` and its like are of all polls, whatever became of their operations.
    """

    table: pa.Table
    append: Bools
    poll: Bools
    final_read: Bools
    ok: Bools
    fail: Bools
    has_value: Bools
    has_records: Bools
    limited: Bools
    strict: Bools
    seek: Bools
    committed: Bools
    subscribed: Bools
    rebalanced: Bools
    place: Ints
    process: Ints
    invoke_index: Ints
    return_index: Ints
    value: Ints
    offset: Ints
    position: Ints
    high_watermark: Ints
    leader_epoch: Ints
    record_row: Ints
    record_offset: Ints
    record_value: Ints
    returned_row: Ints
    returned_offset: Ints
    returned_value: Ints

    def described(self, row: int) -> dict[str, Any]:
        """One operation as evidence, without its records and without what is absent."""
        columns = [name for name in OPERATION_SCHEMA.names if name not in ("run_id", "topic_partition", "records")]
        entry = self.table.select(columns).slice(row, 1).to_pylist()[0]
        return {name: value for name, value in entry.items() if value is not None and value is not False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """The final log of one replica: one entry of each array for each batch, ascending by base offset.

    The producer's three are ``NONE`` where no idempotent producer wrote the batch.

    ``end_offset`` (exclusive) is how far its batches follow one another; ``complete`` that this is the whole log, where
    ``told_complete`` only says that its dump claims so. ``high_watermark`` is ``NONE`` where nobody knows it: the log
    vouches for nothing then. ``value_offset`` and ``value`` are the decoded records; offsets in ``undecoded``
    (half-open ranges) hold records that are not control records and could not be decoded.
    """

    replica_id: int
    complete: bool
    told_complete: bool
    high_watermark: int
    log_start_offset: int
    end_offset: int
    base_offset: Ints
    last_offset: Ints
    leader_epoch: Ints
    crc: Ints
    producer_id: Ints
    producer_epoch: Ints
    base_sequence: Ints
    value_offset: Ints
    value: Ints
    undecoded: tuple[tuple[int, int], ...]

    @property
    def committed_end_offset(self) -> int:
        """What this replica holds and vouches for, exclusive."""
        return min(max(self.high_watermark, 0), self.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """All that is known of one topic-partition of one run.

    ``history_complete`` is false when operations after the last one known may have happened. ``evidence_due`` says that
    its run was recorded to its end, so that all that this tells must be there.
    """

    run_id: str
    topic_partition: str
    operations: Operations
    logs: tuple[ReplicaLog, ...]
    events: ReplicaEvents
    history_complete: bool
    evidence_due: bool


def ints(table: pa.Table, name: str, absent: int = NONE) -> Ints:
    """A column of integers, with ``absent`` where it is null."""
    return np.asarray(table.column(name).combine_chunks().fill_null(absent).to_numpy(zero_copy_only=False), np.int64)


def bools(table: pa.Table, name: str) -> Bools:
    """A column of truth values, false where it is null."""
    return np.asarray(table.column(name).combine_chunks().fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def operations_of(table: pa.Table) -> Operations:
    """The operations of one topic-partition. ``table`` is of either schema of operations, in any order."""
    if MICRO_OPERATION_SCHEMA.names != table.column_names:
        table = _single(table)
    table = table.sort_by([("invoke_index", "ascending"), ("place", "ascending")])
    f = np.asarray(table.column("f").to_pylist(), dtype=object)
    kind = np.asarray(table.column("type").to_pylist(), dtype=object)
    append = f == APPEND
    ok = (kind == EventType.OK.value) & ~(append & (ints(table, "acks", ALL) != ALL))
    poll = (f == POLL) | (f == FINAL_READ)
    committed = bools(table, "committed")
    returned = poll & ~np.asarray(table.column("records").is_null().to_numpy(), np.bool_)
    returned_row, returned_offset, returned_value = _records(table, returned)
    is_ok = ok[returned_row]
    numbers = {name: ints(table, name, absent) for name, absent in _INT_COLUMNS.items()}
    numbers["offset"] = np.where(ok | committed, numbers["offset"], NONE)
    return Operations(
        table=table,
        append=append,
        poll=poll,
        final_read=f == FINAL_READ,
        ok=ok,
        fail=kind == EventType.FAIL.value,
        has_value=~np.asarray(table.column("value").is_null().to_numpy(), np.bool_),
        has_records=returned & ok,
        limited=bools(table, "limited"),
        strict=bools(table, "strict"),
        seek=bools(table, "seek"),
        committed=committed,
        subscribed=bools(table, "subscribed"),
        rebalanced=bools(table, "rebalanced"),
        place=ints(table, "place"),
        record_row=returned_row[is_ok],
        record_offset=returned_offset[is_ok],
        record_value=returned_value[is_ok],
        returned_row=returned_row,
        returned_offset=returned_offset,
        returned_value=returned_value,
        **numbers,
    )


def _single(table: pa.Table) -> pa.Table:
    """Operations as transactions of one micro-operation each."""
    no = pa.array(np.zeros(table.num_rows, np.bool_))
    columns = {"place": pa.array(np.zeros(table.num_rows, np.int64)), "committed": no, "subscribed": no}
    columns |= {"rebalanced": no}
    return pa.table([*table.columns, *columns.values()], schema=MICRO_OPERATION_SCHEMA)


def _records(table: pa.Table, has_records: Bools) -> tuple[Ints, Ints, Ints]:
    rows = np.flatnonzero(has_records)
    lists = table.column("records").combine_chunks().take(pa.array(rows, pa.int64()))
    flat = lists.flatten()
    lengths = np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), np.int64)
    record_row = np.repeat(rows, lengths).astype(np.int64)
    offsets = np.asarray(flat.field("offset").to_numpy(zero_copy_only=False), np.int64)
    return record_row, offsets, np.asarray(flat.field("value").to_numpy(zero_copy_only=False), np.int64)


def replica_logs_of(table: pa.Table) -> tuple[ReplicaLog, ...]:
    """The final logs of one topic-partition by replica id. ``table`` is ``LOG_BATCH_SCHEMA``, in any order."""
    replica_ids = ints(table, "replica_id")
    return tuple(
        _replica_log(int(replica_id), table.filter(pa.array(replica_ids == replica_id)))
        for replica_id in np.unique(replica_ids)
    )


def _replica_log(replica_id: int, rows: pa.Table) -> ReplicaLog:
    batches = _batches_once(rows.filter(rows.column("base_offset").is_valid()))
    base, last = ints(batches, "base_offset"), ints(batches, "last_offset")
    told_complete = bool(bools(rows, "complete").all())
    log_start_offset = int(ints(rows, "log_start_offset", 0).max())
    end_offset = _contiguous_end(log_start_offset, base, last)
    value_offset, value, undecoded = _batch_values(batches, base, last)
    return ReplicaLog(
        replica_id=replica_id,
        complete=told_complete and end_offset == int(ints(rows, "log_end_offset").max()),
        told_complete=told_complete,
        high_watermark=int(ints(rows, "high_watermark").max()),
        log_start_offset=log_start_offset,
        end_offset=end_offset,
        base_offset=base,
        last_offset=last,
        leader_epoch=ints(batches, "leader_epoch"),
        crc=ints(batches, "crc"),
        producer_id=ints(batches, "producer_id"),
        producer_epoch=ints(batches, "producer_epoch"),
        base_sequence=ints(batches, "base_sequence"),
        value_offset=value_offset,
        value=value,
        undecoded=undecoded,
    )


def _batches_once(rows: pa.Table) -> pa.Table:
    """The batches by base offset; one that was read twice, because its dump was tried again, counts once."""
    rows = rows.sort_by("base_offset")
    identity = np.stack([ints(rows, name) for name in BATCH_IDENTITY], axis=1)
    again = (np.diff(identity, axis=0) == 0).all(axis=1)
    return rows.filter(pa.array(np.append(True, ~again)[: rows.num_rows]))


def _contiguous_end(log_start_offset: int, base: Ints, last: Ints) -> int:
    """How far the batches follow one another from the start of the log, exclusive.

    The rows of a run that was killed may break off anywhere, and what is missing of them is not missing from the log.
    Where two batches of one log overlap, the dump contradicts itself, and the log is known up to there.
    """
    if not len(base) or base[0] > log_start_offset:
        return log_start_offset
    breaks = np.flatnonzero(base[1:] != last[:-1] + 1)
    if not len(breaks):
        return int(last[-1]) + 1
    return int(min(last[breaks[0]] + 1, base[breaks[0] + 1]))


def _batch_values(batches: pa.Table, base: Ints, last: Ints) -> tuple[Ints, Ints, tuple[tuple[int, int], ...]]:
    """Offsets and values of the decoded batches, and the ranges of those that are neither decoded nor control."""
    lists = batches.column("values").combine_chunks()
    sizes = np.asarray(lists.value_lengths().fill_null(NONE).to_numpy(zero_copy_only=False), np.int64)
    control = bools(batches, "is_control")
    decoded = ~control & (sizes == last - base + 1)
    lengths = sizes[decoded]
    starts = np.repeat(base[decoded], lengths)
    within = np.arange(len(starts)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    flat = lists.filter(pa.array(decoded)).flatten()
    ranges = np.flatnonzero(~control & ~decoded)
    undecoded = tuple((int(base[row]), int(last[row]) + 1) for row in ranges)
    offset, value = starts + within, np.asarray(flat.to_numpy(zero_copy_only=False), np.int64)
    order = np.argsort(offset, kind="stable")
    return offset[order], value[order], undecoded


def row_groups(table: pa.Table) -> dict[tuple[str, str], pa.Table]:
    """The rows of each (run_id, topic_partition); an absent topic-partition is the empty one."""
    if table.num_rows == 0:
        return {}
    runs, partitions = (table.column(name).combine_chunks().fill_null("").dictionary_encode() for name in KEY)
    codes = np.stack([np.asarray(column.indices.to_numpy(), np.int64) for column in (runs, partitions)])
    order = np.lexsort((codes[1], codes[0]))
    codes, ordered = codes[:, order], table.take(pa.array(order))
    starts = np.flatnonzero(np.append(True, (np.diff(codes, axis=1) != 0).any(axis=0)))
    ends = np.append(starts[1:], len(order))
    return {
        (runs.dictionary[int(run)].as_py(), partitions.dictionary[int(partition)].as_py()): ordered.slice(start, size)
        for run, partition, start, size in zip(
            *codes[:, starts], starts.tolist(), (ends - starts).tolist(), strict=True
        )
    }


def partition_keys(*groups: dict[tuple[str, str], pa.Table]) -> Iterator[tuple[str, str]]:
    """Every (run_id, topic_partition) of any table, each once, in order."""
    yield from sorted({key for group in groups for key in group})
