"""What calls of a group's client raise. For a command, the class alone says whether it may be applied."""

from __future__ import annotations

from replica.client.failures import ClientError, NotWrittenError, OutcomeUnknownError, ReadFailedError
from replica.errors import ErrorCode
from replica.machines import Refusal


class CommandRefusedError(NotWrittenError):
    """The command is definitely not applied and never will be: ``refusal`` says why, the message more."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal


class SessionExpiredError(OutcomeUnknownError):
    """The session has ended while it was unknown what became of the command. That will never be known.

    What was sent before may have been applied in time; nothing that its numbers name is applied from now on.
    """


class UnknownGroupError(NotWrittenError, ReadFailedError):
    """Everybody that could be asked has answered, and nobody has such a group. Nothing was applied."""

    def __init__(self, group: str) -> None:
        super().__init__(f"no replica that was asked has a group {group!r}", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class TransferFailedError(ClientError):
    """The leadership has not gone where it should; the message says where it is."""


class VotersNotChangedError(ClientError):
    """The voters are definitely not changed by this call, and will not be."""


class VotersUnknownError(ClientError):
    """The voters may be changed by this call, now or later, or not. To make the same change again is safe."""


class QueryRefusedError(ReadFailedError):
    """The machine does not understand the question, or fails on it."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal
