"""One partition kept by its in-sync replicas, under leaders that the controller appoints.

Read in this order: ``roles`` (what a replica can be), ``state`` (all that one replica knows), ``transitions`` (how
metadata ends a role and begins the next), ``producing`` (a record's way in) and ``producer_state`` (the same record a
second time), ``fetching`` (its way out), ``watermark`` and ``isr`` (when it is committed, and who must hold it),
``following`` (a follower's work), ``fencing`` (who is turned away), ``retention`` (what may be forgotten),
``invariants`` (what must hold after every call), ``partition`` (calls in, effects out). What it has in common with a
quorum's log is in ``replica.core.log``.
"""

from __future__ import annotations

from replica.core.partition.fetching import ConsumersView
from replica.core.partition.partition import Partition
from replica.core.partition.roles import SessionFetch

__all__ = ["ConsumersView", "Partition", "SessionFetch"]
