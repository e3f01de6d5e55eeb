"""Queues made of a store's keys: what processes do with them, and which of it is convicted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nemesis.cluster.store import Answer
from nemesis.pipeline.local import with_run_id
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.workload.objects import Process
from nemesis.workload.queue import ATTEMPTS_MAX, QueueWorkload
from nemesis.workload.workload import Setup
from tests.pipeline.object_runs import done, history_of
from tests.workload.fake_store import FakeStore, FakeStoreClient
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording
from tests.workload.test_objects import anomalies_of, run_on

Rows = tuple[dict[str, Any], ...]


def put(value: int, kind: str = "ok", process: int = 0) -> Rows:
    """An enqueue, and how it ended."""
    return done(process, "invoke", "enqueue", value=value), done(process, kind, "enqueue")


def took(value: int | None, kind: str = "ok", process: int = 0) -> Rows:
    """A dequeue, and what it took."""
    return done(process, "invoke", "dequeue"), done(process, kind, "dequeue", value=value)


@pytest.mark.parametrize(
    ("rows", "is_right"),
    [
        ((*put(1), *put(2), *took(1), *took(2), *took(None)), True),
        ((*put(1), *put(2), *took(2)), False),
        ((*put(1), *took(None)), False),
        ((*put(1), *took(1), *took(1)), False),
        ((*put(1, "info", 9), *took(1)), True),
        ((*put(1, "info", 9), *took(None)), True),
        ((*put(1, "info", 9), *took(1), *took(1)), False),
        ((*put(1, "fail"), *took(1)), False),
        ((*put(1), *put(2), *took(None, "info", 9), *took(2)), True),
        ((*put(1), *put(2), *took(None, "info", 9), *took(1)), True),
        ((*put(1), *put(2), *put(3), *took(None, "info", 9), *took(3)), False),
        ((*put(1), *took(None, "fail"), *took(None)), False),
    ],
)
def test_a_queue_is_judged_by_what_may_have_happened(rows: Rows, is_right: bool) -> None:
    """Lost, doubled and overtaken values are found; what is unknown may have been done, once, or not."""
    events = with_run_id(history_of(*rows), "run")
    found = judge_objects(events, {"run": QueueWorkload}).anomalies.to_pylist()
    assert [(row["anomaly"], row["severity"]) for row in found] == (
        [] if is_right else [("nonlinearizable", "violation")]
    )


async def test_every_queue_is_emptied_at_the_end(tmp_path: Path) -> None:
    """What was put in for certain is taken out once, and each queue is left when nothing is in it."""
    recording = Recording(tmp_path)
    await run_on(FakeStore(Random(3), refused=0.02), QueueWorkload, recording)

    rows = recording.client_rows()
    ended = [row for row in rows if row["type"] == "ok"]
    put_in = Counter(row["value"] for row in rows if (row["f"], row["type"]) == ("enqueue", "invoke"))
    failed = sum((row["f"], row["type"]) == ("enqueue", "fail") for row in rows)
    taken = Counter(row["value"] for row in ended if row["f"] == "dequeue" and "value" in row)
    last = {row["topic_partition"]: row for row in ended}
    assert taken <= put_in
    assert taken.total() == put_in.total() - failed
    assert all(row["f"] == "dequeue" and "value" not in row for row in last.values())


class Overtaken(FakeStoreClient):
    """Somebody else is always faster."""

    async def put_all_if(self, *given: Any) -> Answer:
        answer = await super().put_all_if(*given)
        return Answer(revision=answer.revision, done=False, found=(await self.get_all("queue-0/")).found)


@pytest.mark.parametrize("f", ["enqueue", "dequeue"])
async def test_who_is_overtaken_again_and_again_has_done_nothing(tmp_path: Path, f: str) -> None:
    """After so many attempts, each of which was refused, the operation certainly did not happen."""
    store, recording = FakeStore(Random(3)), Recording(tmp_path)
    store.set({"queue-0/0": 7})
    setup = Setup(system=FakeSystem(), recorder=recording.recorder, random=Random(1), concurrency=1, keys=1)
    workload, process = QueueWorkload(setup), Process(0, Overtaken(store), recording.recorder)
    while not any(row["f"] == f for row in recording.client_rows()):
        await workload.act(process, "queue-0")

    [ended] = [row for row in recording.client_rows() if row["f"] == f and row["type"] != "invoke"]
    assert (ended["type"], ended["error"]) == ("fail", f"others were faster {ATTEMPTS_MAX} times")
    assert process.is_alive


async def test_processes_that_meet_at_one_queue_try_again(tmp_path: Path) -> None:
    """Where six share a queue all is linearizable, and refused transactions cost no operation."""
    store, recording = FakeStore(Random(3)), Recording(tmp_path)
    refusals: list[str] = []

    class Counting(FakeStoreClient):
        async def put_all_if(self, prefix: str, *given: Any) -> Answer:
            answer = await super().put_all_if(prefix, *given)
            refusals.extend([] if answer.done else [prefix])
            return answer

    store.client = lambda: Counting(store)  # type: ignore[method-assign]  # a port
    await run_on(store, QueueWorkload, recording, events=600)

    assert len(refusals) > 10
    assert {row["type"] for row in recording.client_rows()} == {"invoke", "ok"}
    assert anomalies_of(tmp_path, QueueWorkload) == []
