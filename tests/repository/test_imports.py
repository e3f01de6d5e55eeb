"""Who may import whom: the rooms of the house, enforced by reading the imports of every module.

A rule says whom it binds and which imports it forbids. Rules look at the source, so an import that only one branch or
one function performs counts as well. Each rule is shown to fail on an offending source before it is trusted.
"""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = ("replica", "nemesis")

# Modules that hold values and arithmetic, of the standard library but for msgspec, whose structs most values are: no
# clock, disk, network, process or thread behind them.
VALUE_MODULES = frozenset(
    {
        "__future__",
        "abc",
        "base64",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "json",
    }
    | {"math", "msgspec", "operator", "random", "re", "string", "typing", "types"}
)
ENCODING = "replica.encoding"
BASE_LAYER = ("replica.ids", "replica.errors", "replica.bounds", "replica.voters", "replica.deadlines")
PURE_LAYER = ("replica.core", "replica.records", *BASE_LAYER)
JUDGES = ("nemesis.checks", "nemesis.pipeline", "nemesis.report", "nemesis.history", "nemesis.formats")
READERS = (
    *("nemesis.cluster.control", "nemesis.cluster.topic_client"),
    *("nemesis.systems", "nemesis.simulator.record"),
)
REGISTRY = "replica.machines.registry"
REGISTRY_MODULE = "importlib.metadata"
OF_SYSTEMS = {"etcd": "aiohttp", "redis": "redis", "kafka": "confluent_kafka"}
HEAVY_MODULES = ("grpc", "numpy", "pandas", "pyarrow", "pyspark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported name, in full: ``from a import b`` imports ``a.b``. Deferred: in a function, or for types only."""

    name: str
    line: int
    deferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``forbids`` the imports that a module that the rule ``binds`` must not have."""

    name: str
    binds: Callable[[str], bool]
    forbids: Callable[[Import], bool]


def within(name: str, *packages: str) -> bool:
    """Tell whether a dotted name is one of the packages or lies below one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_outside(name: str, *allowed: str) -> bool:
    """Tell whether a dotted name lies below none of ``allowed``."""
    return not within(name, *allowed)


RULES = (
    Rule(
        name="the core imports value modules, records, the encoding, ids, errors, bounds, voters and machines",
        binds=lambda module: within(module, "replica.core"),
        forbids=lambda found: is_outside(found.name, *VALUE_MODULES, *PURE_LAYER, ENCODING, "replica.machines"),
    ),
    Rule(
        name="records import value modules, array, struct, ctypes, checksum, codecs, ids, errors, bounds, voters",
        binds=lambda module: within(module, "replica.records"),
        forbids=lambda found: is_outside(
            found.name,
            *(VALUE_MODULES | {"array", "struct", "ctypes", "crc32c", "lz4", "zstandard"}),
            "replica.records",
            *BASE_LAYER,
        ),
    ),
    Rule(
        name="ids, errors, bounds and voters import value modules and each other",
        binds=lambda module: module in BASE_LAYER,
        forbids=lambda found: is_outside(found.name, *VALUE_MODULES, *BASE_LAYER),
    ),
    Rule(
        name="randomness in the core is handed in",
        binds=lambda module: within(module, *PURE_LAYER),
        forbids=lambda found: within(found.name, "random") and found.name not in {"random", "random.Random"},
    ),
    Rule(
        name="generated code is imported by the codec only",
        binds=lambda module: not module.startswith("replica.rpc.codec") and is_outside(module, "replica.v1"),
        forbids=lambda found: within(found.name, "replica.v1"),
    ),
    Rule(
        name="grpc is imported by rpc and server only",
        binds=lambda module: is_outside(module, "replica.rpc", "replica.server"),
        forbids=lambda found: within(found.name, "grpc", "grpc_health", "grpc_reflection", "grpc_status"),
    ),
    Rule(
        name="fsync lives in storage only",
        binds=lambda module: is_outside(module, "replica.storage"),
        forbids=lambda found: found.name in {"os.fsync", "os.fdatasync"},
    ),
    Rule(
        name="replica never imports nemesis",
        binds=lambda module: within(module, "replica"),
        forbids=lambda found: within(found.name, "nemesis"),
    ),
    Rule(
        name="what judges imports nothing of what it judges",
        binds=lambda module: within(module, *JUDGES),
        forbids=lambda found: within(found.name, "replica", "grpc"),
    ),
    Rule(
        name="pyspark is imported by the pipeline and by topics as tables only",
        binds=lambda module: is_outside(module, "nemesis.pipeline", "replica.spark"),
        forbids=lambda found: within(found.name, "pyspark", "py4j"),
    ),
    Rule(
        name="the pipeline imports pyspark inside functions",
        binds=lambda module: within(module, "nemesis.pipeline"),
        forbids=lambda found: within(found.name, "pyspark", "py4j") and not found.deferred,
    ),
    Rule(
        name="check kernels import numpy and pyarrow, nothing else from outside",
        binds=lambda module: within(module, "nemesis.checks"),
        forbids=lambda found: is_outside(
            found.name,
            *sys.stdlib_module_names,
            *("numpy", "pyarrow", "nemesis.checks", "nemesis.history", "nemesis.verdict"),
        ),
    ),
    Rule(
        name="what clients were answered and what logs hold is decoded by the harness, not by the accused",
        binds=lambda module: within(module, *READERS),
        forbids=lambda found: within(found.name, "replica.records"),
    ),
    Rule(
        name="topics as tables are imported by nobody",
        binds=lambda module: is_outside(module, "replica.spark"),
        forbids=lambda found: within(found.name, "replica.spark"),
    ),
    Rule(
        name="machines import value modules, hashlib, struct, sortedcontainers, records, the encoding, ids and errors",
        binds=lambda module: within(module, "replica.machines"),
        forbids=lambda found: is_outside(
            found.name,
            *(VALUE_MODULES - {"random"} | {"hashlib", "struct", "sortedcontainers"}),
            *("replica.machines", "replica.records", ENCODING, "replica.deadlines", "replica.ids", "replica.errors"),
            REGISTRY_MODULE,
        ),
    ),
    Rule(
        name="what is installed is read by the registry of machines, which nothing pure imports",
        binds=lambda module: within(module, "replica.machines", *PURE_LAYER) and module != REGISTRY,
        forbids=lambda found: within(found.name, REGISTRY_MODULE, REGISTRY),
    ),
    Rule(
        name="what only another system needs is imported by its own room",
        binds=lambda module: is_outside(module, *(f"nemesis.systems.{system}" for system in OF_SYSTEMS)),
        forbids=lambda found: within(found.name, *OF_SYSTEMS.values()),
    ),
    Rule(
        name="neither the client nor rpc, which it shares with the server, imports the server",
        binds=lambda module: within(module, "replica.rpc", "replica.client"),
        forbids=lambda found: within(found.name, "replica.server"),
    ),
    Rule(
        name="the encoding imports value modules, struct and BytesIO",
        binds=lambda module: module == ENCODING,
        forbids=lambda found: is_outside(found.name, *VALUE_MODULES, "struct", "io.BytesIO"),
    ),
)


@functools.cache
def imports_of(source: str, module: str, *, is_package: bool = False) -> tuple[Import, ...]:
    """Read every import of a module's source, and every use of a name of ``os`` or ``random``, as full names."""
    return tuple(_walk(ast.parse(source), _package_of(module, is_package), deferred=False))


def _package_of(module: str, is_package: bool) -> str:
    return module if is_package else module.rpartition(".")[0]


def _walk(node: ast.AST, package: str, *, deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        yield from _imported_by(child, package, deferred)
        in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types = isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"
        yield from _walk(child, package, deferred=deferred or in_function or for_types)


def _imported_by(node: ast.AST, package: str, deferred: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(name=alias.name, line=node.lineno, deferred=deferred)
        case ast.ImportFrom(names=names, module=module, level=level):
            base = _resolve(package, module or "", level)
            for alias in names:
                yield Import(name=f"{base}.{alias.name}", line=node.lineno, deferred=deferred)
        case ast.Attribute(value=ast.Name(id=("os" | "random") as base), attr=attribute):
            yield Import(name=f"{base}.{attribute}", line=node.lineno, deferred=deferred)
        case _:
            return


def _resolve(package: str, module: str, level: int) -> str:
    """Return the full name of what a ``from`` statement imports from; each dot above one leaves a package."""
    if level == 0:
        return module
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Return one sentence for every import of ``source`` that breaks a rule as ``module``."""
    return [
        f"{module}:{found.line} imports {found.name}: {rule.name}"
        for rule in RULES
        if rule.binds(module)
        for found in imports_of(source, module, is_package=is_package)
        if rule.forbids(found)
    ]


def modules(root: Path) -> Mapping[str, Path]:
    """Map the name of every module that is written by hand to its file."""
    files = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    named = {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    return {name: path for name, path in named.items() if is_outside(name, "replica.v1")}


def reachable(start: str, sources: Mapping[str, Path]) -> set[str]:
    """Return the project's modules that ``start`` imports, directly or by another one, at whatever time."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in sources:
            continue
        seen.add(name)
        path = sources[name]
        found = imports_of(path.read_text(encoding="utf-8"), name, is_package=path.name == "__init__.py")
        for imported in found:
            waiting += [imported.name, imported.name.rpartition(".")[0]]
    return seen


@pytest.mark.slow
def test_every_module_keeps_to_its_room(pytestconfig: pytest.Config) -> None:
    """No module of the project imports what the rules forbid it."""
    broken = [
        sentence
        for name, path in modules(pytestconfig.rootpath).items()
        for sentence in violations(name, path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py")
    ]

    assert broken == []


@pytest.mark.slow
def test_no_judge_reaches_the_judged_by_a_detour(pytestconfig: pytest.Config) -> None:
    """The checks, the pipeline, the report, history and formats import no module that imports the replica for them."""
    sources = modules(pytestconfig.rootpath)
    judges = [name for name in sources if within(name, *JUDGES)]

    detours = {
        judge: sorted(name for name in reachable(judge, sources) if violations_as_judge(sources[name], name))
        for judge in judges
    }

    assert {judge: through for judge, through in detours.items() if through} == {}


def violations_as_judge(path: Path, module: str) -> bool:
    """Tell whether a module imports the replica or grpc."""
    return any(within(found.name, "replica", "grpc") for found in imports_of(path.read_text(encoding="utf-8"), module))


OFFENDERS = [
    ("replica.core.quorum.leading", "import time", RULES[0]),
    ("replica.core.quorum.leading", "import logging", RULES[0]),
    ("replica.core.quorum.leading", "def now():\n    from os import path", RULES[0]),
    ("replica.core.quorum.leading", "from replica.storage.segment import Segment", RULES[0]),
    ("replica.core.quorum.leading", "from replica import server", RULES[0]),
    ("replica.core.replica", "from ..rpc import codec", RULES[0]),
    ("replica.records.batch", "from replica.core import messages", RULES[1]),
    ("replica.records.batch", "import io", RULES[1]),
    ("replica.ids", "import uuid", RULES[2]),
    ("replica.core.rules", "import random\nrandom.randint(0, 9)", RULES[3]),
    ("replica.core.rules", "from random import choice", RULES[3]),
    ("replica.server.service", "from replica.v1 import data_pb2", RULES[4]),
    ("nemesis.cluster", "import replica.v1.data_pb2", RULES[4]),
    ("replica.cli.__main__", "def health():\n    import grpc.aio", RULES[5]),
    ("replica.cli.__main__", "from grpc_health.v1 import health", RULES[5]),
    ("replica.client.consumer", "import grpc", RULES[5]),
    ("replica.server.driver", "import os\nos.fsync(3)", RULES[6]),
    ("nemesis.history.writer", "from os import fdatasync", RULES[6]),
    ("replica.server.main", "import nemesis.variants", RULES[7]),
    ("nemesis.checks.append", "from replica.ids import Offset", RULES[8]),
    ("nemesis.report.page", "def page():\n    import grpc", RULES[8]),
    ("nemesis.formats.kafka_edn", "from replica.records import batch", RULES[8]),
    ("nemesis.cli.check", "def check():\n    from pyspark.sql import SparkSession", RULES[9]),
    ("nemesis.pipeline.session", "from pyspark.sql import SparkSession", RULES[10]),
    ("nemesis.checks.append", "import pandas", RULES[11]),
    ("nemesis.checks.append", "from nemesis.pipeline import session", RULES[11]),
    ("nemesis.cluster.control", "from replica.records import parse_batches", RULES[12]),
    ("replica.client.consumer", "def f():\n    from replica.spark import register", RULES[13]),
    ("replica.machines.applied", "import time", RULES[14]),
    ("replica.machines.applied", "from random import Random", RULES[14]),
    ("replica.machines.key_value.store", "import uuid", RULES[14]),
    ("replica.machines.lock", "from replica.core.effects import Reply", RULES[14]),
    ("replica.machines.registry", "import importlib", RULES[14]),
    ("replica.machines.entries", "from replica.v1 import data_pb2", RULES[14]),
    ("replica.machines.applied", "from importlib.metadata import entry_points", RULES[15]),
    ("replica.machines", "from replica.machines.registry import make_machine", RULES[15]),
    ("replica.core.replica", "from replica.machines import registry", RULES[15]),
    ("nemesis.systems.foreign", "def f():\n    from redis.asyncio import Redis", RULES[16]),
    ("replica.client.consumer", "from replica.server.options import ServerOptions", RULES[17]),
    ("replica.rpc.transport", "def f():\n    from replica.server import options", RULES[17]),
    ("replica.encoding", "from replica.machines import Snapshot", RULES[18]),
]


@pytest.mark.parametrize(("module", "source", "rule"), OFFENDERS)
def test_an_offending_import_is_found(module: str, source: str, rule: Rule) -> None:
    """Each rule, fed with a source that breaks it, names the module, the import and the rule."""
    assert any(sentence.endswith(rule.name) for sentence in violations(module, source))


def test_every_rule_has_an_offender() -> None:
    """No rule goes without a source that shows that it can fail."""
    assert [rule.name for rule in RULES if rule not in {offender[2] for offender in OFFENDERS}] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("replica.core.replica", "from collections.abc import Mapping\nfrom .quorum import roles\nimport random"),
        ("replica.core.replica", "from random import Random\ndef f(r: Random):\n    return r.random()"),
        ("replica.records.checksum", "import struct\nimport crc32c"),
        ("replica.rpc.codec_shapes", "from replica.v1 import data_pb2"),
        ("replica.storage.files", "import os\nos.fsync(3)"),
        ("replica.rpc.channels", "import grpc.aio"),
        ("replica.core.replica", "from replica.machines import AppliedLog"),
        ("replica.machines.applied", "from hashlib import sha256\nfrom replica.records import decode_records"),
        ("replica.machines.registry", "from importlib.metadata import entry_points"),
        ("replica.server.main", "from replica.machines.registry import make_machine"),
        ("nemesis.cluster.local", "from replica.client import LogClient"),
        ("replica.spark.source", "from pyspark.sql.datasource import DataSource"),
        (
            "nemesis.checks.append",
            "import numpy as np\nimport pyarrow.compute as pc\nfrom nemesis.history import schemas",
        ),
        ("nemesis.pipeline.session", "def f():\n    from pyspark.sql import SparkSession"),
        (
            "nemesis.pipeline.session",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
        ),
    ],
)
def test_a_decent_import_passes(module: str, source: str) -> None:
    """What the rules allow is not complained about."""
    assert violations(module, source) == []


def test_a_detour_is_found(tmp_path: Path) -> None:
    """A judge that imports a module that imports a third one reaches all three."""
    chain = {"nemesis.checks.a": "from nemesis.b import f", "nemesis.b": "import nemesis.c", "nemesis.c": "import grpc"}
    sources = {}
    for name, source in chain.items():
        sources[name] = tmp_path / f"{name}.py"
        sources[name].write_text(source, encoding="utf-8")

    assert reachable("nemesis.checks.a", sources) == set(chain)
    assert violations_as_judge(sources["nemesis.c"], "nemesis.c")


def loaded_by(module: str, root: Path) -> set[str]:
    """Return which heavy modules a fresh interpreter has loaded after importing ``module``, or several with commas."""
    program = f"import json, sys, {module}; print(json.dumps([m for m in {HEAVY_MODULES!r} if m in sys.modules]))"
    finished = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    return set(json.loads(finished.stdout))


def test_commands_start_light(pytestconfig: pytest.Config) -> None:
    """Importing a command line loads neither grpc nor what judges: a health check has half a second in all."""
    commands = [name for name in modules(pytestconfig.rootpath) if within(name, "nemesis.cli")]

    assert loaded_by("replica.cli.__main__", pytestconfig.rootpath) == set()
    assert loaded_by(", ".join(commands), pytestconfig.rootpath) == set()


def test_a_heavy_start_is_found(pytestconfig: pytest.Config) -> None:
    """The measurement sees a module that does load something heavy."""
    assert "numpy" in loaded_by("numpy.linalg", pytestconfig.rootpath)
