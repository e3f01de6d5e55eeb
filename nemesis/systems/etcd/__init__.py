"""etcd: ``client`` (keys and numbers over its JSON gateway, honest outcomes) -> ``system`` (members as processes)."""

from __future__ import annotations

from nemesis.cluster.store import ON_OBJECTS
from nemesis.faults.needs import Need
from nemesis.systems.offer import LACKED, Offer

OFFER = Offer(
    verbs=ON_OBJECTS,
    reads=("linearizable", "stale"),
    lacks={**LACKED, Need.WALL_CLOCKS: "libfaketime does not reach Go programs: they ask the kernel for the time"},
    programs=("etcd",),
    libraries=("aiohttp",),
    runs="three members",
    needs="Debian's `etcd-server`",
    expect="valid; with `--reads stale` not",
)
