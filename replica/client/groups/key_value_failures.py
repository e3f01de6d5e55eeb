"""What calls of the key-value client raise beside what every group's client raises."""

from __future__ import annotations

from replica.client.failures import NotWrittenError, ReadFailedError
from replica.machines.key_value.results import KeyValueError


class KeyValueRejectedError(NotWrittenError, ReadFailedError):
    """The store does not do it, and nothing has changed: ``rejection`` says why, the message more."""

    def __init__(self, rejection: KeyValueError, message: str) -> None:
        super().__init__(f"{rejection}: {message}")
        self.rejection = rejection


class RevisionCompactedError(NotWrittenError, ReadFailedError):
    """What was asked for is forgotten: ``compact_revision`` is the first revision that is not. Nothing has changed."""

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"what was before revision {compact_revision} is forgotten; it is the first that can be read")
        self.compact_revision = compact_revision
