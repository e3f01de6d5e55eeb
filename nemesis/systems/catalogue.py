"""Which systems can be put to the test: what each is used for, what it needs, and how a cluster of it is made.

Owns the table, and the loading of a system of somebody's own by the name of its class. Importing it imports none of
them, nor any library that only one of them needs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nemesis.errors import UnsupportedError
from nemesis.systems.programs import full_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nemesis.cluster.kinds import ClusterKind
    from nemesis.cluster.replica_options import ReplicaOptions
    from nemesis.cluster.replicas import ReplicaCluster
    from nemesis.systems.foreign import ForeignSystem

HIGHWATER = "highwater"
"""Our own replicas."""
KAFKA = "kafka"
HOSTS_OF_PROCESSES = ("local", "netns")
"""The kinds of clusters whose nodes see the programs of this machine."""


class UnknownSystemError(ValueError):
    """No system is called so, or its class cannot be had; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a system is used for and what it needs.

    ``workloads`` are those that its clients know, and ``reads`` the ways to read objects. With ``shows_logs`` a run has
    the nodes' logs in its folder. ``programs`` must be installed, and so must the Python packages ``libraries``.
    """

    workloads: tuple[str, ...]
    reads: tuple[str, ...] = ("linearizable",)
    shows_logs: bool = False
    programs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A system that comes with the harness: ``where`` its class is, as ``module:Class``."""

    where: str
    needs: Needs


SYSTEMS: Mapping[str, Entry] = MappingProxyType(
    {
        "etcd": Entry(
            where="nemesis.systems.etcd.system:EtcdCluster",
            needs=Needs(
                workloads=("register", "set", "counter", "bank", "lock"),
                reads=("linearizable", "stale"),
                programs=("etcd",),
                libraries=("aiohttp",),
            ),
        ),
        "redis": Entry(
            where="nemesis.systems.redis.system:RedisCluster",
            needs=Needs(
                workloads=("register", "set", "counter"),
                programs=("redis-server", "redis-sentinel"),
                libraries=("redis",),
            ),
        ),
        KAFKA: Entry(
            where="nemesis.systems.kafka.system:KafkaCluster",
            needs=Needs(workloads=("append",), shows_logs=True, programs=("java",), libraries=("confluent_kafka",)),
        ),
    }
)
"""Those that are not ours, by the name by which ``--system`` knows them."""
NAMES = (HIGHWATER, *SYSTEMS)


def needs_of(name: str) -> Needs | None:
    """What a system needs; None for our own, which has all that there is. Raises UnknownSystemError."""
    if name == HIGHWATER:
        return None
    return SYSTEMS[name].needs if name in SYSTEMS else _loaded(name).needs


def shows_logs(name: str) -> bool:
    """Whether the nodes' logs of such a system can be read, so that a run of it has them in its folder."""
    needs = needs_of(name)
    return needs is None or needs.shows_logs


def check_installed(name: str) -> None:
    """Look whether a system can be run here. Raises UnsupportedError, which says what to install."""
    needs = needs_of(name)
    if needs is None:
        return
    for program in needs.programs:
        full_path(program)
    for library in needs.libraries:
        if find_spec(library) is None:
            raise UnsupportedError(f"{library} is not installed: pip install 'highwater[systems]'")
    if name == KAFKA:
        from nemesis.systems.kafka.jars import check_resolvable

        check_resolvable()


def missing(name: str) -> str | None:
    """What is missing to run a system here, in words; None if nothing is."""
    try:
        check_installed(name)
    except UnsupportedError as error:
        return str(error)
    return None


def fetch(name: str) -> None:
    """Get what a system needs from a network that a cluster may not have. Raises UnsupportedError."""
    check_installed(name)
    if name == KAFKA:
        from nemesis.systems.kafka.jars import resolve_jars

        resolve_jars()


def new_system(name: str, kind: ClusterKind, folder: Path, options: ReplicaOptions) -> ReplicaCluster | ForeignSystem:
    """A cluster of that system on that kind of host; nothing is made or started before it is opened.

    Raises UnsupportedError where this machine cannot have it.
    """
    from nemesis.cluster.kinds import new_host

    if name == HIGHWATER:
        from nemesis.cluster.replicas import ReplicaCluster

        return ReplicaCluster(new_host(kind, folder, options.nodes), options)
    check_installed(name)
    if kind not in HOSTS_OF_PROCESSES:
        raise UnsupportedError(f"{name} is started from programs of this machine: use --cluster local or netns")
    from nemesis.systems.loopback import LoopbackHost

    host = LoopbackHost(folder, options.nodes) if kind == "local" else new_host(kind, folder, options.nodes)
    return _loaded(SYSTEMS[name].where if name in SYSTEMS else name)(host, options)


def _loaded(where: str) -> type[ForeignSystem]:
    """The class at ``module:Class``, which may lie in the working directory. Raises UnknownSystemError."""
    from nemesis.systems.foreign import ForeignSystem

    module, colon, name = where.partition(":")
    if not colon:
        raise UnknownSystemError(f"{where!r} is none of {', '.join(NAMES)}, nor the module:Class of a system")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownSystemError(f"{where!r} cannot be had: {error}") from error
    if not (isinstance(found, type) and issubclass(found, ForeignSystem)):
        raise UnknownSystemError(f"{where!r} is no ForeignSystem")
    return found
