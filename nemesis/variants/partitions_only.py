"""What a wrong protocol of partitions has for its metadata log: the right rules.

Owns nothing else. Some rules are asked for both kinds of log. A variant that is about partitions must leave the
metadata log right, or it would be the broken quorum that is convicted.
"""

from __future__ import annotations

from replica.core.rules import Rules


class PartitionsOnly(Rules):
    """Wrong about partitions only."""

    @property
    def of_quorum_logs(self) -> Rules:
        """The right ones."""
        return Rules()
