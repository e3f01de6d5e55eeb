"""What the client's calls raise. For a write, the class alone says whether it may be in the log."""

from __future__ import annotations

from replica.errors import ErrorCode
from replica.ids import EpochEndOffset, Offset, TopicPartition


class ClientError(Exception):
    """A call to the cluster did not do what was asked; ``error`` is the last code that was answered, if any was."""

    def __init__(self, message: str, *, error: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.error = error


class WriteError(ClientError):
    """A write was not acknowledged. One of the next two: which of them is all that matters.

    Of many records in one call, NotWrittenError says that none of them is written.
    """


class NotWrittenError(WriteError):
    """The write is definitely not in the log: every attempt was refused, or never sent. Trying again is safe."""


class OutcomeUnknownError(WriteError):
    """The write may or may not be in the log, now or later. Trying again could write it twice."""


class AdminError(ClientError):
    """A change of the cluster was refused, or not answered in time.

    ``may_be_done`` is false only if no attempt can have changed anything. True with a refusal means that an earlier
    attempt got no clear answer: a TOPIC_ALREADY_EXISTS may then speak of the very topic that it was to create. Or that,
    of several partitions, others were not refused.
    """

    def __init__(self, message: str, *, error: ErrorCode | None = None, may_be_done: bool = False) -> None:
        super().__init__(message, error=error)
        self.may_be_done = may_be_done


class ReadFailedError(ClientError):
    """A read, or a question about the cluster, earned no usable answer."""


class ClusterUnreachableError(ReadFailedError):
    """None of the brokers that are known has said in time what the cluster looks like."""


class UnknownTopicError(NotWrittenError, ReadFailedError):
    """The topic or partition does not exist, as far as the brokers know; nothing was written to it or read from it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} does not exist", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class NotAuthorizedError(NotWrittenError, ReadFailedError):
    """Who asks, by certificate or token, may not know of the topic; nothing was written to it or read from it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: TOPIC_AUTHORIZATION_FAILED", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class OffsetOutOfRangeError(ReadFailedError):
    """The asked offset is below the log's start or above its end."""

    def __init__(
        self,
        offset: Offset,
        *,
        log_start_offset: Offset | None,
        high_watermark: Offset | None,
        topic_partition: TopicPartition,
    ) -> None:
        super().__init__(
            f"offset {offset} is outside {topic_partition}, which starts at {log_start_offset} and is committed up to "
            f"{high_watermark}",
            error=ErrorCode.OFFSET_OUT_OF_RANGE,
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark


class UnreadableBatchError(ReadFailedError):
    """The records at the position cannot be decoded; all before them have been handed out.

    ``base_offset`` and ``end_offset`` are those of the whole batch, which can only be left out as a whole: seek to
    ``end_offset``. It is absent where not even the batch's header can be believed.
    """

    def __init__(
        self, topic_partition: TopicPartition, base_offset: Offset, end_offset: Offset | None, reason: str
    ) -> None:
        last, advice = ("", "") if end_offset is None else (f" to {end_offset - 1}", f"; seek to {end_offset} to go on")
        super().__init__(
            f"{topic_partition}: the batch at offset {base_offset}{last} cannot be read: {reason}{advice}",
            error=ErrorCode.CORRUPT_MESSAGE,
        )
        self.topic_partition = topic_partition
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.reason = reason


class NoOffsetError(ReadFailedError):
    """A partition has no position, and no policy says where to begin."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(
            f"{topic_partition} has no position; seek to one, or set auto_offset_reset to earliest or latest"
        )
        self.topic_partition = topic_partition


class LogTruncatedError(ReadFailedError):
    """Records that were read are no longer in the log (Kafka's LogTruncationException, KIP-320).

    Everything read from ``divergent`` on is gone or was replaced; absent where the leader cannot tell from where on,
    for example because the topic was deleted and created again.
    """

    def __init__(
        self, topic_partition: TopicPartition, offset: Offset, divergent: EpochEndOffset | None, reason: str = ""
    ) -> None:
        since = (
            "at an offset that nobody knows"
            if divergent is None
            else f"at offset {divergent.end_offset}, after epoch {divergent.epoch}"
        )
        super().__init__(
            f"{topic_partition} was truncated below offset {offset}: the log and what was read of it part {since}"
            f"{reason and f' ({reason})'}; seek to where reading shall go on"
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.divergent = divergent
