"""Redis with sentinels.

The way through: ``client`` (keys and numbers, of the master of the day) -> ``system`` (servers and their sentinels).
"""

from __future__ import annotations

from nemesis.cluster.store import Verb
from nemesis.systems.offer import LACKED_BUT_WALL_CLOCKS, Offer

OFFER = Offer(
    verbs=frozenset({Verb.GET, Verb.GET_ALL, Verb.PUT, Verb.COMPARE_AND_SET, Verb.INCREMENT}),
    lacks=LACKED_BUT_WALL_CLOCKS,
    programs=("redis-server", "redis-sentinel"),
    libraries=("redis",),
    runs="a master, two replicas, a sentinel beside each",
    needs="Debian's `redis-server`, `redis-sentinel`",
    expect="invalid: acknowledged writes are lost when another becomes the master",
)
