"""What each variant is called, which schedule brings its wrong rule about, and what must convict it.

Owns the names that ``--variant`` takes. Light to import: the command line lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nemesis.faults.directed import ISOLATED_LEADER, SHORT_LOG_CANDIDATE
from nemesis.schedule import Schedule
from nemesis.variants.rules import (
    AckBeforeReplication,
    AppendWithoutReconciling,
    ReadBeyondHighWatermark,
    VoteWithoutComparingLogs,
)
from replica.core.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A wrong protocol: its one wrong rule, the schedule under which it goes wrong, the anomaly that convicts it."""

    name: str
    rules: type[Rules]
    schedule: Schedule
    convicted_of: str

    @property
    def overrides(self) -> str:
        """The name of the rule that is wrong."""
        (rule,) = (name for name in vars(self.rules) if not name.startswith("__"))
        return rule

    @property
    def summary(self) -> str:
        """What is wrong, in one sentence."""
        return (self.rules.__doc__ or "").strip()


_VARIANTS = (
    Variant(
        name="ack-before-replication",
        rules=AckBeforeReplication,
        schedule=ISOLATED_LEADER,
        convicted_of="lost-write",
    ),
    Variant(
        name="read-beyond-high-watermark",
        rules=ReadBeyondHighWatermark,
        schedule=ISOLATED_LEADER,
        convicted_of="inconsistent-offsets",
    ),
    Variant(
        name="append-without-reconciling",
        rules=AppendWithoutReconciling,
        schedule=ISOLATED_LEADER,
        convicted_of="diverged-log",
    ),
    Variant(
        name="vote-without-comparing-logs",
        rules=VoteWithoutComparingLogs,
        schedule=SHORT_LOG_CANDIDATE,
        convicted_of="lost-write",
    ),
)

VARIANTS: Mapping[str, Variant] = MappingProxyType({variant.name: variant for variant in _VARIANTS})
