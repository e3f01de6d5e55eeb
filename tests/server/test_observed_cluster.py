"""A cluster of real processes as its operator sees it: by its pages of metrics, in a terminal, and by its probes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from replica.cli.top_rows import Page, read_page
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import ReplicaId
from tests.server.local_cluster import LocalCluster, held_address, run_replica
from tests.server.otlp_receiver import receiving
from tests.server.topics import Topics, eventually

pytestmark = pytest.mark.cluster

TWO, THREE = ReplicaId(2), ReplicaId(3)
BASE_OFFSET = "highwater.base_offset"
Pages = dict[ReplicaId, str]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three formatted replicas, not started."""
    with LocalCluster(tmp_path) as cluster:
        cluster.format()
        yield cluster


@pytest.fixture
def pages(cluster: LocalCluster) -> Iterator[Pages]:
    """Start them; where each serves its metrics."""
    with ExitStack() as held:
        pages = {replica_id: held.enter_context(held_address()) for replica_id in cluster.ids}
        for replica_id, address in pages.items():
            cluster.start(replica_id, options=("--metrics-listen", address))
        yield pages


def asked(cluster: LocalCluster, replica_id: ReplicaId, question: str) -> int:
    """The exit code of a probe."""
    return run_replica("health", "--address", cluster.addresses[replica_id], question, check=False).returncode


def labels(**told: str) -> tuple[tuple[str, str], ...]:
    """Labels as a page has them."""
    return tuple(sorted(told.items()))


def of_topic(page: Page, name: str, **told: str) -> float | None:
    """What a page says of the topic's partition."""
    return page.metrics.get(name, {}).get(labels(topic="t", partition="0", **told))


async def test_an_operator_sees_what_the_cluster_does(cluster: LocalCluster, pages: Pages) -> None:
    """Probes tell readiness; pages tell who leads, how far followers are and what was asked; top shows all three."""
    async with Topics(cluster.addresses) as topics:
        await topics.create(partitions=1, replication_factor=3, min_isr=2)
        for value in ("a", "b", "c"):
            await topics.write(0, value)
        found = await topics.wait_partitions(lambda partitions: len(partitions[0].isr) == 3)
        leader_id = found[0].leader_id
        assert leader_id is not None

        async def leaders_page() -> Page:
            return read_page(pages[leader_id])

        followers = [replica_id for replica_id in cluster.ids if replica_id != leader_id]
        page = await eventually(
            leaders_page,
            lambda page: all(of_topic(page, "replica_follower_lag", follower=str(each)) == 0 for each in followers),
        )
        assert of_topic(page, "replica_has_leader") == of_topic(page, "replica_role", role="leader") == 1
        assert of_topic(page, "replica_high_watermark") == of_topic(page, "replica_log_end_offset") == 3
        assert of_topic(page, "replica_role_changes_total", role="leader") == 1
        times = page.metrics["replica_request_seconds_count"]
        assert times[labels(api="Produce", asker="client")] >= 3
        assert times[labels(api="Fetch", asker="replica")] >= 3
        assert page.metrics["replica_memory_max_bytes"].keys() == {
            labels(purpose=each) for each in ("answers", "lanes")
        }
        all_pages = [read_page(address) for address in pages.values()]
        assert sum(each.total("replica_active_controller_count") or 0 for each in all_pages) == 1
        elected = labels(topic=METADATA_LOG.topic, partition="0", role="leader")
        assert sum(each.metrics["replica_role_changes_total"].get(elected, 0) for each in all_pages) >= 1

        async def readiness() -> set[int]:
            return {asked(cluster, replica_id, "--ready") for replica_id in cluster.ids}

        await eventually(readiness, lambda answers: answers == {0})
        shown = run_replica("top", "--metrics", ",".join(pages.values()), "--interval-ms", "500", "--once").stdout
        assert "3 of 3 pages read" in shown
        assert len(shown.splitlines()) == 6
        assert {line.split()[2] for line in shown.splitlines()[3:]} == {"controller", "follower"}


async def test_one_that_waits_for_the_others_is_alive_and_not_ready(cluster: LocalCluster) -> None:
    """Alone of three controllers a replica answers, and says that it must not be sent clients yet."""
    cluster.start(TWO)

    async def life() -> int:
        return asked(cluster, TWO, "--live")

    await eventually(life, lambda answer: answer == 0)
    assert asked(cluster, TWO, "--ready") == 1
    cluster.start(THREE)

    async def readiness() -> int:
        return asked(cluster, TWO, "--ready")

    await eventually(readiness, lambda answer: answer == 0)


async def test_one_write_is_one_trace_of_the_whole_cluster(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leader and followers, which tell each other nothing of it, export spans of the same trace to a collector."""
    with receiving() as collector:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        cluster.start()
        async with Topics(cluster.addresses) as topics:
            await topics.create(partitions=1, replication_factor=3, min_isr=3)
            offset = await topics.write(0, "a")
        for replica_id in cluster.ids:
            assert cluster.stop(replica_id) == 0
    (root,) = [span for span in collector.spans if (span.name, span.attributes.get(BASE_OFFSET)) == ("produce", offset)]
    below = [span for span in collector.spans if span.parent_id == root.span_id]
    assert {span.trace_id for span in below} == {root.trace_id}
    assert {"append", "follower fetch", "high watermark", "answer", "follow"} <= {span.name for span in below}
    followers = {str(replica_id) for replica_id in cluster.ids} - {root.attributes["service.instance.id"]}
    assert len(followers) == 2
    exported = [span.attributes["service.instance.id"] for span in below if span.name == "follow"]
    assert sorted(map(str, exported)) == sorted(followers)
    fetched = {span.attributes["highwater.follower"] for span in below if span.name == "follower fetch"}
    assert {str(follower) for follower in fetched} == followers
