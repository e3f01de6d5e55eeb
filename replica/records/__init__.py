"""Kafka's record batch, format v2, byte for byte: pure functions from bytes to values and back.

The way of the data, file by file: ``batch`` is one encoded batch with its header parsed once, the unit that a server
moves; ``scanning`` finds the batches in a row of bytes and checks that they follow one another; ``record`` encodes and
decodes what is inside, for clients and tools, one by one, and ``encoding`` and ``decoding`` as columns; ``walking``
checks what is inside, for servers; ``runs`` passes over batches that are plainly well, where a log is opened;
``control`` and ``voters_record`` are the batches that a leader writes by itself. Below them: ``compression``,
``sequence``, ``varint``, ``checksum`` and ``errors``. Nothing here knows a clock, a file or a network.
"""

from __future__ import annotations

from replica.records.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_LEADER_EPOCH,
    RecordBatch,
    batch_size_at,
    claimed_offsets,
    claimed_producer_id,
)
from replica.records.compression import DECOMPRESSED_BYTES_MAX, Compression
from replica.records.control import LeaderChange, decode_leader_change, leader_change_batch
from replica.records.decoding import ColumnDecoder, DecodedRecords
from replica.records.encoding import Column, ColumnEncoder, RecordColumns
from replica.records.errors import CorruptRecordError, InvalidRecordError
from replica.records.record import (
    NO_TIMESTAMP,
    EncodedRecords,
    Header,
    Record,
    check_record,
    decode_records,
    encode_batch,
    encode_headers,
)
from replica.records.scanning import check_continues, check_crc, parse_batches, parse_produced, scan_batches
from replica.records.sequence import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    increment_sequence,
)
from replica.records.voters_record import decode_voters, voters_batch
from replica.records.walking import (
    EVER,
    SERVER_DECOMPRESSED_BYTES_MAX,
    RecordTimes,
    Wanted,
    check_produced,
    walk_records,
)
