"""Which systems can be put to the test, where the class of each is, and the tables that follow from what they offer.

Owns the list, and the loading of a system of somebody's own by the name of its class. Importing it imports none of
their classes, nor any library that only one of them needs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nemesis.errors import UnsupportedError
from nemesis.systems import etcd, highwater, kafka, redis
from nemesis.systems.offer import Offer, Offered
from nemesis.systems.programs import full_path

if TYPE_CHECKING:
    from nemesis.cluster.kinds import ClusterKind
    from nemesis.cluster.replica_options import ReplicaOptions

HIGHWATER = "highwater"
"""What is put to the test where nothing is asked for."""


class UnknownSystemError(ValueError):
    """No system is called so, or its class cannot be had; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A system that comes with the harness: ``where`` its class is, as ``module:Class``, and what it offers."""

    where: str
    offer: Offer


SYSTEMS: Mapping[str, Entry] = {
    HIGHWATER: Entry(where="nemesis.systems.highwater.system:HighwaterCluster", offer=highwater.OFFER),
    "etcd": Entry(where="nemesis.systems.etcd.system:EtcdCluster", offer=etcd.OFFER),
    "redis": Entry(where="nemesis.systems.redis.system:RedisCluster", offer=redis.OFFER),
    "kafka": Entry(where="nemesis.systems.kafka.system:KafkaCluster", offer=kafka.OFFER),
}
"""By the name by which ``--system`` knows them."""
READS = tuple(dict.fromkeys(read for entry in SYSTEMS.values() for read in entry.offer.reads))
"""The ways to read objects that there are."""
SETTINGS = frozenset[str]().union(*(entry.offer.settings for entry in SYSTEMS.values()))
"""The options that are about one system alone."""


def offer_of(name: str) -> Offer:
    """What a system offers. Raises UnknownSystemError."""
    return SYSTEMS[name].offer if name in SYSTEMS else _loaded(name).offer


def check_installed(name: str) -> None:
    """Look whether a system can be run here. Raises UnsupportedError, which says what to install."""
    offer = offer_of(name)
    for program in offer.programs:
        full_path(program)
    for library in offer.libraries:
        if find_spec(library) is None:
            raise UnsupportedError(f"{library} is not installed: pip install 'highwater-log[systems]'")
    offer.check()


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
    offer_of(name).fetch()


def new_system(name: str, kind: ClusterKind, folder: Path, options: ReplicaOptions) -> Offered:
    """A cluster of that system on that kind of host; nothing is made or started before it is opened.

    Raises UnsupportedError where this machine cannot have it.
    """
    check_installed(name)
    return _loaded(SYSTEMS[name].where if name in SYSTEMS else name).on(kind, folder, options)


def _loaded(where: str) -> type[Offered]:
    """The class at ``module:Class``, which may lie in the working directory. Raises UnknownSystemError."""
    module, colon, name = where.partition(":")
    if not colon:
        raise UnknownSystemError(f"{where!r} is none of {', '.join(SYSTEMS)}, nor the module:Class of a system")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: type[Offered] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownSystemError(f"{where!r} cannot be had: {error}") from error
    if not isinstance(getattr(found, "offer", None), Offer):
        raise UnknownSystemError(f"{where!r} is no system: it has no offer")
    return found
