"""The checksum of a record batch: CRC-32C (Castagnoli), reflected, as in iSCSI (RFC 3720) and Kafka's ``Crc32C``.

The only file that knows which library computes it.
"""

from __future__ import annotations

from crc32c import crc32c


def checksum(data: bytes | bytearray | memoryview, behind: int = 0) -> int:
    """Compute the CRC-32C of ``data``, in 0..2**32-1. ``checksum(b"123456789")`` is 0xE3069283.

    ``behind`` is the checksum of what stands in front of ``data``, where that belongs to it.
    """
    return int(crc32c(data, behind))
