"""Attacks on the leader of a real cluster of three beside an honest writer: with limits, and then without.

Owns the run and its figures: the leader's resident memory and the honest writer's throughput before each attack, during
it and after it. The writer has a record with acks=all written ``PACE`` times a second, if it can, by a connection of
its own from an address of its own. What attackers do, ``attacks`` says; they run apart, with a low priority. Under
``LIMITS`` each attack must leave the promises; without them it is shown what they are good for.

    python -m benchmarks.hostile_clients --output store/bench-hostile-clients.json
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from benchmarks import brokers
from benchmarks.attacks import ATTACKS, LOG, MIB, fetch
from benchmarks.result import write_result
from replica.core.messages import CreateTopicRequest, ProduceRequest, ProduceRequests
from replica.errors import ErrorCode
from replica.records import encode_batch
from replica.rpc.codec import CREATE_TOPIC, FETCH, PRODUCE

ROOT = Path(__file__).parents[1]
LIMITS = (
    *("--connections-per-address-max", "4"),
    *("--request-rate", "500"),
    *("--producer-byte-rate", str(8 * MIB), "--consumer-byte-rate", str(32 * MIB)),
    *("--memory-bytes-max", str(384 * MIB), "--answer-bytes-max", str(128 * MIB)),
    *("--connection-answer-bytes-max", str(8 * MIB)),
)
MEMORY_BYTES_MAX = 512 * MIB
"""What the leader may hold at most under these limits: what they say, and what comes between two looks at it."""
KEPT_OF_THROUGHPUT = 0.8
PACE = 100
BEFORE_S, ATTACK_S, AFTER_S = 3.0, 6.0, 3.0
FILL_BATCHES = 32
START_TURNS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which attacks, for how long each, and how long the writer writes without them before and after it."""

    attacks: Sequence[str] = tuple(ATTACKS)
    before_s: float = BEFORE_S
    attack_s: float = ATTACK_S
    after_s: float = AFTER_S
    brokers: int = 3
    nice: int = 10
    """What is added to the attackers' niceness."""


def connection(address: str) -> grpc.aio.Channel:
    """A connection that nobody else in this process has, and that sends messages of any size."""
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
    ]
    return grpc.aio.insecure_channel(address, options=options)


def bytes_call(channel: grpc.aio.Channel, name: str) -> Callable[..., Awaitable[bytes]]:
    """The call of a method without its codec."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(name)
    return call


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def computed_s(pid: int) -> float:
    """How long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Writer:
    """The honest one: a record with acks=all, and the next when it is time, or as soon as that one is written."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.written = 0
        self.longest_s = 0.0

    async def run(self) -> None:
        """Write until cancelled."""
        write = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=20_000, records=encode_batch([b"v"]).data)
        request = PRODUCE.request.encode(ProduceRequests(requests=(write,)))
        async with connection(self._address) as channel:
            call = bytes_call(channel, PRODUCE.full_name)
            while True:
                began_s = time.monotonic()
                try:
                    (response,) = PRODUCE.response.decode(await call(request, timeout=60)).responses
                    self.written += response.error is ErrorCode.NONE
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)
                took_s = time.monotonic() - began_s
                self.longest_s = max(self.longest_s, took_s)
                await asyncio.sleep(max(0.0, 1 / PACE - took_s))

    async def rate_during(self, until: Awaitable[object]) -> tuple[float, int]:
        """Records a second that are written meanwhile, and how long the longest write took that ended then, in ms."""
        before, self.longest_s, began_s = self.written, 0.0, time.monotonic()
        await until
        return (self.written - before) / (time.monotonic() - began_s), round(self.longest_s * 1000)


async def highest(pid: int, until: asyncio.Future[int]) -> int:
    """The most memory that a process holds meanwhile."""
    most = resident_bytes(pid)
    while not until.done():
        await asyncio.sleep(0.05)
        with suppress(OSError, IndexError):
            most = max(most, resident_bytes(pid))
    return most


async def measure(running: brokers.Brokers, plan: Plan) -> list[dict[str, Any]]:
    """Attack the leader of the partition in each way; returns a row of figures for each."""
    leader = await prepared(running.addresses)
    address, pid = running.addresses[leader - 1], running.processes[leader - 1].pid
    writer = Writer(address)
    writing = asyncio.ensure_future(writer.run())
    await writer.rate_during(asyncio.sleep(plan.before_s))  # A replica that has just begun is slower.
    rows = []
    for name in plan.attacks:
        before, longest_before_ms = await writer.rate_during(asyncio.sleep(plan.before_s))
        memory_before, computed_before_s = resident_bytes(pid), computed_s(pid)
        attacker = await begun(name, address, plan)
        attack = asyncio.ensure_future(attacker.wait())
        watch = asyncio.ensure_future(highest(pid, attack))
        comes = asyncio.ensure_future(newcomer(address, plan.attack_s))
        during, longest_during_ms = await writer.rate_during(asyncio.wait([attack]))
        computed_during_s = computed_s(pid) - computed_before_s
        after, longest_after_ms = await writer.rate_during(asyncio.sleep(plan.after_s))
        rows.append(
            {
                "attack": name,
                "mebibytes_before": memory_before // MIB,
                "mebibytes_at_most": await watch // MIB,
                "mebibytes_after": resident_bytes(pid) // MIB,
                "writes_per_second_before": round(before, 1),
                "writes_per_second_during": round(during, 1),
                "writes_per_second_after": round(after, 1),
                "kept": round(during / max(before, 0.1), 2),
                "computed_s_during": round(computed_during_s, 2),
                "newcomer_is_served": await comes,
                "longest_write_ms": [longest_before_ms, longest_during_ms, longest_after_ms],
                "alive": [process.poll() is None for process in running.processes],
            }
        )
    assert not writing.done(), writing
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    return rows


async def newcomer(address: str, seconds: float) -> bool:
    """Whether a client that comes in the middle of an attack reads something before it ends."""
    await asyncio.sleep(seconds / 3)
    async with connection(address) as channel:
        try:
            call = bytes_call(channel, FETCH.full_name)
            answer = FETCH.response.decode(await call(fetch(), timeout=seconds / 2, wait_for_ready=True))
        except grpc.aio.AioRpcError:
            return False
    return len(answer.answer_for(LOG).records) > 0


async def begun(name: str, address: str, plan: Plan) -> asyncio.subprocess.Process:
    """Begin to attack, from a process of its own.

    So the honest writer shares neither an event loop nor, where it wants it, a core with what no attacker would run on
    the brokers' machine: what is measured is what the brokers have to do.
    """
    words = (sys.executable, "-m", "benchmarks.attacks", name, address, str(plan.attack_s), str(plan.nice))
    attacker = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert attacker.stdout is not None, words
    await attacker.stdout.readline()
    return attacker


async def prepared(addresses: Sequence[str]) -> int:
    """Create the topic, fill it, and return the number of who leads it, from 1."""
    create = CREATE_TOPIC.request.encode(
        CreateTopicRequest(name=LOG.topic, partition_count=1, replication_factor=len(addresses))
    )
    records = encode_batch([bytes(MIB - 1000)]).data
    write = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=20_000, records=records)
    fill = PRODUCE.request.encode(ProduceRequests(requests=(write,)))
    filled = 0
    for turn in range(START_TURNS):
        number = turn % len(addresses)
        async with connection(addresses[number]) as channel:
            with suppress(grpc.aio.AioRpcError):
                if filled == 0:
                    await bytes_call(channel, CREATE_TOPIC.full_name)(create, timeout=5)
                while filled < FILL_BATCHES:
                    answer = await bytes_call(channel, PRODUCE.full_name)(fill, timeout=20)
                    if PRODUCE.response.decode(answer).responses[0].error is not ErrorCode.NONE:
                        break
                    filled += 1
                else:
                    return number + 1
        await asyncio.sleep(0.2)
    raise TimeoutError("nobody leads the partition")


def broken_promises(row: dict[str, Any], *, in_time: bool = True) -> list[str]:
    """What a row says that must not be; ``in_time`` counts how fast honest clients were, too."""
    found = []
    if in_time and not row["newcomer_is_served"]:
        found.append("a client that came meanwhile was not served")
    if not all(row["alive"]):
        found.append(f"alive: {row['alive']}")
    if row["mebibytes_at_most"] > MEMORY_BYTES_MAX // MIB:
        found.append(f"{row['mebibytes_at_most']} MiB, more than {MEMORY_BYTES_MAX // MIB}")
    if in_time and row["kept"] < KEPT_OF_THROUGHPUT:
        found.append(f"{row['kept']:.0%} of the honest throughput, less than {KEPT_OF_THROUGHPUT:.0%}")
    return found


def run(plan: Plan, *, with_limits: bool) -> list[dict[str, Any]]:
    """Start a cluster, attack it, and end it; says each row at once."""
    with brokers.running(plan.brokers, *(LIMITS if with_limits else ()), with_peer_listeners=True) as running:
        rows = asyncio.run(measure(running, plan))
    for row in rows:
        row["broken_promises"] = broken_promises(row)
        sys.stdout.write(f"limits {'on ' if with_limits else 'off'} {row}\n")
    return rows


def main() -> int:
    """Measure with limits and without them, write down, and say what is broken with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", help=f"by default all: {', '.join(ATTACKS)}")
    parser.add_argument("--output", type=Path, help="where the figures are written, as well")
    parser.add_argument("--no-unlimited", action="store_true", help="do not attack a cluster without limits, too")
    options = parser.parse_args()
    plan = Plan(attacks=options.attacks or tuple(ATTACKS))
    limited = run(plan, with_limits=True)
    unlimited = [] if options.no_unlimited else run(plan, with_limits=False)
    if options.output is not None:
        write_result(options.output, limits=LIMITS, limited=limited, unlimited=unlimited)
    return 1 if any(row["broken_promises"] for row in limited) else 0


if __name__ == "__main__":
    sys.exit(main())
