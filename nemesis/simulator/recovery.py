"""What a healed world must come to: everybody serves, and all replicas of every log agree.

Owns the conditions, and the words for what is missing yet. In a cluster they are more: all brokers that can run are
active, every partition is led, its ISR is all of its replicas, and each of these has the whole log, committed (PROGRESS
of KIP-966's model).
"""

from __future__ import annotations

from collections.abc import Iterator

from nemesis.simulator.node import Node
from nemesis.simulator.world import World
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition import Partition
from replica.core.partition.roles import CommittedIsr
from replica.core.partition.roles import Leader as PartitionLeader
from replica.core.quorum.roles import Follower, Leader
from replica.core.replica import Replica
from replica.ids import Offset, ReplicaId, TopicPartition


def has_converged(world: World) -> bool:
    """Whether every machine that can run does, and nothing is missing in any log of any of them."""
    return why_not_converged(world) is None


def why_not_converged(world: World) -> str | None:
    """What is still missing, or nothing."""
    if not _quorum_agrees(world):
        return f"the replicas of {world.quorum_log} differ"
    if world.climate.cluster is None:
        return None
    return next(_missing_in_cluster(world), None)


class GroupRecovery:
    """Whether the groups of a healed world have come together: all follow one leader, and have applied what it had.

    Ticks are written for ever. So what counts is how far the leader's log went when there was one leader everywhere.
    That those who have applied equally much are in the same state, is judged at every step.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._targets: dict[TopicPartition, Offset] = {}

    def missing(self) -> str | None:
        """What is still missing, or nothing."""
        return next((what for log in self._world.logs if (what := self._missing_in(log)) is not None), None)

    def _missing_in(self, log: TopicPartition) -> str | None:
        cores = _cores(self._world)
        if len(cores) < sum(not node.is_retired for node in self._world.nodes.values()):
            return f"only replicas {sorted(cores)} are up"
        logs = {replica_id: core.logs[log] for replica_id, core in cores.items()}
        leaders = {own.leader_id for own in logs.values()}
        if len(leaders) > 1 or None in leaders or len({own.leader_epoch for own in logs.values()}) > 1:
            return f"the replicas of {log} do not follow one leader"
        target = self._targets.setdefault(log, max(own.log.log_end_offset for own in logs.values()))
        applied = {replica_id: core.groups[log].applied_offset for replica_id, core in cores.items()}
        if min(applied.values()) < target:
            return f"not all replicas of {log} have applied it up to {target}: {applied}"
        return None


def _cores(world: World) -> dict[ReplicaId, Replica]:
    return {node.replica_id: node.core for node in world.up() if node.core is not None}


def _quorum_agrees(world: World) -> bool:
    """Whether all that can run follow one leader, and its whole log is everywhere, committed."""
    logs = [core.logs[world.quorum_log] for core in _cores(world).values()]
    if len(logs) < sum(not node.is_retired for node in world.nodes.values()):
        return False
    return (
        sum(isinstance(log.role, Leader) for log in logs) == 1
        and all(isinstance(log.role, Leader | Follower) for log in logs)
        and len({log.leader_epoch for log in logs}) == 1
        and len({log.log.log_end_offset for log in logs}) == 1
        and all(log.high_watermark == log.log.log_end_offset for log in logs)
    )


def _missing_in_cluster(world: World) -> Iterator[str]:
    cores = _cores(world)
    for replica_id, core in cores.items():
        if core.metadata.applied_offset != core.logs[world.quorum_log].high_watermark:
            yield f"replica {replica_id} has not applied the metadata"
        broker = core.metadata.image.brokers.get(replica_id)
        if broker is None or not broker.is_active or core.broker is None or core.broker.broker_epoch is None:
            yield f"broker {replica_id} is not active"
    image = next(iter(cores.values())).metadata.image
    for log in world.used_logs:
        missing = _missing_in_partition(log, image.partition(log), cores)
        if missing is not None:
            yield missing


def _missing_in_partition(
    log: TopicPartition, registration: PartitionRegistration | None, cores: dict[ReplicaId, Replica]
) -> str | None:
    if registration is None:
        return f"there is no {log}"
    if registration.leader_id is None:
        return f"{log} has no leader: {registration}"
    expected = [replica_id for replica_id in registration.replicas if replica_id in cores]
    if set(registration.isr) != set(expected):
        return f"the ISR of {log} is not all of {expected}: {registration}"
    if registration.is_reassigned and set(registration.replicas) <= set(cores):
        return f"{log} is still being reassigned: {registration}"
    replicas = {replica_id: _partition(cores[replica_id], log) for replica_id in expected}
    for replica_id, replica in replicas.items():
        if replica is None:
            return f"replica {replica_id} does not host {log}"
        if replica.is_leader != (replica_id == registration.leader_id):
            return f"replica {replica_id} of {log} is a {replica.role.name}: {registration}"
        if isinstance(replica.role, PartitionLeader) and not isinstance(replica.role.isr_state, CommittedIsr):
            return f"the leader of {log} wants another ISR: {replica.role.isr_state}"
    ends = {
        replica_id: (replica.high_watermark, replica.log.log_end_offset)
        for replica_id, replica in replicas.items()
        if replica is not None
    }
    if len({end for pair in ends.values() for end in pair}) > 1:
        return f"the high watermarks and ends of {log} differ: {ends}"
    return None


def _partition(core: Replica, log: TopicPartition) -> Partition | None:
    return None if core.broker is None else core.broker.partitions.get(log)


def lost_to_damage(world: World) -> str | None:
    """Why a partition can never be served again in this world, of which damage is the cause; none if all can be.

    The cluster is right to wait for ever then: for those who may lead a partition, since any other leader might lack
    what was acknowledged, or for as many brokers as the replicas of a topic that is not there yet.
    """
    image = latest_image(world)
    retired = {node.replica_id for node in world.nodes.values() if node.is_retired}
    offline = {
        (log, replica_id)
        for replica_id, core in _cores(world).items()
        for log in ({} if core.broker is None else core.broker.offline)
    }
    for log in world.used_logs if retired or offline else ():
        registration = image.partition(log)
        gone = retired | {replica_id for name, replica_id in offline if name == log}
        if registration is None and len(world.nodes) - len(retired) < _replication_factor(world):
            return f"{log}: damage has taken brokers that it needed to be created"
        if registration is not None and _is_lost(registration, gone):
            return f"{log}: damage has taken all who may lead it"
    return None


def _replication_factor(world: World) -> int:
    return 0 if world.climate.cluster is None else world.climate.cluster.replication_factor


def _is_lost(registration: PartitionRegistration, gone: set[ReplicaId]) -> bool:
    return registration.leader_id in (None, *gone) and registration.may_lead <= gone


def latest_image(world: World) -> MetadataImage:
    """What the controller has decided, as far as a machine that is up has applied it."""
    replays = [core.metadata for core in _cores(world).values()]
    return max(replays, key=lambda replay: replay.applied_offset).image if replays else MetadataImage()


def copied(world: World) -> int:
    """Count the records that all replicas have in the partitions of topics; it rises as long as one catches up.

    Nothing else is written there once the clients have stopped. A group's log has commands of its own.
    """
    if world.climate.cluster is None:
        return 0
    return sum(node.stores[log].log_end_offset for node in world.nodes.values() for log in hosted_logs(world, node))


def hosted_logs(world: World, node: Node) -> list[TopicPartition]:
    """Which of the logs that clients use a machine holds."""
    return [log for log in world.used_logs if log in node.stores]
