"""The log of a state machine, told as a topic-partition."""

from __future__ import annotations

import pytest

from nemesis.cluster.control import group_states
from nemesis.cluster.key_value_client import StoreOptions
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.system import ReplicaState
from nemesis.faults.breakable import PartitionState

LEADER = {1: ("leader", 3, 1, 10, 12), 2: ("follower", 3, 1, 8, 12)}


def told(states: dict[int, tuple[str, int, int | None, int | None, int]]) -> PartitionState | None:
    """What these replicas say of their log: role, epoch, leader, high watermark, end."""
    found = [
        ReplicaState(
            node=node,
            topic_partition="kv-0",
            role=role,
            epoch=epoch,
            leader_id=leader_id,
            high_watermark=high_watermark,
            log_end_offset=log_end_offset,
        )
        for node, (role, epoch, leader_id, high_watermark, log_end_offset) in states.items()
    ]
    return group_states(found, ("kv-0",), (1, 2, 3)).get("kv-0")


@pytest.mark.parametrize(
    ("third", "isr", "leader"),
    [
        (("follower", 3, 1, 10, 10), (1, 2, 3), 1),
        (("follower", 3, 1, 9, 9), (1, 2), 1),
        (("follower", 2, 2, 20, 20), (1, 2), 1),
        (("candidate", 4, None, 10, 12), (), None),
        (("leader", 2, 3, 10, 12), (1, 2), 1),
    ],
)
def test_who_has_what_is_committed_is_in_sync(
    third: tuple[str, int, int | None, int | None, int], isr: tuple[int, ...], leader: int | None
) -> None:
    """Of the newest epoch that anybody knows: its leader, and who follows it and lacks nothing that is committed."""
    epoch = max(3, third[1])
    expected = PartitionState(replicas=(1, 2, 3), isr=isr, leader=leader, leader_epoch=epoch)
    assert told({**LEADER, 3: third}) == expected


def test_a_log_that_nobody_tells_of_is_absent() -> None:
    """Nothing is made up."""
    assert told({}) is None


def test_only_a_cluster_with_a_store_hosts_one() -> None:
    """The command and the logs have the group exactly if the options have the store."""
    plain, hosting = ReplicaOptions(), ReplicaOptions(store=StoreOptions(snapshot_record_bytes=7))
    assert (plain.group_arguments, plain.group_logs) == ((), ())
    assert hosting.group_logs == ("kv-0",)
    assert list(hosting.group_arguments) == [
        *("--group", "kv=key-value"),
        *("--group-snapshot-max-record-bytes-between", "7"),
    ]
