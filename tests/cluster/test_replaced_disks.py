"""One disk is replaced by an empty one while all replicas are down: what the others hold is not lost by that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.cluster.replica_options import ReplicaOptions, TopicOptions
from nemesis.faults.replaced_disks import ReplaceDisk
from nemesis.faults.targets import Role
from nemesis.history import METADATA_LOG
from nemesis.schedules.schedule import Heal, Inject
from tests.cluster.replaced_disks import CASES, RECORDS, TIMING, Case, play, why_wrong
from tests.cluster.stage import NAME, Stage, running
from tests.depth import at_night

pytestmark = pytest.mark.cluster


MARKS = {
    "three-replicas-2": [at_night("as that of the other follower")],
    "three-replicas-1-without-elr": [at_night("as with eligible leader replicas: an intact log leads")],
    "three-replicas-2-without-elr": [at_night("as that of the other follower")],
    "last-in-sync-1-without-elr": [at_night("as with eligible leader replicas: the last in sync leads")],
}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=MARKS.get(case.name, ())) for case in CASES])
async def test_an_empty_disk_takes_no_records_with_it(tmp_path: Path, case: Case) -> None:
    """An intact log leads, by itself or by an operator's word, and all records are read."""
    seen = await play(tmp_path, case)

    assert why_wrong(case, seen) is None, seen


async def test_a_broker_that_is_known_by_its_id_alone_is_found_out(tmp_path: Path) -> None:
    """Its empty disk passes for the one that was the last in sync, and the other replica cuts its log to nothing."""
    case = replace(next(case for case in CASES if case.waits), variant="brokers-by-id-alone")

    seen = await play(tmp_path, case)

    lost = f"replica {seen.replaced} leads, whose disk is empty, and {RECORDS} records are lost"
    assert why_wrong(case, seen) == lost


OPTIONS = ReplicaOptions(topics=TopicOptions(partitions=1), timing=TIMING)


@pytest.mark.parametrize("outage", [False, True], ids=["alone", "outage"])
async def test_a_disk_is_replaced_and_is_in_sync_and_votes_when_it_is_healed(tmp_path: Path, outage: bool) -> None:
    """The fault is over when the leader's new disk has everything, and the vote that was on the old one."""
    async with running(Stage(tmp_path, OPTIONS)) as stage:
        for value in range(20):
            await stage.append(value)
        before = await stage.cluster.cluster_state()
        await stage.do(Inject(fault_id=0, fault=ReplaceDisk(target=Role.LEADER, outage=outage)), Heal(fault_id=0))
        await stage.injector.heal_all()

        assert before is not None
        after = await stage.cluster.cluster_state()
        assert after is not None
        (replaced,) = stage.told("end-replacement")["replicas"]
        assert replaced in after.partitions[NAME].isr
        changed = {
            node for node in after.registrations if after.registrations[node].disk != before.registrations[node].disk
        }
        assert changed == {replaced}
        assert await stage.cluster.voters.of(METADATA_LOG) == (1, 2, 3)
        polled = await stage.client.poll(NAME, 0)
        assert [value for _, value in polled.records] == list(range(20))
