"""Runs in an environment that has nothing but the release: a record batch there and back, with the right libraries.

It is given ``native`` or ``pure``, and ends with an error where anything is not so.
"""

from __future__ import annotations

import sys
from pathlib import Path


def check_round_trip() -> None:
    """Records of every compression come back as they were, and a server's walk over them finds them well."""
    from replica.ids import Offset
    from replica.records import (
        SERVER_DECOMPRESSED_BYTES_MAX,
        Compression,
        Record,
        check_produced,
        decode_records,
        encode_batch,
        parse_batches,
    )

    records = [
        Record(
            offset=Offset(number),
            timestamp_ms=1000 + number,
            key=b"key",
            value=b"value" * number,
            headers=(("name", b""), ("none", None)),
        )
        for number in range(100)
    ]
    for compression in Compression:
        (batch,) = parse_batches(encode_batch(records, compression=compression).data)
        assert list(decode_records(batch)) == records, compression
        assert check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX).newest_ms == 1099, compression


def check_libraries(*, expected: bool) -> None:
    """Both libraries in C are in use, or neither is."""
    from nemesis.linearizability.accelerator import loaded
    from replica.records.walking import library

    assert (library() is not None) is expected, "the library that walks over records"
    assert (loaded() is not None) is expected, "the library that searches registers"


def check_place() -> None:
    """Both packages are those of this environment, and no others that lie about."""
    import nemesis
    import replica

    for package in (nemesis, replica):
        assert package.__file__ is not None
        assert Path(package.__file__).is_relative_to(sys.prefix), package.__file__


if __name__ == "__main__":
    check_place()
    check_round_trip()
    check_libraries(expected=sys.argv[1] == "native")
