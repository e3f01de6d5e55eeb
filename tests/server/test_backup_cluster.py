"""Back-up and restore with real clusters: what was acknowledged before a back-up is in it, and a new cluster has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sized
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from replica.client.groups.key_value import KeyValueClient
from replica.ids import Offset, ReplicaId
from replica.machines.key_value import prefix
from replica.storage.meta_properties import random_directory_id
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster, command
from tests.server.topics import Topics, all_in_sync, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

GROUP = ("--group", "kv=key-value")


@contextmanager
def running(
    folder: Path, *options: object, backup: Path | None = None, cluster_id: str = "old", size: int = 3
) -> Iterator[LocalCluster]:
    """Replicas, whose groups begin with the back-up, if there is one."""
    folder.mkdir()
    begin = () if backup is None else ("--from-backup", backup)
    with LocalCluster(folder, size) as cluster:
        voters = ",".join(f"{voter}={cluster.addresses[voter]}={random_directory_id()}" for voter in cluster.ids)
        for replica_id in cluster.ids:
            cluster.format_one(replica_id, "--initial-voters", voters, *begin, cluster_id=cluster_id)
        cluster.start(options=options)
        yield cluster


async def listening(cluster: LocalCluster) -> LocalCluster:
    """Wait until every replica takes connections: a client gives up soon whom nobody listens to anywhere."""

    async def refused() -> list[str]:
        outcomes = await asyncio.gather(
            *(asyncio.open_connection(*address.split(":")) for address in cluster.addresses.values()),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if not isinstance(outcome, BaseException):
                outcome[1].close()
        return [str(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]

    await eventually(refused, lambda found: not found)
    return cluster


def bootstrap(cluster: LocalCluster) -> tuple[str, ...]:
    """How commands find it."""
    return ("--bootstrap", ",".join(cluster.addresses.values()), "--timeout-ms", "30000")


async def replica(*arguments: object, check: bool = True) -> tuple[int, str]:
    """Run a command while others go on; its exit code and all that it says."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command(*arguments), stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    told = (await process.communicate())[0].decode()
    assert process.returncode is not None
    assert process.returncode == 0 or not check, told
    return process.returncode, told


async def more_of(acknowledged: Mapping[int, Sized]) -> None:
    """Wait until more was acknowledged in every partition."""
    before = {number: len(of) for number, of in acknowledged.items()}

    async def has_grown() -> bool:
        return all(len(of) > before[number] + 5 for number, of in acknowledged.items())

    await eventually(has_grown, bool)


@asynccontextmanager
async def counting_up(store: KeyValueClient) -> AsyncIterator[list[int]]:
    """Write 0, 1, 2, ... under a key of its own each meanwhile; those that are acknowledged."""
    acknowledged: list[int] = []

    async def write() -> None:
        while True:
            number = len(acknowledged)
            await store.put(b"key-%06d" % number, b"%d" % number)
            acknowledged.append(number)

    writing = asyncio.create_task(write())
    try:
        yield acknowledged
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_a_group_goes_on_in_a_new_cluster_where_its_back_up_ends(tmp_path: Path) -> None:
    """All that was acknowledged before is there, and of what was written meanwhile the first so many; none is torn.

    The new cluster has revisions and counts on from there, in a log that begins where the back-up ends.
    """
    file = tmp_path / "kv.backup"
    with running(tmp_path / "old", *GROUP) as old:
        await listening(old)
        async with KeyValueClient(old.addresses.values()) as store, counting_up(store) as acknowledged:
            while len(acknowledged) < 50:
                await asyncio.sleep(0.01)
            before = len(acknowledged)
            _, told = await replica("group", "backup", "kv", "--output", file, *bootstrap(old))
            after = len(acknowledged)
        assert told.startswith(f"{file}: group kv of cluster old, machine key-value, all below offset ")
        code, told = await replica("group", "backup", "kv", "--output", file, *bootstrap(old), check=False)
        assert (code, told) == (1, f"Error: {file} exists already; choose another name\n")

    with running(tmp_path / "new", *GROUP, backup=file, cluster_id="new") as new:
        await listening(new)
        async with KeyValueClient(new.addresses.values()) as store:
            found = (await store.range(prefix(b"key-"))).result.found
            numbers = [int(each.value) for each in found]
            assert numbers == list(range(len(numbers)))
            assert before <= len(numbers) <= after + 1
            assert [each.mod_revision for each in found] == [2 + number for number in numbers]
            assert (await store.put(b"more", b"")).revision == 2 + len(numbers)
        code, told = await replica("dump-log", file)
        assert "group: kv cluster: old machine: key-value" in told
        assert "crc: ok" in told
        assert all("halted" not in {line["event"] for line in new.lines(one)} for one in new.ids)

    with running(tmp_path / "wrong", "--group", "kv=counter", backup=file, cluster_id="wrong", size=1) as wrong:
        assert wrong.processes[wrong.ids[0]].wait(PATIENCE_SECONDS) == 1
        (reason,) = [line["reason"] for line in wrong.lines(wrong.ids[0]) if line["event"] == "halted"]
        assert "is not for this replica: it is of state machine key-value, this replica was" in reason


async def created(cluster: LocalCluster, topic: str, *replicas: str) -> None:
    """Create a topic as soon as its brokers are there."""
    words = ["topic", "create", topic, *(word for ids in replicas for word in ("--assignment", ids))]

    async def create() -> tuple[int, str]:
        return await replica(*words, *bootstrap(cluster), check=False)

    await eventually(create, lambda done: done[0] == 0 or "TOPIC_ALREADY_EXISTS" in done[1])


async def test_a_broker_is_replaced_while_it_is_written_to(tmp_path: Path) -> None:
    """Broken off and begun again, it moves partitions and votes to another; nothing that was acknowledged is lost."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    async with AsyncExitStack() as closed:
        cluster = closed.enter_context(LocalCluster(folder, 4, voters=3))
        topics, single = [
            await closed.enter_async_context(Topics(cluster.addresses, name)) for name in ("orders", "single")
        ]
        words = ("cluster", "replace-broker", "--broker-id", 1, "--with", 4, *bootstrap(cluster))
        cluster.format()
        cluster.start()
        await listening(cluster)
        await created(cluster, "single", "1")
        await created(cluster, "orders", *["1,2,3"] * 6)
        await topics.wait_partitions(all_in_sync)
        await single.write(0, "the only copy")

        code, told = await replica(*words, "--check", check=False)
        assert (code, "last copy" in told, "votes in: __cluster_metadata" in told) == (1, True, True), told

        acknowledged: dict[int, list[tuple[Offset, str]]] = {number: [] for number in range(6)}

        async def write(number: int) -> None:
            while True:
                value = f"{number}:{len(acknowledged[number])}"
                acknowledged[number].append((await topics.write(number, value), value))

        writing = [asyncio.create_task(write(number)) for number in acknowledged]
        begun = await asyncio.create_subprocess_exec(
            *command(*words, "--accept-last-copies", "--at-once", 1), stdout=asyncio.subprocess.PIPE
        )
        assert begun.stdout is not None
        first = await begun.stdout.readline()
        assert first == b"7 partitions left on broker 1, 1 of them moving\n"
        begun.kill()
        await begun.wait()
        _, told = await replica(*words, "--accept-last-copies")
        assert told.splitlines()[-2:] == [
            "broker 4 votes in __cluster_metadata in the place of broker 1",
            "broker 4 has taken the place of broker 1; stop that one, and then `replica cluster unregister --broker-id "
            "1`",
        ]
        cluster.kill(ReplicaId(1))
        await more_of(acknowledged)
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)

        found = {number: await topics.read(number) for number in acknowledged}
        assert all(found[number][offset] == value for number, of in acknowledged.items() for offset, value in of)
        assert {one.replicas for one in (await topics.partitions()).values()} == {(4, 2, 3)}
        assert await single.read(0) == {0: "the only copy"}
        code, told = await replica("quorum", "describe", "--format", "json", *bootstrap(cluster))
        voters = {row["replica_id"] for row in json.loads(told)[0]["replicas"] if row["role"] == "voter"}
        assert voters == {2, 3, 4}
        await eventually(
            lambda: replica("cluster", "unregister", "--broker-id", 1, *bootstrap(cluster), check=False),
            lambda done: done[0] == 0,
        )


async def test_a_topic_is_restored_in_another_cluster(tmp_path: Path) -> None:
    """All that was acknowledged before the back-up began is there at its offset, and beyond it a beginning of the rest.

    A second back-up adds what came since; what is damaged afterwards is refused before anything is made.
    """
    folder = tmp_path / "backups" / "orders"
    acknowledged: dict[int, dict[Offset, str]] = {0: {}, 1: {}}
    with running(tmp_path / "old") as old:
        await listening(old)
        topics = Topics(old.addresses, "orders")
        await topics.create(partitions=2, replication_factor=3, min_isr=2)

        async def write(number: int) -> None:
            while True:
                value = f"{number}:{len(acknowledged[number])}"
                acknowledged[number][await topics.write(number, value)] = value

        writing = [asyncio.create_task(write(number)) for number in acknowledged]
        before: dict[int, dict[Offset, str]] = {}
        for _ in range(2):
            await more_of(acknowledged)
            before = {number: dict(of) for number, of in acknowledged.items()}
            await replica("topic", "backup", "orders", "--output", folder, *bootstrap(old))
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        source = {number: await topics.read(number) for number in acknowledged}
        await topics.close()

    with running(tmp_path / "new", cluster_id="new", size=1) as new:
        await listening(new)
        topics = Topics(new.addresses, "orders")
        restore = ("topic", "restore", folder, "--replication-factor", 1, *bootstrap(new))
        (segment, *_) = sorted((folder / "orders-0").iterdir())
        whole = segment.read_bytes()
        segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        code, told = await replica(*restore, check=False)
        assert (code, f"{segment} is damaged" in told) == (1, True), told
        segment.write_bytes(whole)
        await eventually(
            lambda: replica(*restore, check=False), lambda done: done[0] == 0 or "exists already" in done[1]
        )
        restored = {number: await topics.read(number) for number in acknowledged}
        await topics.close()
    for number in acknowledged:
        assert before[number].items() <= restored[number].items() <= source[number].items()
        assert [*restored[number]] == [*range(len(restored[number]))]
