"""One simulated run, from its seed to its verdict.

Owns the phases: a hostile time, then healing, then a bounded time to recover, then everything is read and judged. A run
is a function of its options and of nothing else. Whatever is found first ends it: an invariant that broke (the judge
that watches), a cluster that did not recover (liveness), or an anomaly in the history (the judge of live runs).

Source: TigerBeetle's VOPR (safety, then liveness); Kafka's ``RaftEventSimulationTest``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from nemesis.checks.schemas import Severity
from nemesis.checks.verdict import RunCounts, Verdict, decide
from nemesis.history import Kind, ReplicaLogBatch, table_of
from nemesis.pipeline.local import judge_tables
from nemesis.schedule import Schedule
from nemesis.simulator.ambush import Ambush
from nemesis.simulator.census import Census, Rare
from nemesis.simulator.clients import CLIENT_TIMEOUT_MS, PRODUCE_TIMEOUT_MS, Clients, Process
from nemesis.simulator.climate import Climate, draw_climate, with_lying_disks
from nemesis.simulator.injector import SimulatedInjector
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Node
from nemesis.simulator.plan import draw_schedule
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.violations import BrokenInvariantError, Violation
from nemesis.simulator.world import LOG, Observer, World
from nemesis.variants.catalogue import BUILT
from replica.core.messages import ProduceRequest
from replica.core.quorum.roles import Follower, Leader
from replica.core.rules import Rules
from replica.records import CorruptRecordError, RecordBatch, decode_records, parse_batches
from replica.records.batch import CRC_AT
from replica.storage import StorageError

TIME_LIMIT_S = 60.0
HOSTILE_SHARE = 0.75
"""How much of the time limit is hostile; the rest, and if need be more, is for recovering."""
RECOVERY_S_MAX = 60.0
"""How long a healed cluster may take until it serves and agrees: some election timeouts and one catching up."""
ANSWERED_S_MAX = PRODUCE_TIMEOUT_MS / 1000 + 1
"""After how long a produce must have an answer, whatever it is."""
LOOK_MS = 50
ACTIONS_MAX = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What a run is a function of. ``climate`` and ``schedule`` are drawn from the seed where they are absent.

    ``values`` bounds how many values clients append in the hostile time, absent for no bound (shrinking lowers it).
    """

    seed: int
    time_limit_s: float = TIME_LIMIT_S
    variant: str | None = None
    climate: Climate | None = None
    schedule: Schedule | None = None
    values: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run. ``rare`` counts what happened seldom, by name; ``reasons`` say why the verdict is what it is.

    ``violation`` is what the run was convicted of first; absent unless the verdict is invalid.
    """

    seed: int
    verdict: Verdict
    violation: Violation | None
    reasons: tuple[str, ...]
    rare: Mapping[str, int]
    simulated_ms: int
    steps: int
    acknowledged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that is over: its outcome, and what it recorded, for whoever wants to write or show it."""

    outcome: Outcome
    record: Record
    counts: RunCounts
    anomalies: Sequence[Mapping[str, object]] = ()
    options: SimOptions = field(default_factory=lambda: SimOptions(seed=0))


def resolved(options: SimOptions) -> SimOptions:
    """The same run with its climate and its schedule written out."""
    climate = options.climate or _climate(options)
    schedule = options.schedule or draw_schedule(
        climate, Random(f"{options.seed} schedule"), time_limit_s=options.time_limit_s * HOSTILE_SHARE
    )
    return replace(options, climate=climate, schedule=schedule)


def _climate(options: SimOptions) -> Climate:
    climate = draw_climate(Random(f"{options.seed} climate"))
    if options.variant is not None and BUILT[options.variant].needs_lying_disks:
        return with_lying_disks(climate)
    return climate


def simulate(options: SimOptions, observers: Sequence[Observer] = ()) -> Run:
    """Run it, and judge it. ``observers`` watch beside the judges; they see a step before it is judged.

    Raises RuntimeError under ``python -O``: without its assertions the core does not judge itself.
    """
    if not __debug__:
        raise RuntimeError("python -O leaves the core's invariants out: simulate without it")
    return _Simulation(resolved(options), observers).run()


class _Simulation:
    def __init__(self, options: SimOptions, observers: Sequence[Observer]) -> None:
        assert options.climate is not None, options
        assert options.schedule is not None, options
        self._options = options
        self._schedule = options.schedule
        rules = Rules if options.variant is None else BUILT[options.variant].rules
        self.world = world = World(seed=options.seed, climate=options.climate, rules=rules)
        self.record = Record(world.queue, str(LOG))
        self.census = Census(self.record)
        self.invariants = Invariants(world.logs, world.nodes, lying_disks=options.climate.lying > 0)
        world.observers += [*observers, self.census, self.invariants]
        if options.climate.ambush:
            world.observers.append(Ambush(world, self.record, Random(f"{options.seed} ambush")))
        self.clients = Clients(
            world, self.record, options.climate, Random(f"{options.seed} clients"), values_max=options.values
        )
        self.injector = SimulatedInjector(world, self.record)
        for observer in observers:
            observer.on_begin(world, self.record)

    def run(self) -> Run:
        """All phases, or as many as there are before something breaks."""
        try:
            self._break_and_use()
            if self.world.climate.lying:
                return self._undecided()
            self._heal()
            self._recover()
            self._read_everything()
        except BrokenInvariantError as error:
            return self._convicted(Violation(name=error.name, detail=error.detail, at_ms=self.world.now_ms))
        return self._judged()

    # --- phases -----------------------------------------------------------------------------------------------------

    def _break_and_use(self) -> None:
        self.world.start_all()
        self.clients.start()
        self.injector.put_down(self._schedule)
        self._pass_time(self._schedule.time_limit_s)

    def _heal(self) -> None:
        self.injector.heal_all()
        self.clients.values_max = None  # Or a cluster that recovers could not show it: that takes a write.
        calm = replace(self.world.climate, loss=0, spike=0, duplication=0, crash_in_step=0, power_in_step=0, ambush=0)
        self.world.climate = self.world.network.climate = calm

    def _recover(self) -> None:
        """Liveness: within bounds somebody leads, a write is acknowledged, and all replicas agree."""
        before = self.clients.acknowledged
        self._wait_until(lambda: self.clients.acknowledged > before, "no write was acknowledged")
        self._pass_time(max(0.0, self._options.time_limit_s - CLIENT_TIMEOUT_MS / 1000 - self.world.now_us / US_PER_S))
        self.clients.is_stopped = True
        self._pass_time(CLIENT_TIMEOUT_MS / 1000)  # What is acknowledged after the last read could not be seen by it.
        self._wait_until(lambda: has_converged(self.world), "the replicas did not agree")

    def _read_everything(self) -> None:
        reader = Process(self.clients, position=0)
        reader.read_to_the_end()
        self._wait_until(lambda: reader.has_read_to_the_end, "the log could not be read to its end")
        for node in self.world.nodes.values():
            if node.is_retired or (node.disk.is_damaged and not node.is_up):
                continue  # A reader has just come upon the damage.
            if not node.is_up:
                raise BrokenInvariantError("liveness", f"replica {node.replica_id} went down in a healed world")
            try:
                self.record.logs += log_rows(node)
            except StorageError as error:
                if not node.disk.is_damaged:
                    raise BrokenInvariantError("flushed-data-lost", f"replica {node.replica_id}: {error}") from error
                self.census.counts[Rare.DAMAGE_DETECTED] += 1
            except CorruptRecordError as error:
                detail = f"replica {node.replica_id} read without an error what is damaged: {error}"
                raise BrokenInvariantError("damage-served", detail) from error
        self._pass_time(ANSWERED_S_MAX)
        for node in self.world.up():
            for request in node.requests.values():
                if isinstance(request, ProduceRequest):
                    raise BrokenInvariantError(
                        "never-answered", f"replica {node.replica_id} owes an answer to {request}"
                    )

    def _wait_until(self, condition: Callable[[], bool], otherwise: str) -> None:
        end_us = self.world.now_us + int(RECOVERY_S_MAX * US_PER_S)
        while not condition():
            if self.world.now_us >= end_us:
                raise BrokenInvariantError("liveness", f"{otherwise} within {RECOVERY_S_MAX} s of a healed world")
            self._pass_time(LOOK_MS / 1000)

    def _pass_time(self, seconds: float) -> None:
        self.world.queue.run_until(self.world.now_us + int(seconds * US_PER_S))
        if self.world.queue.happened > ACTIONS_MAX:
            raise BrokenInvariantError("liveness", f"more than {ACTIONS_MAX} things happened: somebody goes in circles")

    # --- judgement --------------------------------------------------------------------------------------------------

    def _convicted(self, violation: Violation) -> Run:
        reasons = (f"{violation.name}: {violation.detail}",)
        return self._over(Verdict.INVALID, violation, reasons, RunCounts(), ())

    def _undecided(self) -> Run:
        """On lying disks acknowledged writes are lost; that no replica dropped them knowingly is all one can say."""
        reason = "the disks lied: only what replicas dropped knowingly was judged, and there was none"
        return self._over(Verdict.UNKNOWN, None, (reason,), RunCounts(), ())

    def _judged(self) -> Run:
        record = self.record
        tables = (
            table_of(kind, rows)
            for kind, rows in ((Kind.HISTORY, record.history), (Kind.LOGS, record.logs), (Kind.EVENTS, record.events))
        )
        counts, anomalies = judge_tables(f"{self._options.seed}", *tables, whole=True)
        decision = decide(counts=counts, anomalies=anomalies, complete=True, problems=())
        violation = None
        if decision.verdict is Verdict.INVALID:
            first = next(row for row in anomalies if row["severity"] == Severity.VIOLATION)
            violation = Violation(name=first["anomaly"], detail=first["detail"], at_ms=self.world.now_ms)
        return self._over(decision.verdict, violation, decision.reasons, counts, anomalies)

    def _over(
        self,
        verdict: Verdict,
        violation: Violation | None,
        reasons: tuple[str, ...],
        counts: RunCounts,
        anomalies: Sequence[Mapping[str, object]],
    ) -> Run:
        self.census.finish()
        outcome = Outcome(
            seed=self._options.seed,
            verdict=verdict,
            violation=violation,
            reasons=reasons,
            rare={name.value: count for name, count in sorted(self.census.counts.items()) if count},
            simulated_ms=self.world.now_ms,
            steps=self.census.steps,
            acknowledged=self.clients.acknowledged,
        )
        return Run(outcome=outcome, record=self.record, counts=counts, anomalies=anomalies, options=self._options)


def has_converged(world: World) -> bool:
    """Whether every machine that can run does, all follow one leader, and its whole log is everywhere, committed."""
    logs = [node.core.logs[LOG] for node in world.up() if node.core is not None]
    if len(logs) < sum(not node.is_retired for node in world.nodes.values()):
        return False
    return (
        sum(isinstance(log.role, Leader) for log in logs) == 1
        and all(isinstance(log.role, Leader | Follower) for log in logs)
        and len({log.epoch for log in logs}) == 1
        and len({log.log.log_end_offset for log in logs}) == 1
        and all(log.high_watermark == log.log.log_end_offset for log in logs)
    )


def log_rows(node: Node) -> list[ReplicaLogBatch]:
    """What one machine's log holds in the end, read from its disk."""
    assert node.core is not None, node.replica_id
    store, log = node.stores[LOG], node.core.logs[LOG].log
    batches = parse_batches(store.read(store.log_start_offset, store.log_end_offset, 1 << 30))

    def row(batch: RecordBatch) -> ReplicaLogBatch:
        return ReplicaLogBatch(
            replica_id=node.replica_id,
            topic_partition=str(LOG),
            base_offset=batch.base_offset,
            last_offset=batch.end_offset - 1,
            leader_epoch=batch.leader_epoch,
            crc=int.from_bytes(batch.data[CRC_AT : CRC_AT + 4]),
            is_control=batch.is_control,
            values=None if batch.is_control else tuple(int(record.value or b"-1") for record in decode_records(batch)),
            high_watermark=log.high_watermark,
            log_end_offset=store.log_end_offset,
            complete=True,
        )

    return [row(batch) for batch in batches]
