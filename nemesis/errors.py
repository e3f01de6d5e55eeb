"""What may come of asking a system for something, beside what was asked for.

A timeout or a lost connection is never the first of these.
"""

from __future__ import annotations


class NotDoneError(Exception):
    """The operation definitely did not happen."""


class DeletedError(NotDoneError):
    """What was to be read is not there any more: the log begins at ``log_start_offset``."""

    def __init__(self, log_start_offset: int) -> None:
        super().__init__(f"the log begins at offset {log_start_offset}")
        self.log_start_offset = log_start_offset


class UnknownOutcomeError(Exception):
    """The operation may have happened, or may still happen."""


class UnsupportedError(Exception):
    """What is asked for cannot be done here; the message says what and why. Nothing was started, nothing was done."""


class NodeFailedError(Exception):
    """A node did not start, or cannot be asked; the message says which and why."""
