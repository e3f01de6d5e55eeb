"""Which replicas a partition has while it is reassigned, before, and afterwards.

Owns the arithmetic. A reassignment takes two decisions: first the replicas that come are added to those that there are,
and fetch; when everybody who is to stay is in sync, those that go are taken out, and nothing goes with them that the
others lack. Knows nothing of leaders and epochs: those are ``partition_change``'s.

Source: KIP-455; Kafka ``PartitionReassignmentReplicas``, ``PartitionReassignmentRevert``.
"""

from __future__ import annotations

from msgspec import Struct

from replica.core.metadata.records import PartitionRegistration
from replica.ids import ReplicaId

Replicas = tuple[ReplicaId, ...]


class Reassignment(Struct, frozen=True, kw_only=True):
    """The ``replicas`` of a partition; those of them that come, ``adding``, and that go, ``removing``."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def is_under_way(self) -> bool:
        """Whether anybody comes or goes."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        """The assignment when all is done, preferred leader first."""
        return _without(self.replicas, self.removing)

    @property
    def original(self) -> Replicas:
        """The assignment if nobody comes and nobody goes; not always in the order in which it once was."""
        return _without(self.replicas, self.adding)


def reassignment_of(registration: PartitionRegistration) -> Reassignment:
    """What is under way at a partition, or how it stands."""
    return Reassignment(
        replicas=registration.replicas, adding=registration.adding_replicas, removing=registration.removing_replicas
    )


def reassignment_to(current: Replicas, target: Replicas) -> Reassignment:
    """The way from the ``current`` replicas, whatever they do there, to ``target``: those that go come last.

    A target takes the place of an earlier one as a whole. Kafka keeps who was coming or going where the later target
    adds or removes nobody itself, and then removes a replica that was just asked for.
    """
    removing = tuple(sorted(_without(current, target)))
    return Reassignment(replicas=target + removing, adding=tuple(sorted(_without(target, current))), removing=removing)


def _without(replicas: Replicas, others: Replicas) -> Replicas:
    return tuple(replica for replica in replicas if replica not in others)
