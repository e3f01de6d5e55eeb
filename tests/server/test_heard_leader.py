"""A replica that joins and knows one other, which does not lead: it hears where the leader is, and becomes a voter."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.client.groups.voters import add_voter
from replica.ids import ReplicaId
from replica.storage.meta_properties import random_directory_id
from replica.voters import Voter, VoterSet
from tests.server.local_cluster import LocalCluster
from tests.server.test_membership import GROUP, VIEW, described, format_one, voters_of
from tests.server.topics import eventually

pytestmark = pytest.mark.cluster

JOINING = ReplicaId(4)
LOGS = (None, "kv")
"""The metadata log, and the group's."""


async def leader_of(cluster: LocalCluster, group: str | None) -> ReplicaId:
    """Who leads a log."""
    answer = await eventually(lambda: described(cluster, group), lambda answer: answer is not None)
    assert answer is not None
    assert answer.current_leader is not None
    assert answer.current_leader.leader_id is not None
    return answer.current_leader.leader_id


async def test_a_replica_follows_a_leader_whose_address_nobody_gave_it(tmp_path: Path) -> None:
    """Neither its options, nor its empty logs, nor a broker's registration say it: there are none."""
    with LocalCluster(tmp_path, size=4) as cluster:
        first = [replica_id for replica_id in cluster.ids if replica_id != JOINING]
        initial = [
            Voter(replica_id=each, directory_id=random_directory_id(), address=cluster.addresses[each])
            for each in first
        ]
        for replica_id in cluster.ids:
            format_one(cluster, replica_id, VoterSet.of(initial if replica_id in first else ()))
        options = (*GROUP, "--roles", "controller")
        cluster.voters = []
        cluster.start(*first, options=options)
        leaders = {await leader_of(cluster, group) for group in LOGS}
        cluster.voters = [next(replica_id for replica_id in first if replica_id not in leaders)]
        cluster.start(JOINING, options=(*options, "--advertised-address", cluster.addresses[JOINING]))

        bootstrap = list(cluster.addresses.values())
        for group in LOGS:
            await add_voter(bootstrap, group, JOINING, address=cluster.addresses[JOINING], view_config=VIEW)
            assert [key.replica_id for key in await voters_of(cluster, group)] == cluster.ids
        assert "leader_address_unknown" not in {line["event"] for line in cluster.lines(JOINING)}
