"""The climate of a cluster world, drawn from a seed.

Owns the proportions. Network, disks, clocks and weather are those of any other world; what is drawn here beside them is
the cluster itself: how many brokers, which topics, how patient they are, and what clients ask of them.

Whatever is drawn must let a healed cluster recover, or a world that does not recover would say nothing. So a climate
leaves out what takes records for ever from those who may lead:

1. Without ``fsync`` a power loss takes what was acknowledged, and so may a disk that fails: neither is in the weather,
   but for a share of worlds in which the power goes (``with_forgetting``), and each step is judged, but no recovery.
2. Damage to the metadata log takes a replica for ever, and damage to others may take what somebody alone holds: it is
   there with three replicas and a minimum of two in sync only. (Whoever may lead can still be gone, if the others have
   lost their place in the ISR before; then nothing is promised, and the run says so.) Where disks are replaced none is
   damaged: of the copies that a record has, one cause takes enough. Logs that rot are those that others hold whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from random import Random

from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, PowerLoss
from nemesis.faults.fault import Fault
from nemesis.simulator.climate import Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.common_seeds import draw_common_climate, with_batches
from nemesis.simulator.faults import drawn_in_clusters

CLUSTER_VOTERS = (3, 3, 3, 3, 3, 3, 3, 4, 5, 2, 1)
"""Cluster sizes in the proportion in which seeds have them; every broker is a voter, too."""
CALM_MS_MIN, CALM_MS_MAX = 200, 4000
"""Between two faults there is a time in this range at least."""
FETCHES_IN_TIMEOUT = 3
"""How many empty fetches of the metadata log fit into the time after which a voter gives its leader up."""
STEPS_RATIO = 5
PARTITIONS_RATIO = 2
APPOINTEE_AMBUSH_SHARE = 0.2
"""How many climates have what only clusters can have befall them."""
SNAPSHOTS_SHARE = 0.7
"""How many climates have metadata that are taken down often enough for a log to give way; in the others all is kept."""
OBSERVERS_SHARE = 0.4
REASSIGNMENTS_SHARE = 0.4
REPLACED_DISKS_SHARE = 0.4
"""How many climates have partitions that move; a broker that is not needed is there for them to move to."""
RETENTION_SHARE = 0.06
KEPT_BYTES = (1, 4000, 1 << 40)
"""How much of a log retention keeps: the last segment, a few, or all, so that only what is asked for is deleted."""
PASSING_TOPIC_SHARE = 0.15
"""How many climates have a topic that is created and deleted, again and again."""
ROT_SHARE = 0.15
FAILING_DIRECTORIES_SHARE = 0.15
"""How many of the climates in which nothing else takes records have logs that rot."""
SETTING_CHANGES_SHARE = 0.1
"""How many climates have settings of brokers and topics that change; ``seeds`` draws it, and what follows."""
UPGRADES_SHARE = 0.1
"""How many climates have replicas of two releases, of which the older ones are upgraded."""
UPGRADED_SETTING_CHANGES = 20.0
"""How many settings change there at least, a minute: they are refused until the feature level is raised."""
ROT_RATE = 40.0
"""How much is written there at least, in operations a second."""
FORGETTING_SHARE = 0.4
"""How many of the climates without ``fsync`` lose their power."""
PIECE_BYTES = (200, 800)
"""How much one answer brings where it brings little: a batch, or part of a snapshot."""
_LOSING = (PowerLoss, FailDisk, DamageDisk)
_POWERFUL = frozenset({PowerLoss, FailDisk, DamageDisk})


def draw_cluster_climate(random: Random) -> Climate:
    """The climate of a seed."""
    climate = _with_time_to_register(draw_common_climate(random))
    voters = random.choice(CLUSTER_VOTERS)
    cluster = _draw_cluster(random, voters)
    weather = climate.weather
    if cluster.replication_factor < 3 or cluster.min_insync_replicas < 2:
        weather = tuple(kind for kind in weather if kind is not DamageDisk)
    rate = climate.rate * PARTITIONS_RATIO  # The same clients have several logs to write to.
    if weather:
        weather = (
            *weather,
            *(fault for fault, dice in drawn_in_clusters() if random.random() < dice.share_in_clusters),
        )
    if random.random() < APPOINTEE_AMBUSH_SHARE:
        cluster = replace(cluster, appointee_ambush=random.choice((0.3, 1.0)))
    climate = replace(climate, voters=voters, weather=weather, rate=rate, cluster=cluster)
    climate = climate if cluster.fsync else _with_power(climate)
    climate = _with_snapshots(climate, random) if random.random() < SNAPSHOTS_SHARE else climate
    climate = _with_reassignments(climate, random) if random.random() < REASSIGNMENTS_SHARE else climate
    if random.random() < REPLACED_DISKS_SHARE:
        climate = with_replaced_disks(climate, a_minute=random.choice((2.0, 5.0, 15.0)))
    dice = Random(random.getrandbits(64))
    return _maybe_with_failing_directories(_maybe_with_rot(_with_additions(climate, dice), dice), dice)


def _with_additions(climate: Climate, dice: Random) -> Climate:
    """The same climate with what was added to the drawing later, from dice that no other draw depends on."""
    climate = with_batches(climate, dice)
    assert climate.cluster is not None, climate
    if dice.random() < RETENTION_SHARE and not climate.cluster.unclean_leader_election_enable:
        numbering_nothing = replace(climate, cluster=replace(climate.cluster, idempotent=0.0))
        climate = with_retention(numbering_nothing, kept_bytes=dice.choice(KEPT_BYTES))
    cluster = climate.cluster
    assert cluster is not None, climate
    if dice.random() < PASSING_TOPIC_SHARE:
        climate = replace(climate, cluster=replace(cluster, passing_topic=True))
    if not cluster.fsync and cluster.retention_bytes < 0 and dice.random() < FORGETTING_SHARE:
        return with_forgetting(climate)
    return climate


def with_retention(climate: Climate, *, kept_bytes: int) -> Climate:
    """The same climate where the logs of partitions begin later and later: by retention, and as somebody asks."""
    assert climate.cluster is not None, climate
    cluster = replace(climate.cluster, retention_bytes=kept_bytes, log_retention_check_interval_ms=500)
    return replace(climate, cluster=cluster)


def with_forgetting(climate: Climate) -> Climate:
    """The same climate, of a cluster without ``fsync``, where the power goes.

    With eligible leader replicas: without them the last in-sync replica keeps its place whatever it has lost.
    """
    assert climate.cluster is not None, climate
    assert not climate.cluster.fsync, climate
    cluster = replace(climate.cluster, elr_enable=True, unclean_leader_election_enable=False)
    weather = tuple(dict.fromkeys((*climate.weather, PowerLoss)))
    return replace(climate, weather=weather, cluster=cluster)


def with_replaced_disks(climate: Climate, *, a_minute: float) -> Climate:
    """The same climate where disks are replaced so often, and who votes changes with them. No disk rots beside that."""
    assert climate.cluster is not None, climate
    weather = tuple(kind for kind in climate.weather if kind is not DamageDisk)
    return replace(climate, weather=weather, cluster=replace(climate.cluster, disk_losses=a_minute))


def with_rot(climate: Climate, *, a_minute: float) -> Climate:
    """The same climate where cold batches of partitions rot so often, and so much is written that there are some.

    No disk is replaced or damaged beside that.
    """
    assert climate.cluster is not None, climate
    weather = tuple(kind for kind in climate.weather if kind is not DamageDisk)
    cluster = replace(climate.cluster, topics=1, rot=a_minute, disk_losses=0.0)
    return replace(climate, weather=weather, rate=max(ROT_RATE, climate.rate), appends=0.8, cluster=cluster)


def with_failing_directories(climate: Climate, *, a_minute: float) -> Climate:
    """The same climate where each broker has two log directories, of which one fails so often. Nothing else is lost."""
    assert climate.cluster is not None, climate
    weather = tuple(kind for kind in climate.weather if kind not in {DamageDisk, FailDisk})
    cluster = replace(climate.cluster, directory_losses=a_minute, rot=0.0, disk_losses=0.0)
    return replace(climate, weather=weather, cluster=cluster)


def with_setting_changes(climate: Climate, *, a_minute: float) -> Climate:
    """The same climate where settings of brokers and topics change so often."""
    assert climate.cluster is not None, climate
    return replace(climate, cluster=replace(climate.cluster, setting_changes=a_minute))


def with_upgrades(climate: Climate, *, a_minute: float) -> Climate:
    """The same climate where replicas begin with two releases, of which so many are upgraded, and settings change."""
    assert climate.cluster is not None, climate
    changes = climate.cluster.setting_changes or UPGRADED_SETTING_CHANGES
    return replace(climate, cluster=replace(climate.cluster, upgrades=a_minute, setting_changes=changes))


def _maybe_with_rot(climate: Climate, dice: Random) -> Climate:
    """The same climate, perhaps with logs that rot, where others hold what they held and nothing else takes it."""
    if not _others_hold_all(climate) or dice.random() >= ROT_SHARE:
        return climate
    return with_rot(climate, a_minute=dice.choice((2.0, 6.0, 20.0)))


def _maybe_with_failing_directories(climate: Climate, dice: Random) -> Climate:
    """The same climate, perhaps with brokers of two log directories, of which one fails now and then."""
    assert climate.cluster is not None, climate
    if climate.cluster.rot or not _others_hold_all(climate) or dice.random() >= FAILING_DIRECTORIES_SHARE:
        return climate
    return with_failing_directories(climate, a_minute=dice.choice((2.0, 6.0, 20.0)))


def _others_hold_all(climate: Climate) -> bool:
    """Whether what one disk loses others have, and nothing else takes it."""
    cluster = climate.cluster
    assert cluster is not None, climate
    is_safe = cluster.replication_factor > 1 and cluster.fsync and not cluster.unclean_leader_election_enable
    return is_safe and not cluster.disk_losses and DamageDisk not in climate.weather


def _with_reassignments(climate: Climate, random: Random) -> Climate:
    """The same climate where partitions move, seldom enough to arrive, or so often that they hardly ever do."""
    return with_reassignments(climate, a_minute=random.choice((6.0, 20.0, 60.0)))


def with_reassignments(climate: Climate, *, a_minute: float) -> Climate:
    """The same climate where partitions move so often, and a broker more where all are replicas of each."""
    cluster = climate.cluster
    assert cluster is not None, climate
    observers = max(cluster.observers, cluster.replication_factor + 1 - climate.voters)
    return replace(climate, cluster=replace(cluster, reassignments=a_minute, observers=observers))


def _with_snapshots(climate: Climate, random: Random) -> Climate:
    """The same climate where the metadata log gives way to snapshots, and brokers without a vote lag far behind it.

    A snapshot must not be superseded for ever before it has been fetched piece by piece over the slowest network.
    """
    assert climate.cluster is not None, climate
    cluster = replace(
        climate.cluster,
        metadata_log_max_record_bytes_between_snapshots=random.choice((1, 1500, 4000)),
        metadata_log_max_snapshot_interval_ms=random.choice((3_000, 20_000)),
    )
    if random.random() < OBSERVERS_SHARE:
        cluster = replace(cluster, observers=random.choice((1, 1, 2)))
    pieces = random.choice(PIECE_BYTES) if climate.fetch_max_bytes == 1 else climate.fetch_max_bytes
    return replace(climate, fetch_max_bytes=pieces, cluster=cluster)


def _with_time_to_register(climate: Climate) -> Climate:
    """The same climate with some more time between two faults and two crashes.

    A broker that comes back waits for the session of its last process to end, registers, and catches up, before it
    takes part in anything; where all are always about to, nothing else happens. And a cluster takes many more steps a
    second than one quorum does, each of which may be the last. A controller that is followed by the next one before a
    session has ended never fences anybody; so its followers' fetches wait for far less than they take to give it up.
    """
    low_ms, high_ms = climate.calm_ms
    return replace(
        climate,
        fetch_max_wait_ms=min(climate.fetch_max_wait_ms, climate.fetch_timeout_ms // FETCHES_IN_TIMEOUT),
        calm_ms=(max(low_ms, CALM_MS_MIN), max(high_ms, CALM_MS_MAX)),
        crash_in_step=climate.crash_in_step / STEPS_RATIO,
        power_in_step=climate.power_in_step / STEPS_RATIO,
    )


def is_bearable(climate: Climate, faults: Collection[Fault]) -> bool:
    """Whether a cluster can keep its promises in this climate under these faults, and recover from them."""
    cluster = climate.cluster
    assert cluster is not None, climate
    loses = climate.power_in_step > 0 or any(isinstance(fault, _LOSING) for fault in faults)
    damaged = any(isinstance(fault, DamageDisk) for fault in faults)
    return (
        cluster.min_insync_replicas <= cluster.replication_factor <= climate.voters
        and (cluster.fsync or not loses or _may_forget_bearably(climate, faults))
        and (not damaged or (cluster.replication_factor >= 3 and cluster.min_insync_replicas >= 2))
        and cluster.is_patient
    )


def _may_forget_bearably(climate: Climate, faults: Iterable[Fault]) -> bool:
    """Whether only the power takes what was acknowledged, where that is known and the controller asks who has what."""
    assert climate.cluster is not None, climate
    is_known = climate.may_forget and climate.cluster.elr_enable and not climate.cluster.unclean_leader_election_enable
    return is_known and not any(isinstance(fault, FailDisk | DamageDisk) for fault in faults)


def _with_power(climate: Climate) -> Climate:
    """The same climate where nothing that a process has written is ever lost."""
    weather = tuple(kind for kind in climate.weather if kind not in _POWERFUL)
    return replace(climate, power_in_step=0.0, weather=weather)


def _draw_cluster(random: Random, voters: int) -> ClusterClimate:
    replication_factor = min(voters, random.choice((3, 3, 3, 3, 3, 3, 2, 1)))
    is_unclean = random.random() < 0.1
    return replace(
        _draw_pace(random),
        topics=random.choice((1, 1, 2)),
        partitions=random.choice((1, 1, 2, 3)),
        replication_factor=replication_factor,
        min_insync_replicas=min(replication_factor, random.choice((1, 2, 2))),
        fsync=random.random() < 0.9,
        unclean_leader_election_enable=is_unclean,
        elr_enable=random.random() < 0.8,
        idempotent=random.choice((0.0, 0.5, 1.0)),
        weak_acks=random.choice((0.0, 0.0, 0.3)),
        follower_reads=random.choice((0.0, 0.3, 0.8)),
        replica_fetch_max_bytes=1 if random.random() < 0.3 else 1 << 20,
        leader_imbalance_check_interval_seconds=random.choice((2, 10, 300)),
    )


def _draw_pace(random: Random) -> ClusterClimate:
    """Timing in Kafka's proportions: the wait of a fetch below its timeout, that below a session, that below a lag.

    Most worlds are hurried, so that much happens in them.
    """
    session_ms = random.choice((1500, 1500, 3000, 9000))
    wait_ms = random.choice((100, 250, 500))
    return ClusterClimate(
        replica_fetch_wait_max_ms=wait_ms,
        replica_socket_timeout_ms=max(2 * wait_ms, session_ms // random.choice((2, 3))),
        broker_heartbeat_interval_ms=session_ms // random.choice((4, 5)),
        broker_session_timeout_ms=session_ms,
        replica_lag_time_max_ms=session_ms * random.choice((4, 6)) // 3,
        replica_fetch_backoff_ms=random.choice((50, 200, 1000)),
        controller_retry_backoff_ms=random.choice((50, 100, 200)),
        controller_request_timeout_ms=session_ms // 4,
        replica_high_watermark_checkpoint_interval_ms=random.choice((500, 5000)),
    )
