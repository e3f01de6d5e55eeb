"""Our own replicas as one of the systems: what they offer -> ``system`` (the cluster, made by ``nemesis.cluster``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemesis.cluster.store import Verb
from nemesis.history.events import METADATA_LOG
from nemesis.systems.offer import Offer, topic_logs

if TYPE_CHECKING:
    from nemesis.cluster.replica_options import ReplicaOptions


def _logs(options: ReplicaOptions) -> dict[str, list[int]]:
    """The metadata's, which everybody has, and those that clients write to: who has these nobody knows before."""
    everywhere = {METADATA_LOG: list(range(1, options.nodes + 1))}
    return everywhere | {name: [] for name in options.log_names}


OFFER = Offer(
    verbs=frozenset(Verb),
    reads=("linearizable", "lease", "stale"),
    shows_logs=True,
    logs=_logs,
    gapless=topic_logs,
    settings=frozenset({"variant", "log_flush", "retention_bytes", "tls"}),
    lacks={},
    runs="our replicas",
    needs="nothing",
    expect="valid",
)
