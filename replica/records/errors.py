"""The errors that bytes from outside can cause in this package: damage, and what a client may not write.

Knows nothing of where the bytes came from; whoever read them adds the file or the peer. Source: Kafka's
``CorruptRecordException``, ``InvalidRecordException``.
"""

from __future__ import annotations


class CorruptRecordError(ValueError):
    """The bytes are not a sequence of whole, valid record batches that fits where it was meant to go.

    ``position`` is the byte at which the fault shows, counted from the start of the bytes that were handed in (for a
    batch that has already been parsed: from the start of that batch). ``reason`` says what is wrong there.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"byte {self.position}: {self.reason}"


class InvalidRecordError(ValueError):
    """The bytes are whole and valid, and not what a client may write; the message says what it may."""
