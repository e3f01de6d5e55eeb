"""How to add something: the file that each of these pages shows is executed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType

import pyarrow as pa
import pytest

from nemesis.checks import OPERATION_SCHEMA, Severity
from nemesis.checks.partition import Partition, operations_of
from nemesis.checks.replica_events import ReplicaEvents
from nemesis.faults.family import Aim, Casting, OpenFault, Stage
from nemesis.faults.load import Load
from nemesis.faults.targets import Role
from tests.checks.histories import Row, append
from tests.workload.fake_store import FakeStore, StaleReads
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording
from tests.workload.test_objects import anomalies_of, run_on

HOW_TOS = ("add-a-fault", "add-a-check", "add-a-workload", "add-a-system")


@pytest.fixture
def shown(request: pytest.FixtureRequest, pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[ModuleType]:
    """The only Python file that a page shows, as a module."""
    page = (pytestconfig.rootpath / "docs" / f"{request.param}.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    name = request.param.replace("-", "_")
    path = tmp_path / f"{name}.py"
    path.write_text(code, encoding="utf-8")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # Where the types of a dataclass's fields are looked up.
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.mark.parametrize("shown", ["add-a-fault"], indirect=True)
async def test_the_fault_is_done_and_undone(shown: ModuleType, tmp_path: Path) -> None:
    """It is aimed by its dice, hits a node that runs and not one that is down, and all run in the end."""
    system = FakeSystem()
    stage = Stage(system=system, casting=Casting(system), recorder=Recording(tmp_path).recorder, load=Load())
    family, fault = shown.Bounces(stage), shown.Bounce(target=Role.ALL)
    await system.kill(2)
    aim = await family.aim(fault, Random(1))
    assert aim == Aim(nodes=(1, 2, 3))
    hit = await family.strike(OpenFault(fault_id=0, fault=fault, aim=aim))
    assert hit == (1, 3)
    assert [node for node in system.nodes if system.is_running(node)] == [1, 3]
    await family.heal(OpenFault(fault_id=0, fault=fault, aim=aim))
    assert all(system.is_running(node) for node in system.nodes)
    assert shown.Bounce.from_fields({"target": "leader"}) == shown.Bounce.on_leader(Random(1))


def partition_of(rows: list[Row]) -> Partition:
    """A topic-partition of which there are these operations alone."""
    return Partition(
        run_id="run",
        topic_partition="log-0",
        operations=operations_of(pa.Table.from_pylist(rows, schema=OPERATION_SCHEMA)),
        logs=(),
        events=ReplicaEvents(),
        history_complete=True,
        evidence_due=True,
    )


@pytest.mark.parametrize("shown", ["add-a-check"], indirect=True)
def test_the_check_finds_what_it_says(shown: ModuleType) -> None:
    """A write that took eleven seconds is told, one of ten seconds is not, and both were looked at."""
    late = append((0, 1), 7, offset=0) | {"invoke_ns": 0, "return_ns": 11_000_000_000}
    timely = append((2, 3), 8, offset=1) | {"invoke_ns": 0, "return_ns": 10_000_000_000}
    found = shown.LATE_ANSWER.run(partition_of([late, timely]))
    anomaly = next(found)
    assert (anomaly.severity, anomaly.op_indexes) == (Severity.ALLOWED, (0,))
    assert anomaly.detail == "operation 0 was answered after 11.0 s"
    with pytest.raises(StopIteration) as end:
        next(found)
    assert (end.value.value.looked, end.value.value.missed) == (2, 0)


@pytest.mark.parametrize("shown", ["add-a-workload"], indirect=True)
async def test_the_workload_tells_right_from_wrong(shown: ModuleType, tmp_path: Path) -> None:
    """A store that is linearizable is found right by it, and one whose reads are stale is convicted."""
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    await run_on(FakeStore(Random(3), unknown=0.02), shown.ClaimWorkload, Recording(right), events=600)
    await run_on(StaleReads(Random(3)), shown.ClaimWorkload, Recording(wrong), events=600)
    assert anomalies_of(right, shown.ClaimWorkload) == []
    assert {row["severity"] for row in anomalies_of(wrong, shown.ClaimWorkload)} == {"violation"}


@pytest.mark.parametrize("name", HOW_TOS)
def test_what_is_named_is_there(pytestconfig: pytest.Config, name: str) -> None:
    """Each file that a page links to exists, and a file that it has you write does not."""
    root = pytestconfig.rootpath
    page = (root / "docs" / f"{name}.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(\.\./([^)#]+)\)", page)
    assert [path for path in linked if not (root / path).exists()] == []
    written = [path for path in re.findall(r"^\| `([^`]+\.py)`", page, re.MULTILINE) if "NAME" not in path]
    assert [path for path in written if (root / path).exists()] == []
    assert linked
    assert written
