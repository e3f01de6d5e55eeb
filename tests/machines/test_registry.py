"""Machines by name: those of the package, those of others, and what is said about broken ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.machines.counter import Counter
from replica.machines.key_value import KeyValueMachine
from replica.machines.lock import LockMachine
from replica.machines.registry import (
    ENTRY_POINT_GROUP,
    MACHINES,
    BrokenMachineError,
    UnknownMachineError,
    machine_names,
    make_machine,
)

MODULE = """
from replica.machines import EncodedState

class Good:
    def traits(self): return {"version": 1}
    def advance(self, time_ms): ...
    def apply(self, command, *, time_ms): return b""
    def query(self, request): return b""
    def view(self): return EncodedState(b"")
    def restore(self, snapshot): ...

class Half:
    def apply(self, command, *, time_ms): return b""
    def query(self, request): return b""

class Choosy(Good):
    def __init__(self, what): ...

class Secretive(Good):
    def traits(self): return {"version": 1 << 64}

NUMBER = 7
"""
POINTS = {
    "good": "others_machines:Good",
    "half": "others_machines:Half",
    "choosy": "others_machines:Choosy",
    "secretive": "others_machines:Secretive",
    "number": "others_machines:NUMBER",
    "nowhere": "others_machines:Nowhere",
    "nothing": "no_such_module:Nothing",
    "counter": "others_machines:Good",
    "disputed": "others_machines:Good",
}


def distribution(folder: Path, name: str, points: dict[str, str]) -> None:
    """Write what an installer writes for a distribution."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    lines = [f"[{ENTRY_POINT_GROUP}]", *(f"{point} = {value}" for point, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def others(tmp_path: Path) -> Iterator[None]:
    """Two distributions of others are installed."""
    (tmp_path / "others_machines.py").write_text(MODULE, encoding="utf-8")
    distribution(tmp_path, "others", POINTS)
    distribution(tmp_path, "rivals", {"disputed": "others_machines:Half"})
    sys.path.insert(0, str(tmp_path))
    try:
        yield
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("others_machines", None)


@pytest.mark.parametrize(
    ("name", "kind"), [("key-value", KeyValueMachine), ("counter", Counter), ("lock", LockMachine)]
)
def test_the_packages_own_are_found(name: str, kind: type) -> None:
    """Each name of the package makes a fresh machine of its kind."""
    first, second = make_machine(name), make_machine(name)
    assert type(first) is type(second) is kind
    assert first is not second


@pytest.mark.usefixtures("others")
def test_others_are_found() -> None:
    """A machine that a distribution registers is made by its name, and listed; it need not be a subclass."""
    assert type(make_machine("good")).__name__ == "Good"
    assert set(machine_names()) >= {*MACHINES, *POINTS}


@pytest.mark.usefixtures("others")
def test_a_name_of_the_package_is_not_replaced() -> None:
    """A counter that somebody else brings is not the counter."""
    assert type(make_machine("counter")) is Counter


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "half",
            r"'half' \(others_machines:Half of others\) has no advance, snapshot, restore, traits: no state machine",
        ),
        ("secretive", "'secretive'.* has no traits that can be told: ValueError"),
        ("choosy", "'choosy'.* cannot be made: TypeError"),
        ("number", "'number'.* cannot be made: TypeError"),
        ("nowhere", "'nowhere'.* cannot be made: AttributeError"),
        ("nothing", "'nothing'.* cannot be made: ModuleNotFoundError"),
        ("disputed", "more than once: .*others_machines:Good of others.* and .*others_machines:Half of rivals"),
    ],
)
@pytest.mark.usefixtures("others")
def test_what_is_broken_is_told(name: str, said: str) -> None:
    """The message names the machine, where it comes from, and what is wrong with it."""
    with pytest.raises(BrokenMachineError, match=said):
        make_machine(name)


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    """The message lists what could have been meant."""
    with pytest.raises(UnknownMachineError, match=r"no state machine 'etcd'; there are counter, key-value, lock"):
        make_machine("etcd")


def test_the_packages_own_are_registered_too(pytestconfig: pytest.Config) -> None:
    """The entry points of the project name the same machines as the table."""
    project = (pytestconfig.rootpath / "pyproject.toml").read_text(encoding="utf-8")
    section = project.split(f'[project.entry-points."{ENTRY_POINT_GROUP}"]\n')[1].split("\n\n")[0]
    registered = dict(line.replace('"', "").split(" = ") for line in section.splitlines())
    assert registered == {
        "key-value": "replica.machines.key_value:KeyValueMachine",
        "counter": "replica.machines.counter:Counter",
        "lock": "replica.machines.lock:LockMachine",
    }
    assert set(registered) == set(MACHINES)
