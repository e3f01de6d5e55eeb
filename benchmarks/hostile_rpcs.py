"""Random messages of every RPC against a real cluster of three, beside one honest idempotent writer.

Owns the run, the figures and the promises: no replica halts, no wrong answer, no event loop that stalls for more than
100 ms by what the replica does, memory bounded, honest writes go on, and nothing of them is lost or there twice. One
JSON object of figures; exit code 1 where a promise is broken. What is drawn, ``extreme_messages`` says; what a wrong
answer is, ``hostile_sender``.

    python -m benchmarks.hostile_rpcs --rpcs 155000 --output store/hostile-rpcs.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import brokers
from benchmarks.honest_writer import Account, HonestWriter
from benchmarks.hostile_clients import resident_bytes

ROOT = Path(__file__).parents[1]
TOPIC = "honest"
PARTITIONS = 3
OPTIONS = ("--group", "group=key-value")
ALONE_S = 10.0
AFTER_S = 10.0
STALL_MS = 100
MEMORY_BYTES_MAX = 1 << 30
"""What a broker may hold at most under any of this; what answers may hold has by default the same bound."""
WATCH_S = 0.05


@dataclass(slots=True)
class Watch:
    """What is seen of one replica from outside while it runs."""

    pid: int
    first_bytes: int = 0
    most_bytes: int = 0
    last_bytes: int = 0
    starved: list[tuple[int, int]] = field(default_factory=list)
    """When it was looked at, by the monotonic clock, and how long its loop's thread had waited for a processor until
    then; both in ns."""

    async def run(self) -> None:
        """Look again and again until cancelled."""
        self.first_bytes = resident_bytes(self.pid)
        while True:
            with suppress(OSError, IndexError):
                self.last_bytes = resident_bytes(self.pid)
                self.most_bytes = max(self.most_bytes, self.last_bytes)
                waited_ns = int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1])
                self.starved.append((time.monotonic_ns(), waited_ns))
            await asyncio.sleep(WATCH_S)

    def starved_ms(self, stall: Stall) -> int:
        """How long it was ready during a stall, and the machine had no processor for it; at most as long as that."""
        began_ns = stall.ended_ns - stall.delay_ms * 1_000_000
        before = [waited_ns for at_ns, waited_ns in self.starved if at_ns <= began_ns][-1:]
        after = [waited_ns for at_ns, waited_ns in self.starved if at_ns >= stall.ended_ns][:1]
        return min(stall.delay_ms, (after[0] - before[0]) // 1_000_000) if before and after else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One of an event loop, as its replica tells it: until when, how long, and how long it has computed meanwhile."""

    ended_ns: int
    delay_ms: int
    computed_ms: int


@dataclass(slots=True, kw_only=True)
class Told:
    """What a replica has told about itself in its log."""

    starts: int = 0
    halts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)


def told_in(log: Path) -> Told:
    """Read a replica's log. Whatever is no line of its own (a traceback) counts as an error."""
    told = Told()
    for text in log.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            told.errors.append(text)
            continue
        match line.get("event"):
            case "started":
                told.starts += 1
            case "halted":
                told.halts.append(str(line.get("reason")))
            case "event_loop_stalled":
                stall = (line["monotonic_ns"], line["delay_ms"], line["computed_ms"])
                told.stalls.append(Stall(ended_ns=stall[0], delay_ms=stall[1], computed_ms=stall[2]))
            case _ if line.get("level") in ("error", "critical"):
                told.errors.append(text)
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is sent, and how long the writer writes alone before and after it."""

    first: int
    rpcs: int
    secrets: bool = False
    alone_s: float = ALONE_S
    after_s: float = AFTER_S


async def hostile(running: brokers.Brokers, plan: Plan) -> dict[str, Any]:
    """Send random messages from a process of its own; returns its tally."""
    listeners = [*running.addresses, *running.peer_addresses]
    what = (str(plan.first), str(plan.rpcs), TOPIC, "secrets" if plan.secrets else "none")
    words = (sys.executable, "-m", "benchmarks.hostile_sender", *what, *listeners)
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    output, _ = await process.communicate()
    tally: dict[str, Any] = json.loads(output)
    return tally


async def measure(running: brokers.Brokers, plan: Plan) -> dict[str, Any]:
    """Write alone, then beside random messages, then alone again, and compare; returns the figures."""
    writer = HonestWriter(running.addresses, TOPIC)
    await writer.create(PARTITIONS)
    watches = [Watch(process.pid) for process in running.processes]
    watching = [asyncio.create_task(watch.run()) for watch in watches]
    writing = asyncio.create_task(writer.run())
    await asyncio.sleep(plan.alone_s)
    before = len(writer.account.acknowledged)
    tally = await hostile(running, plan)
    beside = len(writer.account.acknowledged) - before
    await asyncio.sleep(plan.after_s)
    for each in (writing, *watching):
        assert not each.done(), each  # It has failed.
        each.cancel()
    await asyncio.gather(writing, *watching, return_exceptions=True)
    account = await writer.compare()
    told = [told_in(running.log_file(number)) for number in range(1, len(watches) + 1)]
    return {
        "rpcs": sum(tally["sent"].values()),
        "rpcs_per_second": round(sum(tally["sent"].values()) / tally["seconds"], 1),
        **tally,
        "alive": [process.poll() is None for process in running.processes],
        "starts": [each.starts for each in told],
        "halts": [reason for each in told for reason in each.halts],
        "errors_in_logs": [error for each in told for error in each.errors][:100],
        **_of_stalls(told, watches),
        "mebibytes_before": [watch.first_bytes >> 20 for watch in watches],
        "mebibytes_at_most": [watch.most_bytes >> 20 for watch in watches],
        "mebibytes_after": [watch.last_bytes >> 20 for watch in watches],
        "writes_per_second_alone": round(before / plan.alone_s, 1),
        "writes_per_second_beside": round(beside / tally["seconds"], 1),
        **_of_account(account),
    }


def _of_stalls(told: Sequence[Told], watches: Sequence[Watch]) -> dict[str, Any]:
    """What is left of a stall, beside what was computed and waited for a processor, was waited for a disk or a lock."""
    stalls = [
        sorted(((stall.delay_ms, stall.computed_ms, watch.starved_ms(stall)) for stall in each.stalls), reverse=True)
        for each, watch in zip(told, watches, strict=True)
    ]
    return {
        "stalls_over_100_ms": [len(each) for each in stalls],
        "longest_stalls_with_computed_and_starved_ms": [" ".join(map(str, each[:10])) for each in stalls],
        "longest_computed_ms": [max((computed for _, computed, _ in each), default=0) for each in stalls],
        "longest_waited_otherwise_ms": [
            max((max(0, whole - sum(of)) for whole, *of in each), default=0) for each in stalls
        ],
    }


def _of_account(account: Account) -> dict[str, Any]:
    return {
        "acknowledged": len(account.acknowledged),
        "not_written": len(account.not_written),
        "unknown": len(account.unknown),
        "found": account.found,
        "lost": len(account.lost),
        "twice": len(account.twice),
        "misplaced": len(account.misplaced),
        "complaints": dict(account.complaints),
        "longest_write_ms": round(account.longest_write_s * 1000),
    }


def broken_promises(figures: dict[str, Any], *, in_time: bool = True) -> list[str]:
    """What the figures say that must not be; ``in_time`` counts stalls, too."""
    found = [
        f"{name}: {figures[name]}"
        for name in ("halts", "errors_in_logs", "wrong_count", "lost", "twice", "misplaced")
        if figures[name]
    ]
    if not all(figures["alive"]) or set(figures["starts"]) != {1}:
        found.append(f"alive: {figures['alive']}, starts: {figures['starts']}")
    if in_time and max(figures["longest_computed_ms"]) > STALL_MS:
        found.append(f"an event loop has stalled: {figures['longest_computed_ms']}")
    if max(figures["mebibytes_at_most"]) > MEMORY_BYTES_MAX >> 20:
        found.append(f"mebibytes_at_most: {figures['mebibytes_at_most']}")
    if not figures["writes_per_second_beside"]:
        found.append("no honest write went on")
    return found


async def run(plan: Plan, keep: Path | None = None) -> dict[str, Any]:
    """Start a cluster, measure, and end it. Its logs are copied to ``keep``."""
    with brokers.running(3, *OPTIONS, with_peer_listeners=True) as running:
        try:
            return await measure(running, plan)
        finally:
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                for number in range(1, 4):
                    (keep / f"{number}.log").write_bytes(running.log_file(number).read_bytes())


def main() -> int:
    """Measure, write down, and say what is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rpcs", type=int, default=155_000)
    parser.add_argument(
        "--first", type=int, default=0, help="the number of the first message: another one, other messages"
    )
    parser.add_argument("--output", type=Path, help="where the figures are written, as well")
    parser.add_argument("--keep", type=Path, help="a folder for the logs of the replicas")
    parser.add_argument("--secrets", action="store_true", help="forge with what only a replica itself should know")
    options = parser.parse_args()
    plan = Plan(first=options.first, rpcs=options.rpcs, secrets=options.secrets)
    figures = asyncio.run(run(plan, options.keep))
    figures["broken_promises"] = broken_promises(figures)
    text = json.dumps(figures, indent=2)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text)
    sys.stdout.write(text + "\n")
    return 1 if figures["broken_promises"] else 0


if __name__ == "__main__":
    sys.exit(main())
