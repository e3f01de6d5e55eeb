"""One log kept by a quorum: pull-based Raft, as Kafka's KRaft has it (KIP-595, KIP-650, KIP-853, KIP-996).

Read in this order: ``roles`` (what a replica can be), ``state`` (all that one log knows), ``transitions`` (how a role
ends and the next begins), ``elections`` (votes), ``leading`` and ``producing`` and ``serving`` (a leader's work),
``leasing`` (how long it may be sure that it leads), ``transferring`` (how another leads in its place),
``voter_history`` (who votes, by the log) and ``membership`` (how a leader changes that), ``hearing`` (whether its
leader lives, for all that a follower knows), ``following`` (a follower's work), ``snapshots`` (what stands for the
log's beginning), ``snapshot_header`` (who votes, in one) and ``catching_up`` (with the leader's), ``fencing`` (who is
turned away), ``describing`` (how the quorum stands), ``invariants`` (what must hold after every step), ``quorum_log``
(events in, effects out).
"""

from __future__ import annotations

from replica.core.quorum.quorum_log import BatchTooLargeError, QuorumLog

__all__ = ["BatchTooLargeError", "QuorumLog"]
