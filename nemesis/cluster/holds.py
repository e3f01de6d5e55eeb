"""What holds bytes back on one directed link: how late they are, how often lost and sent again, how fast they go.

Owns the arithmetic, and the count of what was done. Knows no connection: whoever carries bytes asks how long to hold
them. Source: Toxiproxy's latency, bandwidth and slow_close; for losses, TCP's retransmission timeout and its doubling
(RFC 6298).
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from random import Random

from nemesis.faults.impairments import Bandwidth, CorruptEgress, Delay, Loss, NetworkFault, SlowClose
from replica.records import CorruptRecordError, batch_size_at, scan_batches
from replica.records.batch import CRC_AT

CHUNK_BYTES = 1 << 16
RETRANSMITTED_MAX = 6
"""So often the same packet is lost at most."""
_SLICES_PER_S = 20
"""A narrow link is read in slices that take it a twentieth of a second each."""


class Hold:
    """Holds nothing back; each of the others does in its own way. ``tally`` counts what was done."""

    chunk_bytes_max = CHUNK_BYTES
    """So much is read at a time."""

    def __init__(self, tally: Counter[str]) -> None:
        self._tally = tally

    def bytes_s(self, size: int, now_s: float) -> float:
        """How many seconds to hold back so many bytes that come now."""
        del size, now_s
        return 0.0

    def end_s(self) -> float:
        """How many seconds to hold back the end of a connection that ends now."""
        return 0.0

    def passed(self, chunk: bytes) -> bytes:
        """What becomes of bytes that pass."""
        return chunk


class Late(Hold):
    """Every byte is late."""

    def __init__(self, fault: Delay, random: Random, tally: Counter[str]) -> None:
        super().__init__(tally)
        self._fault = fault
        self._random = random

    def bytes_s(self, size: int, now_s: float) -> float:
        """The latency, give or take the jitter."""
        del now_s
        self._tally["bytes"] += size
        jitter_ms = self._random.uniform(-self._fault.jitter_ms, self._fault.jitter_ms)
        return max(0.0, self._fault.latency_ms + jitter_ms) / 1000


class Lossy(Hold):
    """Some chunks are lost, and are there when they were sent again; a chunk stands for a packet."""

    def __init__(self, fault: Loss, random: Random, tally: Counter[str]) -> None:
        super().__init__(tally)
        self._fault = fault
        self._random = random

    def bytes_s(self, size: int, now_s: float) -> float:
        """The retransmission timeout as often as it is lost, each time doubled."""
        del size, now_s
        self._tally["packets"] += 1
        lost = 0
        while lost < RETRANSMITTED_MAX and self._random.random() * 100 < self._fault.percent:
            lost += 1
        self._tally["lost"] += lost
        return self._fault.retransmit_ms * ((1 << lost) - 1) / 1000


class Narrow(Hold):
    """So many bytes a second, and those behind them wait for their turn."""

    def __init__(self, fault: Bandwidth, tally: Counter[str]) -> None:
        super().__init__(tally)
        self._rate = fault.rate_bytes_per_s
        self._free_s = 0.0
        self.chunk_bytes_max = min(CHUNK_BYTES, max(1, self._rate // _SLICES_PER_S))

    def bytes_s(self, size: int, now_s: float) -> float:
        """Until all that came before is through, and these too."""
        self._tally["bytes"] += size
        self._free_s = max(self._free_s, now_s) + size / self._rate
        return self._free_s - now_s


class SlowEnd(Hold):
    """The end of a connection is late."""

    def __init__(self, fault: SlowClose, tally: Counter[str]) -> None:
        super().__init__(tally)
        self._delay_s = fault.delay_ms / 1000

    def end_s(self) -> float:
        """As late as was asked for."""
        self._tally["ends"] += 1
        return self._delay_s


class Corrupting(Hold):
    """Bits of some chunks are flipped; a chunk stands for a segment."""

    def __init__(self, fault: CorruptEgress, random: Random, tally: Counter[str]) -> None:
        super().__init__(tally)
        self._fault = fault
        self._random = random

    def passed(self, chunk: bytes) -> bytes:
        """The same with a bit flipped of a batch that is there as a whole, where its CRC covers it."""
        spans = _batches_in(chunk)
        self._tally["segments"] += 1
        if not spans or self._random.random() * 100 >= self._fault.percent:
            return chunk
        bit = self._random.randrange(*(8 * end for end in self._random.choice(spans)))
        self._tally["flipped"] += 1
        return chunk[: bit // 8] + bytes([chunk[bit // 8] ^ 1 << bit % 8]) + chunk[bit // 8 + 1 :]


_BATCH_BEGINS = re.compile(rb"(?=\0{2}.{6}\0.{7}\x02)", re.DOTALL)
"""A base offset and a length that are not out of all reason, an epoch, and the magic number."""


def _batches_in(chunk: bytes) -> list[tuple[int, int]]:
    """Where the bytes begin and end that the CRCs of whole batches cover, and these themselves."""
    spans = []
    for begin in (found.start() for found in _BATCH_BEGINS.finditer(chunk)):
        with suppress(CorruptRecordError):
            end = begin + (batch_size_at(chunk, begin) or 0)
            for _ in scan_batches(chunk[begin:end]):
                spans.append((begin + CRC_AT, end))
    return spans


def hold_of(fault: NetworkFault, random: Random, tally: Counter[str]) -> Hold:
    """What a fault does to one directed link."""
    match fault:
        case Delay():
            return Late(fault, random, tally)
        case Loss():
            return Lossy(fault, random, tally)
        case Bandwidth():
            return Narrow(fault, tally)
        case SlowClose():
            return SlowEnd(fault, tally)
        case CorruptEgress():
            return Corrupting(fault, random, tally)
        case _:
            raise AssertionError(f"{fault.kind} is done to whole connections")
