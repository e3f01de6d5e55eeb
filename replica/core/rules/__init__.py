"""The decisions of the protocol, one small pure method each.

Each method is one sentence of the protocol on which a promise hangs. The core asks here and nowhere else, so that a
reader finds the decision by its name, a test can state it as a table, and a harness outside this package can prove that
it would notice if the decision were wrong: it subclasses ``Rules`` and overrides one method. A server that is started
normally always has these.

One file for each part of the protocol: ``log`` for every log, then ``quorum``, ``partition``, ``controller`` and
``group``.
"""

from __future__ import annotations

from replica.core.rules.controller import ControllerRules
from replica.core.rules.group import GroupRules
from replica.core.rules.log import LogRules
from replica.core.rules.partition import PartitionRules
from replica.core.rules.quorum import NEVER_MS, QuorumRules

__all__ = ["NEVER_MS", "Rules"]


class Rules(LogRules, QuorumRules, PartitionRules, ControllerRules, GroupRules):
    """The right protocol."""

    @property
    def of_quorum_logs(self) -> Rules:
        """The rules that logs kept by a quorum go by: these. What is wrong about partitions only leaves them right."""
        return self
