"""What is measured: each row once, with its unit, what is better, what Highwater aims at, and how it is taken.

Owns the rows. A measurement takes a ``Turn``, which is one system that was just started, and gives figures: one, or as
many as leaders were killed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import click

from benchmarks.peers.system import VALUE, Ability, Answered, Durability, System

WARM_UP_COUNT = 10_000
COUNT_MAX = 1_000_000_000
"""So many records are handed over at once at most, however fast a system seems to be."""
MANY = 256
TRY_EVERY_S = 0.1
FAILED_OVER_S_MAX = 60.0
CALM_S = 2.0
"""How long nothing is done before a leader is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One system while it runs: how long each row may take, how many leaders are killed, and its topics by name."""

    system: System
    seconds: float
    kills: int
    topics: dict[str, int] = field(default_factory=dict)
    """How many records each certainly has."""

    async def topic(self, name: str) -> str:
        """A topic of that name, created where it is not there."""
        if name not in self.topics:
            await self.system.create(name)
            self.topics[name] = 0
        return name


Measure = Callable[[Turn], Awaitable[Sequence[float]]]
Call = Callable[[int, float], Awaitable[Answered]]
"""Keeps so many calls in flight for so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What Highwater's median is to be: ``figure`` or better, the worst of all ``worst`` or better, and ``times`` as
    good as each system of ``ahead_of``. Absent or empty: no such aim."""

    figure: float | None = None
    worst: float | None = None
    ahead_of: tuple[str, ...] = ()
    times: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. Without ``durability`` each system is measured as it is by default."""

    name: str
    title: str
    unit: str
    more_is_better: bool
    ability: Ability
    measure: Measure
    durability: Durability | None = None
    aim: Aim = Aim()

    def durability_for(self, system: type[System]) -> Durability | None:
        """How durable that system's writes are in this row; absent where it cannot be measured."""
        wanted = self.durability or system.durabilities[0]
        return wanted if self.ability in system.abilities and wanted in system.durabilities else None

    def as_good(self, figure: float, other: float, times: float = 1.0) -> bool:
        """Whether a figure is so many times as good as another, or better."""
        return figure >= other * times if self.more_is_better else figure * times <= other

    def is_met(self, ours: Sequence[float], theirs: Mapping[str, Sequence[float]]) -> bool | None:
        """Whether Highwater's figures reach the aim; absent where there is none, or nothing to compare with."""
        aim, median, judged = self.aim, statistics.median(ours), []
        if aim.figure is not None:
            judged.append(self.as_good(median, aim.figure))
        if aim.worst is not None:
            judged.append(all(self.as_good(figure, aim.worst) for figure in ours))
        judged += [
            self.as_good(median, statistics.median(theirs[name]), aim.times) for name in aim.ahead_of if name in theirs
        ]
        return all(judged) if judged else None


# --- how it is taken --------------------------------------------------------------------------------------------------


async def warm_up(turn: Turn, seconds: float) -> None:
    """Have a system do all kinds of its work for so long, and look at nothing: some compile what they do often."""
    system, begun_s = turn.system, time.perf_counter()
    if Ability.RECORDS in system.abilities:
        topic = await turn.topic("warm-up")
        while time.perf_counter() - begun_s < seconds / 2:
            await system.produce(topic, VALUE, WARM_UP_COUNT)
    calls: list[Call] = []
    if Ability.WRITES in system.abilities:
        calls.append(partial(system.write, await turn.topic("in-flight")))
    calls += [system.put, system.get] if Ability.VALUES in system.abilities else []
    for call in calls:
        for count in (1, MANY):
            await call(count, seconds / 4 / len(calls))


async def bulk(turn: Turn, *, value: bytes, each: bool = False, per_record: float = 1.0) -> Sequence[float]:
    """Records a second, times ``per_record``: ever more of them to warm up, then as many as take the time."""
    topic = await turn.topic(f"bulk-{len(value)}")
    produce = turn.system.produce_each if each else turn.system.produce
    count, rate, begun_s = WARM_UP_COUNT, 0.0, time.perf_counter()
    while time.perf_counter() - begun_s < turn.seconds / 2:
        rate = count / await _timed(produce(topic, value, count))
        turn.topics[topic] += count
        count = max(count, min(2 * count, round(rate * turn.seconds), COUNT_MAX))
    count = max(WARM_UP_COUNT, min(round(rate * turn.seconds), COUNT_MAX))
    took_s = await _timed(produce(topic, value, count))
    turn.topics[topic] += count
    return [count / took_s * per_record]


async def consume(turn: Turn, *, as_arrow: bool = False) -> Sequence[float]:
    """Records a second of those that the bulk rows have left, or that are written for it."""
    topic, read = await turn.topic(f"bulk-{len(VALUE)}"), turn.system.consume
    if as_arrow:
        read = turn.system.consume_arrow
    if not turn.topics[topic]:
        await bulk(turn, value=VALUE)
    count = turn.topics[topic]
    some = max(1, count // 4)
    rate = some / await _timed(read(topic, some))
    count = min(count, max(some, round(rate * turn.seconds)))
    return [count / await _timed(read(topic, count))]


async def in_flight(turn: Turn, *, call: str, count: int) -> Sequence[float]:
    """Calls a second with many in flight; with one the median time of a call in milliseconds."""
    if call == "write":
        calls: Call = partial(turn.system.write, await turn.topic("in-flight"))
    else:
        calls = turn.system.put if call == "put" else turn.system.get
    if call == "get":
        await turn.system.put(count, turn.seconds / 4)
    await calls(count, turn.seconds / 2)
    answered = await calls(count, turn.seconds)
    return [statistics.median(answered.took_s) * 1000 if count == 1 else answered.rate]


async def leader_killed(turn: Turn, *, of_keys: bool) -> Sequence[float]:
    """Seconds from a SIGKILL of the leader to the first write that is acknowledged, of each kill."""
    topic = None if of_keys else await turn.topic("failover")
    took_s = []
    for _ in range(turn.kills):
        await _first_written(turn.system, topic, time.perf_counter())
        await asyncio.sleep(min(CALM_S, turn.seconds))
        took_s.append(await _first_written(turn.system, topic, await turn.system.kill_leader(topic)))
        await turn.system.recover(topic)
    return took_s


async def _first_written(system: System, topic: str | None, since_s: float) -> float:
    """Try a write anew every 0.1 s, whatever has become of those before; how long after ``since_s`` one is answered.

    So no client waits for a write that is lost.
    """
    tries: set[asyncio.Task[None]] = set()
    why: BaseException | None = None
    now_s = since_s
    try:
        while now_s < since_s + FAILED_OVER_S_MAX:
            tries.add(asyncio.create_task(system.attempt(topic)))
            next_s = now_s + TRY_EVERY_S
            while tries and now_s < next_s:
                done, tries = await asyncio.wait(tries, timeout=next_s - now_s, return_when=asyncio.FIRST_COMPLETED)
                now_s = time.perf_counter()
                errors = [task.exception() for task in done]
                if None in errors:
                    return now_s - since_s
                why = errors[-1] if errors else why
            await asyncio.sleep(max(0.0, next_s - now_s))
            now_s = time.perf_counter()
    finally:
        for task in tries:
            task.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    raise click.ClickException(f"no write within {FAILED_OVER_S_MAX:g} s; the last error: {why!r}")


async def _timed(work: Awaitable[None]) -> float:
    begun_s = time.perf_counter()
    await work
    return time.perf_counter() - begun_s


# --- the table --------------------------------------------------------------------------------------------------------

RECORDS_S, CALLS_S, MS, S, MB_S = "records/s", "calls/s", "ms", "s", "MB/s"
KIB = b"v" * 1000
FAIL_OVER = Aim(figure=0.5, worst=1.0)

ROWS = (
    Row(
        name="bulk",
        title="100-byte records in bulk, acks=all",
        unit=RECORDS_S,
        more_is_better=True,
        ability=Ability.RECORDS,
        durability=Durability.PAGE_CACHE,
        measure=partial(bulk, value=VALUE),
        aim=Aim(figure=1_500_000, ahead_of=("Kafka",)),
    ),
    Row(
        name="bulk-fsync",
        title="100-byte records in bulk, acks=all",
        unit=RECORDS_S,
        more_is_better=True,
        ability=Ability.RECORDS,
        durability=Durability.FSYNC,
        measure=partial(bulk, value=VALUE),
        aim=Aim(figure=750_000),
    ),
    Row(
        name="outcome-each",
        title="100-byte records with an outcome each, acks=all",
        unit=RECORDS_S,
        more_is_better=True,
        ability=Ability.RECORDS,
        durability=Durability.PAGE_CACHE,
        measure=partial(bulk, value=VALUE, each=True),
        aim=Aim(figure=300_000, ahead_of=("Kafka",)),
    ),
    Row(
        name="bulk-1k",
        title="1,000-byte records in bulk, acks=all",
        unit=MB_S,
        more_is_better=True,
        ability=Ability.RECORDS,
        durability=Durability.PAGE_CACHE,
        measure=partial(bulk, value=KIB, per_record=len(KIB) / 1e6),
        aim=Aim(figure=200),
    ),
    Row(
        name="one-in-flight",
        title="one write in flight, p50",
        unit=MS,
        more_is_better=False,
        ability=Ability.WRITES,
        measure=partial(in_flight, call="write", count=1),
        aim=Aim(figure=1.0, ahead_of=("etcd",)),
    ),
    Row(
        name="many-in-flight",
        title=f"{MANY} writes in flight",
        unit=RECORDS_S,
        more_is_better=True,
        ability=Ability.WRITES,
        measure=partial(in_flight, call="write", count=MANY),
        aim=Aim(figure=60_000),
    ),
    Row(
        name="consume",
        title="consume 100-byte records",
        unit=RECORDS_S,
        more_is_better=True,
        ability=Ability.RECORDS,
        measure=consume,
        aim=Aim(figure=500_000),
    ),
    Row(
        name="consume-arrow",
        title="consume 100-byte records as Arrow",
        unit=RECORDS_S,
        more_is_better=True,
        ability=Ability.ARROW,
        measure=partial(consume, as_arrow=True),
        aim=Aim(figure=3_000_000),
    ),
    Row(
        name="put",
        title="key-value put, one in flight, p50",
        unit=MS,
        more_is_better=False,
        ability=Ability.VALUES,
        measure=partial(in_flight, call="put", count=1),
        aim=Aim(ahead_of=("etcd",)),
    ),
    Row(
        name="many-puts",
        title=f"key-value put, {MANY} in flight",
        unit=CALLS_S,
        more_is_better=True,
        ability=Ability.VALUES,
        measure=partial(in_flight, call="put", count=MANY),
        aim=Aim(ahead_of=("etcd",), times=3),
    ),
    Row(
        name="get",
        title="linearizable get, one in flight, p50",
        unit=MS,
        more_is_better=False,
        ability=Ability.VALUES,
        measure=partial(in_flight, call="get", count=1),
        aim=Aim(ahead_of=("etcd",)),
    ),
    Row(
        name="many-gets",
        title=f"linearizable get, {MANY} in flight",
        unit=CALLS_S,
        more_is_better=True,
        ability=Ability.VALUES,
        measure=partial(in_flight, call="get", count=MANY),
        aim=Aim(ahead_of=("etcd",)),
    ),
    Row(
        name="failover",
        title="leader of a topic killed, to the next acknowledged write",
        unit=S,
        more_is_better=False,
        ability=Ability.RECORDS_FAIL_OVER,
        measure=partial(leader_killed, of_keys=False),
        aim=FAIL_OVER,
    ),
    Row(
        name="failover-keys",
        title="leader of the keys killed, to the next acknowledged put",
        unit=S,
        more_is_better=False,
        ability=Ability.VALUES_FAIL_OVER,
        measure=partial(leader_killed, of_keys=True),
        aim=FAIL_OVER,
    ),
)
