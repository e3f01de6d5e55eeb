"""How runs are judged of which less is known than of our own: no logs, no revisions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.compute as pc
import pytest

from nemesis.checks.verdict import RunCounts, decide
from nemesis.cluster.store import Answer, Found
from nemesis.history.document import shows_logs
from nemesis.history.reader import read_history
from nemesis.pipeline.run_objects.operations import object_history
from nemesis.verdict import Verdict
from nemesis.workload.collection import SetWorkload
from nemesis.workload.ending import dump_all, wait_converged
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.register import RegisterWorkload
from tests.workload.fake_store import FakeStore, FakeStoreClient, LostUpdates, StaleReads
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording
from tests.workload.test_objects import anomalies_of, run_on

OBJECTS = RunCounts(events=4, index_end=4, operations_ok=2, objects=1, acked_checked=2)
APPENDS = RunCounts(events=4, index_end=4, append_ok=2, acked_checked=2)


class WithoutRevisions(FakeStoreClient):
    """A client that tells no revisions."""

    async def get(self, key: str) -> Answer:
        return _without(await super().get(key))

    async def get_all(self, prefix: str) -> Answer:
        return _without(await super().get_all(prefix))

    async def put(self, key: str, value: int) -> Answer:
        return _without(await super().put(key, value))

    async def compare_and_set(self, key: str, expected: int | None, value: int, *, ttl_ms: int | None = None) -> Answer:
        return _without(await super().compare_and_set(key, expected, value, ttl_ms=ttl_ms))


def _without(answer: Answer) -> Answer:
    found = {key: Found(value=held.value, changed_at=None) for key, held in answer.found.items()}
    return replace(answer, revision=None, found=found)


def silent(kind: type[FakeStore]) -> FakeStore:
    """A store of that kind whose clients tell no revisions."""

    class Silent(kind):  # type: ignore[misc, valid-type]  # the base is a parameter
        def client(self) -> FakeStoreClient:
            return WithoutRevisions(self)

    store: FakeStore = Silent(Random(3), unknown=0.02)
    return store


@pytest.mark.parametrize("workload", [RegisterWorkload, SetWorkload])
@pytest.mark.parametrize(
    ("kind", "found"), [(FakeStore, set()), (LostUpdates, {"violation"}), (StaleReads, {"violation"})]
)
async def test_a_store_without_revisions_is_judged_by_its_answers(
    tmp_path: Path, workload: type[ObjectWorkload], kind: type[FakeStore], found: set[str]
) -> None:
    """A right store that claims no order of changes is found right, and a wrong one is convicted all the same."""
    await run_on(silent(kind), workload, Recording(tmp_path))

    assert {row["severity"] for row in anomalies_of(tmp_path, workload)} == found


async def test_no_place_is_made_of_nothing(tmp_path: Path) -> None:
    """Where nobody tells a revision no operation has a place, those of unknown outcome that were seen neither."""
    await run_on(silent(FakeStore), SetWorkload, Recording(tmp_path))

    table = read_history(tmp_path)
    clients = table.filter(pc.greater_equal(table.column("process"), 0))
    names = clients.column("topic_partition").unique().to_pylist()
    own = [clients.filter(pc.equal(clients.column("topic_partition"), name)) for name in names]
    assert [dict(object_history(rows, SetWorkload).places) for rows in own] == [{}] * len(names)


@pytest.mark.parametrize(
    ("counts", "is_shown", "verdict"),
    [
        (OBJECTS, False, Verdict.VALID),
        (OBJECTS, True, Verdict.UNKNOWN),
        (replace(OBJECTS, harness_failures=1), False, Verdict.UNKNOWN),
        (APPENDS, False, Verdict.UNKNOWN),
    ],
)
def test_missing_logs_are_a_gap_unless_nobody_could_show_them(
    counts: RunCounts, is_shown: bool, verdict: Verdict
) -> None:
    """Objects of a system that shows no logs can be valid; who shows logs must have shown them; appends need them."""
    decision = decide(counts=counts, anomalies=(), coverage=(), complete=True, problems=(), shows_logs=is_shown)

    assert decision.verdict is verdict


@pytest.mark.parametrize(
    ("text", "shown"), [('{"shows_logs": false}', False), ('{"shows_logs": true}', True), ("{}", True), ("[", True)]
)
def test_only_an_express_word_excuses_from_logs(tmp_path: Path, text: str, shown: bool) -> None:
    """Logs are expected of a run unless its own document says that there can be none."""
    (tmp_path / "test.json").write_text(text, encoding="utf-8")

    assert shows_logs(tmp_path) is shown


@pytest.mark.parametrize("has_logs", [True, False])
async def test_a_system_that_shows_no_logs_is_not_asked_for_them(tmp_path: Path, has_logs: bool) -> None:
    """Agreement and dumps are recorded of what is shown; without logs the word of who leads is enough."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.has_logs = has_logs

    assert await wait_converged(system, recording.recorder, at_most_s=5)
    await dump_all(system, recording.recorder, recording.writer)

    dumped = [
        json.loads(detail or "{}") for f, kind, detail in recording.harness_rows() if (f, kind) == ("dump", "info")
    ]
    assert len(dumped) == (3 if has_logs else 0)
