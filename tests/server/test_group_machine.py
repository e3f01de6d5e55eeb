"""A replica that is started with another machine than its group's: it ends and says why, and the others serve on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster
from tests.server.test_group_snapshots import OPTIONS, Counting, events_of, files_of
from tests.server.topics import eventually

pytestmark = pytest.mark.cluster

WRONG = ("--group", "kv=lock")


@pytest.mark.parametrize(
    ("times", "said"), [(5, "kv-0: the log is not"), (120, "kv-0: the snapshot at ")], ids=["log", "snapshot"]
)
async def test_a_replica_with_another_machine_ends_and_the_others_serve_on(
    tmp_path: Path, times: int, said: str
) -> None:
    """Whether it reads so in the log or begins with a snapshot, it applies nothing; started rightly it goes on."""
    cluster = LocalCluster(tmp_path)
    cluster.format()
    cluster.start(options=OPTIONS)
    client = Counting(cluster)
    try:
        total = await client.count(times)
        wrong = next(replica_id for replica_id in cluster.ids if replica_id != client.leader)
        await eventually(lambda: client.seen_by(wrong), lambda seen: seen == b"%d" % total)
        assert bool(files_of(cluster, wrong, ".checkpoint")) == (times > 100)
        cluster.kill(wrong)

        cluster.start(wrong, options=WRONG)
        assert cluster.processes[wrong].wait(PATIENCE_SECONDS) == 1
        (halted,) = [line["reason"] for line in cluster.lines(wrong) if line["event"] == "halted"]
        assert halted.startswith(said)
        assert "it is of state machine counter, this replica was started with lock; start it with the mach" in halted

        total = await client.count(5)
        cluster.start(wrong, options=OPTIONS)
        await eventually(lambda: client.seen_by(wrong), lambda seen: seen == b"%d" % total)
        assert all("halted" not in events_of(cluster, other) for other in cluster.ids if other != wrong)
    finally:
        await client.transport.close()
        cluster.close()
