"""What a world must be like for a wrong rule to show in it: the seed's climate with that changed and all else as it is.

Owns the changes. The right protocol must pass in every world that is made so, or a conviction there would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from nemesis.faults.damage import DamageDisk
from nemesis.faults.partitions import Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.simulated import Clog, DelayMetadata
from nemesis.faults.timekeeping import StopClock
from nemesis.simulator.climate import Climate
from nemesis.simulator.cluster_seeds import (
    with_failing_directories,
    with_forgetting,
    with_reassignments,
    with_replaced_disks,
    with_retention,
    with_rot,
    with_setting_changes,
    with_upgrades,
)
from nemesis.simulator.common_seeds import with_lying_disks
from nemesis.simulator.group_climate import GroupClimate
from nemesis.simulator.group_seeds import LEASE_DRIFT_PPM, with_leases
from nemesis.variants.mutant import Need


def with_needs(climate: Climate, needs: Iterable[Need]) -> Climate:
    """The same climate with all that is needed."""
    for need in needs:
        climate = _CHANGES[need](climate)
    return climate


def _with_slow_lanes(climate: Climate) -> Climate:
    """Most logs are on a slow disk, and processes are killed again and again, and come back at once."""
    return replace(
        climate,
        slow_lanes=0.8,
        slow_lane_ms=(20.0, 400.0),
        weather=(Kill, Partition),
        calm_ms=(20, 600),
        restart_ms=(5, 100),
    )


def _forgetting(climate: Climate) -> Climate:
    """Records reach the disk when the system pleases, and the power goes."""
    assert climate.cluster is not None, climate
    return with_forgetting(replace(climate, cluster=replace(climate.cluster, fsync=False)))


def _with_replaced_disks(climate: Climate) -> Climate:
    """Again and again all are killed, or one, and a disk is replaced; no unclean election gives up what that loses."""
    assert climate.cluster is not None, climate
    cluster = replace(climate.cluster, fsync=True, unclean_leader_election_enable=False)
    return with_replaced_disks(replace(climate, cluster=cluster), a_minute=60.0)


def _with_rot(climate: Climate) -> Climate:
    """Every few seconds a log rots of which others hold everything, and no unclean election gives up what is lost."""
    assert climate.cluster is not None, climate
    cluster = replace(
        climate.cluster,
        partitions=2,
        replication_factor=3,
        min_insync_replicas=2,
        fsync=True,
        unclean_leader_election_enable=False,
    )
    return with_rot(replace(climate, voters=max(3, climate.voters), cluster=cluster), a_minute=20.0)


def _with_retention(climate: Climate) -> Climate:
    """Of each log only the last segment is kept."""
    return with_retention(climate, kept_bytes=1)


def _in_turmoil(climate: Climate) -> Climate:
    """Several epochs in a second, in each of which something is written that not all get, and old news between them."""
    assert climate.cluster is not None, climate
    cluster = replace(
        climate.cluster,
        topics=1,
        partitions=3,
        replication_factor=3,
        min_insync_replicas=2,
        fsync=True,
        elr_enable=True,
        unclean_leader_election_enable=False,
        idempotent=0.0,
        weak_acks=0.5,
        replica_fetch_max_bytes=1,
        replica_fetch_backoff_ms=50,
        broker_heartbeat_interval_ms=300,
        broker_session_timeout_ms=1500,
        replica_lag_time_max_ms=2000,
        leader_imbalance_check_interval_seconds=1,
    )
    return replace(
        climate,
        voters=3,
        spike=0.08,
        spike_ms=600.0,
        duplication=0.05,
        ordered=False,
        ambush=0.0,
        weather=(Partition, Pause, Kill, Stop, Clog),
        calm_ms=(20, 600),
        fault_ms=(50, 2500),
        overlap=0.4,
        rate=15.0,
        appends=0.9,
        election_timeout_ms=300,
        fetch_timeout_ms=600,
        fetch_max_wait_ms=500,
        restart_ms=(5, 100),
        cluster=cluster,
    )


def _with_stale_metadata(climate: Climate) -> Climate:
    """Some broker is some seconds behind the controller most of the time: as patient as that are the voters."""
    assert climate.cluster is not None, climate
    cluster = replace(
        climate.cluster,
        partitions=2,
        appointee_ambush=1.0,
        laggards=True,
        replica_lag_time_max_ms=4000,
        controller_request_timeout_ms=300,
        broker_heartbeat_interval_ms=250,
        broker_session_timeout_ms=1000,
    )
    return replace(
        climate,
        voters=5,
        weather=(Pause, Kill, DelayMetadata),
        calm_ms=(1000, 5000),
        fault_ms=(500, 2500),
        overlap=0.0,
        flush_ms=(20.0, 150.0),
        rate=40.0,
        fetch_timeout_ms=6000,
        fetch_max_wait_ms=500,
        fetch_max_bytes=1 << 20,
        cluster=cluster,
    )


def _in_pairs(climate: Climate) -> Climate:
    """A leader that is alone cannot write, so that nothing but its epoch tells what is new about it."""
    assert climate.cluster is not None, climate
    cluster = replace(climate.cluster, partitions=6, replication_factor=2, min_insync_replicas=2, weak_acks=0.0)
    weather = tuple(kind for kind in climate.weather if kind is not DamageDisk)
    return replace(climate, voters=max(2, climate.voters), weather=weather, cluster=cluster)


def _with_reassignments(climate: Climate) -> Climate:
    """A partition is told to move every few seconds, and no unclean election gives up what it loses by that."""
    assert climate.cluster is not None, climate
    cluster = replace(climate.cluster, unclean_leader_election_enable=False)
    return with_reassignments(replace(climate, cluster=cluster), a_minute=20.0)


def _with_failing_directories(climate: Climate) -> Climate:
    """Every other second a log directory fails, whoever else has what is there, and it is known who may have it all."""
    assert climate.cluster is not None, climate
    cluster = replace(
        climate.cluster, fsync=True, elr_enable=True, unclean_leader_election_enable=False, only_copies_fail=True
    )
    return with_failing_directories(replace(climate, cluster=cluster), a_minute=30.0)


def _with_setting_changes(climate: Climate) -> Climate:
    """Several settings change in a second, one replica in sync may be enough, and leaders hear late of what is enough.

    Followers stand still for long enough to leave the ISR, and not so long that the controller takes them out of it.
    """
    assert climate.cluster is not None, climate
    cluster = replace(
        climate.cluster,
        topics=1,
        partitions=2,
        min_insync_replicas=1,
        fsync=True,
        unclean_leader_election_enable=False,
        elr_enable=True,
        weak_acks=0.0,
        replica_fetch_wait_max_ms=100,
        replica_socket_timeout_ms=300,
        replica_lag_time_max_ms=500,
        broker_heartbeat_interval_ms=500,
        broker_session_timeout_ms=3000,
        controller_request_timeout_ms=500,
    )
    climate = replace(
        climate,
        weather=(Pause, Kill, Partition, DelayMetadata),
        calm_ms=(100, 1000),
        fault_ms=(500, 2500),
        overlap=0.6,
        rate=30.0,
        appends=0.9,
        fetch_timeout_ms=6000,
        fetch_max_wait_ms=500,
        fetch_max_bytes=1 << 20,
        cluster=cluster,
    )
    return with_setting_changes(climate, a_minute=2000.0)


def _with_upgrades(climate: Climate) -> Climate:
    """Replicas are upgraded one by one all the hostile time, and settings are asked for all the while."""
    return with_upgrades(with_setting_changes(climate, a_minute=60.0), a_minute=6.0)


def _with_old_fetches(climate: Climate) -> Climate:
    """Again and again a leader hears nothing until another leads, and then what was sent to it before."""
    assert climate.group is not None, climate
    return replace(
        _undisturbed(climate, _asked_a_lot(climate.group)),
        voters=3,
        latency_ms=(1.0, 20.0),
        overlap=0.0,
        fetch_max_wait_ms=300,
        weather=(Clog,),
        calm_ms=(500, 1200),
        fault_ms=(1650, 2250),
        concurrency=12,
        rate=30.0,
        appends=0.4,
        election_timeout_ms=100,
        fetch_timeout_ms=1500,
    )


def _undisturbed(climate: Climate, group: GroupClimate) -> Climate:
    """Quick disks and a network that loses nothing: what strikes is the weather."""
    return replace(
        climate,
        spike=0.0,
        loss=0.0,
        duplication=0.0,
        flush_ms=(0.5, 4.0),
        slow_lanes=0.0,
        crash_in_step=0.0,
        power_in_step=0.0,
        ambush=0.0,
        group=group,
    )


def _asked_a_lot(group: GroupClimate) -> GroupClimate:
    """One register, of which anybody is asked, and nothing that takes longer than it must."""
    return replace(
        group,
        keys=1,
        counter=False,
        sessions=0.0,
        ask_anyone=0.8,
        stale_reads=0.0,
        lease_reads=0.0,
        read_ms=0.0,
        changing_voters=False,
    )


def _with_leases(climate: Climate) -> Climate:
    """Again and again a leader is cut off from the others, and not from clients, who ask and write a lot.

    A timeout is long, so that a tenth of it is enough for an election and a write.
    """
    assert climate.group is not None, climate
    climate = replace(
        _undisturbed(climate, _asked_a_lot(climate.group)),
        voters=3,
        latency_ms=(0.3, 2.0),
        overlap=0.0,
        fetch_max_wait_ms=300,
        drift_ppm=LEASE_DRIFT_PPM,
        weather=(Partition,),
        calm_ms=(500, 2500),
        fault_ms=(5500, 7000),
        concurrency=30,
        rate=150.0,
        appends=0.3,
        election_timeout_ms=4000,
        fetch_timeout_ms=4000,
        fetch_max_bytes=1 << 20,
    )
    return with_leases(climate, share=0.9)


def _with_standing_clocks(climate: Climate) -> Climate:
    """The clock of a leader stands still, and while it does the leader is cut off from the others, not from clients.

    The others elect somebody soon, and then there is time enough to ask the leader that knows nothing of that. No
    question is content with a lease: a clock that stands still is beyond what leases allow for, so that whoever asks
    there must not trust in clocks, and then must never be answered by one.
    """
    assert climate.group is not None, climate
    return replace(
        _undisturbed(climate, replace(_asked_a_lot(climate.group), leases=True)),
        voters=3,
        latency_ms=(0.3, 2.0),
        drift_ppm=min(climate.drift_ppm, LEASE_DRIFT_PPM),
        weather=(StopClock, Partition),
        calm_ms=(50, 300),
        fault_ms=(700, 1500),
        overlap=0.7,
        concurrency=8,
        rate=30.0,
        appends=0.4,
        election_timeout_ms=150,
        fetch_timeout_ms=300,
        fetch_max_wait_ms=100,
        fetch_max_bytes=1 << 20,
    )


def _with_late_refusals(climate: Climate) -> Climate:
    """Processes are killed and at once there again, and of each end others hear a second or more later."""
    return replace(
        climate,
        refusals=True,
        refusal_ms=(500.0, 5000.0),
        false_refusals=0.0,
        weather=tuple(dict.fromkeys((*climate.weather, Kill))),
        restart_ms=(5, 100),
    )


def _with_false_refusals(climate: Climate) -> Climate:
    """Every half second a process that lives seems to have ended."""
    return replace(climate, refusals=True, refusal_ms=(1.0, 30.0), false_refusals=120.0)


def _with_changing_voters(climate: Climate) -> Climate:
    """Change upon change, among them machines that lose their disks."""
    assert climate.group is not None, climate
    group = replace(
        climate.group, changing_voters=True, initial_voters=3, change_pause_ms=(20, 500), handovers=0.1, wipes=0.2
    )
    weather = tuple(kind for kind in climate.weather if kind is not DamageDisk)
    return replace(climate, voters=5, weather=weather, group=group)


def _with_changes_cut_off(climate: Climate) -> Climate:
    """A leader that is cut off, alone or with another, is asked for one change after the other."""
    assert climate.group is not None, climate
    group = replace(climate.group, initial_voters=5, change_timeout_ms=200, handovers=0.0, wipes=0.0)
    return replace(
        _used_little(replace(climate, group=group)),
        weather=(Partition,),
        calm_ms=(500, 1500),
        fault_ms=(3000, 5000),
        overlap=0.0,
        election_timeout_ms=1000,
        fetch_timeout_ms=2000,
        fetch_max_wait_ms=500,
    )


def _with_changes_at_once(climate: Climate) -> Climate:
    """Leaders are struck as soon as they lead, when flushes are slow, and each is asked for changes from the start."""
    assert climate.group is not None, climate
    group = replace(
        climate.group, initial_voters=4, change_pause_ms=(20, 200), change_timeout_ms=300, handovers=0.0, wipes=0.0
    )
    return replace(
        _used_little(replace(climate, group=group)),
        voters=4,
        flush_ms=(5.0, 80.0),
        ambush=0.9,
        weather=(),
        election_timeout_ms=300,
        fetch_timeout_ms=600,
        fetch_max_wait_ms=300,
        restart_ms=(5, 100),
    )


def _used_little(climate: Climate) -> Climate:
    """A quiet network and quick disks, and few who command and ask."""
    assert climate.group is not None, climate
    group = replace(climate.group, keys=1, counter=False, sessions=0.0, stale_reads=0.0, read_ms=0.0)
    return replace(
        _undisturbed(climate, group),
        latency_ms=(1.0, 10.0),
        concurrency=3,
        rate=6.0,
        fetch_max_bytes=1 << 20,
    )


_CHANGES: Mapping[Need, Callable[[Climate], Climate]] = MappingProxyType(
    {
        Need.LYING_DISKS: with_lying_disks,
        Need.SLOW_LANES: _with_slow_lanes,
        Need.FORGETTING: _forgetting,
        Need.REPLACED_DISKS: _with_replaced_disks,
        Need.ROTTING_LOGS: _with_rot,
        Need.RETENTION: _with_retention,
        Need.TURMOIL: _in_turmoil,
        Need.STALE_METADATA: _with_stale_metadata,
        Need.PAIRS: _in_pairs,
        Need.OLD_FETCHES: _with_old_fetches,
        Need.LEASES: _with_leases,
        Need.STANDING_CLOCKS: _with_standing_clocks,
        Need.LATE_REFUSALS: _with_late_refusals,
        Need.FALSE_REFUSALS: _with_false_refusals,
        Need.CHANGING_VOTERS: _with_changing_voters,
        Need.CHANGES_CUT_OFF: _with_changes_cut_off,
        Need.CHANGES_AT_ONCE: _with_changes_at_once,
        Need.REASSIGNMENTS: _with_reassignments,
        Need.FAILING_DIRECTORIES: _with_failing_directories,
        Need.SETTING_CHANGES: _with_setting_changes,
        Need.UPGRADES: _with_upgrades,
    }
)
