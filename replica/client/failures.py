"""What the client's calls raise. For a write, the class alone says whether it may be in the log."""

from __future__ import annotations

from replica.errors import ErrorCode
from replica.ids import Offset


class ClientError(Exception):
    """A call to the cluster did not do what was asked."""


class NotWrittenError(ClientError):
    """The write is definitely not in the log: every attempt was refused, or never sent. Trying again is safe."""


class OutcomeUnknownError(ClientError):
    """The write may or may not be in the log, now or later. Trying again could write it twice."""


class ReadFailedError(ClientError):
    """A read, or a question about the cluster, earned no usable answer; ``error`` is the last code, if any came."""

    def __init__(self, message: str, *, error: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.error = error


class OffsetOutOfRangeError(ReadFailedError):
    """The asked offset is below the log's start or above its end."""

    def __init__(self, offset: Offset, *, log_start_offset: Offset | None, high_watermark: Offset | None) -> None:
        super().__init__(
            f"offset {offset} is outside the log, which starts at {log_start_offset} and is committed up to "
            f"{high_watermark}",
            error=ErrorCode.OFFSET_OUT_OF_RANGE,
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
