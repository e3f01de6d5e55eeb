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
from nemesis.checks.verdict import RunCounts, decide
from nemesis.history import LAST_KNOWN_LEADER_ELECTED, UNCLEAN_ELECTION
from nemesis.history.record_batches import DamagedError
from nemesis.schedules.schedule import Schedule
from nemesis.simulator import passing_topic
from nemesis.simulator.administrator import Administrator
from nemesis.simulator.ambush import Ambush
from nemesis.simulator.appointees import AppointeeAmbush
from nemesis.simulator.asking import CLIENT_TIMEOUT_MS
from nemesis.simulator.census import Census, GroupCensus, MetadataCensus, VoterCensus
from nemesis.simulator.clients import Clients
from nemesis.simulator.climate import QUICK_LANE_MS, Climate
from nemesis.simulator.cluster_census import ClusterCensus
from nemesis.simulator.directory_loss import DirectoryLoss
from nemesis.simulator.disk_loss import DiskLoss
from nemesis.simulator.faults import draw_schedule
from nemesis.simulator.group_clients import GroupClients
from nemesis.simulator.group_invariants import GroupInvariants
from nemesis.simulator.injector import SimulatedInjector
from nemesis.simulator.judges import books_of, judge_record, judges_of
from nemesis.simulator.needs import with_needs
from nemesis.simulator.node import Node
from nemesis.simulator.not_promised import told, with_allowed
from nemesis.simulator.operator import Operator
from nemesis.simulator.partition_history import GivenUp
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.passing_topic import PassingTopic
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.rare import Rare
from nemesis.simulator.reassigner import Reassigner
from nemesis.simulator.record import Record, log_rows
from nemesis.simulator.recovery import GroupRecovery, copied, hosted_logs, lost_to_damage, why_not_converged
from nemesis.simulator.refusals import RefusalInvariants, Refusals
from nemesis.simulator.rolling_upgrade import RollingUpgrade
from nemesis.simulator.rot import Rot
from nemesis.simulator.seeds import climate_of
from nemesis.simulator.session import PRODUCE_TIMEOUT_MS
from nemesis.simulator.setting_changer import SettingChanger
from nemesis.simulator.violations import BrokenInvariantError, Violation
from nemesis.simulator.voter_administrator import VoterAdministrator, voter_changes_of
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import Observer, World
from nemesis.variants.catalogue import BUILT
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core.rules import Rules
from replica.ids import TopicPartition
from replica.storage import StorageError

TIME_LIMIT_S = 60.0
HOSTILE_SHARE = 0.75
"""How much of the time limit is hostile; the rest, and if need be more, is for recovering."""
RECOVERY_S_MAX = 60.0
"""How long a healed cluster may take until it serves and agrees: some election timeouts and one catching up."""
ANSWERED_S_MAX = PRODUCE_TIMEOUT_MS / 1000 + 1
"""After how long a call must have an answer, whatever it is: a produce waits longest."""
LOOK_MS = 50
ACTIONS_MAX = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What a run is a function of. ``climate`` and ``schedule`` are drawn from the seed where they are absent.

    ``world`` is the kind of world that is drawn; a climate that is given is one of its own kind.
    ``values`` bounds how many values clients append in the hostile time, absent for no bound (shrinking lowers it).
    """

    seed: int
    world: WorldKind = WorldKind.QUORUM
    time_limit_s: float = TIME_LIMIT_S
    variant: str | None = None
    climate: Climate | None = None
    schedule: Schedule | None = None
    values: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run. ``rare`` counts what happened seldom, by name; ``reasons`` say why the verdict is what it is.

    ``violation`` is what the run was convicted of first; absent unless the verdict is invalid. ``not_promised`` says
    what did not hold and need not: such a world may lose it.
    """

    seed: int
    verdict: Verdict
    violation: Violation | None
    reasons: tuple[str, ...]
    rare: Mapping[str, int]
    simulated_ms: int
    steps: int
    acknowledged: int
    not_promised: tuple[str, ...] = ()


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
    return replace(options, world=climate.world, climate=climate, schedule=schedule)


def _climate(options: SimOptions) -> Climate:
    climate = climate_of(options.seed, options.world)
    return climate if options.variant is None else with_needs(climate, BUILT[options.variant].needs)


def simulate(options: SimOptions, observers: Sequence[Observer] = ()) -> Run:
    """Run it, and judge it. ``observers`` watch beside the judges; they see a step before it is judged.

    Raises RuntimeError under ``python -O``: without its assertions the core does not judge itself.
    """
    if not __debug__:
        raise RuntimeError("python -O leaves the core's invariants out: simulate without it")
    return _Simulation(resolved(options), observers).run()


class _LostPartitionError(Exception):
    """Damage has taken whom a partition needs: nothing more can be asked of the cluster."""


def _administrator_of(world: World, seed: int) -> Administrator | None:
    cluster = world.climate.cluster
    return None if cluster is None else Administrator(world, cluster, Random(f"{seed} administrator"))


def _passing_topic_of(world: World, seed: int) -> PassingTopic | None:
    cluster = world.climate.cluster
    if cluster is None or not cluster.passing_topic:
        return None
    return PassingTopic(world, cluster, Random(f"{seed} passing topic"))


def _reassigner_of(world: World, record: Record, seed: int) -> Reassigner | None:
    cluster = world.climate.cluster
    if cluster is None or not cluster.reassignments:
        return None
    return Reassigner(world, cluster, record, Random(f"{seed} reassignments"))


def _setting_changer_of(world: World, seed: int) -> SettingChanger | None:
    cluster = world.climate.cluster
    if cluster is None or not cluster.setting_changes:
        return None
    return SettingChanger(world, cluster, Random(f"{seed} setting changes"))


def _upgrade_of(world: World, record: Record, seed: int) -> RollingUpgrade | None:
    cluster = world.climate.cluster
    if cluster is None or not cluster.upgrades:
        return None
    return RollingUpgrade(world, cluster, record, Random(f"{seed} rolling upgrade"))


class _Simulation:
    def __init__(self, options: SimOptions, observers: Sequence[Observer]) -> None:
        assert options.climate is not None, options
        assert options.schedule is not None, options
        self._options = options
        self._schedule = options.schedule
        rules = Rules if options.variant is None else BUILT[options.variant].rules
        self.world = world = World(seed=options.seed, climate=options.climate, rules=rules)
        self.record = Record(world.queue)
        self.census = Census(self.record, world.quorum_log)
        judges = judges_of(world)
        self._groups = next((judge for judge in judges if isinstance(judge, GroupInvariants)), None)
        self._partitions = next((judge for judge in judges if isinstance(judge, PartitionInvariants)), None)
        if self._partitions is not None:
            self._partitions.on_given_up = self._record_given_up
        world.observers += [*observers, self.census, *judges]
        if options.climate.group is not None:
            world.observers.append(GroupCensus(world, self.record))
        books = books_of(judges)
        self.voter_census = VoterCensus(self.record, books)
        self.voters: VoterAdministrator | None = None
        changes = voter_changes_of(options.climate)
        if changes is not None:
            world.observers.append(self.voter_census)
            dice = Random(f"{options.seed} voters")
            self.voters = VoterAdministrator(world, self.record, books, dice, changes=changes)
        if options.climate.cluster is not None:
            world.observers += [ClusterCensus(self.record), MetadataCensus(self.record)]
        self.administrator = _administrator_of(world, options.seed)
        self.passing_topic = _passing_topic_of(world, options.seed)
        self.disk_loss = self._new_disk_loss(books)
        self.operator = self._new_operator()
        self.rot = self._new_rot()
        self.reassigner = _reassigner_of(world, self.record, options.seed)
        self.setting_changer = _setting_changer_of(world, options.seed)
        self.upgrade = _upgrade_of(world, self.record, options.seed)
        self.refusals = self._new_refusals()
        if options.climate.ambush:
            world.observers.append(Ambush(world, self.record, Random(f"{options.seed} ambush")))
        if options.climate.cluster is not None and options.climate.cluster.appointee_ambush:
            dice = Random(f"{options.seed} appointee ambush")
            world.observers.append(AppointeeAmbush(world, self.record, dice))
        clients = Clients if options.climate.group is None else GroupClients
        self.clients: Clients | GroupClients = clients(
            world, self.record, options.climate, Random(f"{options.seed} clients"), values_max=options.values
        )
        self.injector = SimulatedInjector(world, self.record)
        for observer in observers:
            observer.on_begin(world, self.record)

    def _new_disk_loss(self, books: Mapping[TopicPartition, VoterBook]) -> DiskLoss | None:
        cluster, dice = self.world.climate.cluster, Random(f"{self._options.seed} disk loss")
        if cluster is None or not cluster.disk_losses:
            return None
        assert self._partitions is not None, cluster
        return DiskLoss(self.world, cluster, self.record, dice, partitions=self._partitions, books=books)

    def _new_operator(self) -> Operator | None:
        cluster, dice = self.world.climate.cluster, Random(f"{self._options.seed} operator")
        if cluster is None or not (cluster.disk_losses or cluster.directory_losses):
            return None
        assert self._partitions is not None, cluster
        return Operator(self.world, self._partitions, self.record, dice)

    def _new_refusals(self) -> Refusals:
        """Who lets cores know of ends of processes, and who watches what they make of it, if the climate has that."""
        refusals = Refusals(self.world, self.record, Random(f"{self._options.seed} refused"))
        if self.world.climate.refusals:
            self.world.observers.append(refusals)
            if self.world.climate.cluster is not None:
                self.world.observers.append(RefusalInvariants(refusals))
        return refusals

    def _record_given_up(self, log: TopicPartition, election: GivenUp) -> None:
        """An election as a controller of a live run tells of it."""
        if log.topic == passing_topic.NAME:
            return  # To who knows topics by their names, its epochs begin again and again.
        self.record.replica(
            election.leader_id,
            LAST_KNOWN_LEADER_ELECTED if election.led_last else UNCLEAN_ELECTION,
            topic_partition=log,
            epoch=election.epoch,
            detail={"leader_id": election.leader_id, "isr": election.isr, "elr": election.elr},
        )

    def _new_rot(self) -> Rot | DirectoryLoss | None:
        cluster, dice = self.world.climate.cluster, Random(f"{self._options.seed} rot")
        if cluster is None or not (cluster.rot or cluster.directory_losses):
            return None
        assert self._partitions is not None, cluster
        kind = Rot if cluster.rot else DirectoryLoss
        return kind(self.world, cluster, self.record, dice, partitions=self._partitions)

    def run(self) -> Run:
        """All phases, or as many as there are before something breaks."""
        try:
            self._break_and_use()
            if self.world.climate.lying:
                return self._undecided(
                    "the disks lied: only what replicas dropped knowingly was judged, and there was none"
                )
            self._heal()
            self._recover()
            self._read_everything()
        except BrokenInvariantError as error:
            return self._convicted(Violation(name=error.name, detail=error.detail, at_ms=self.world.now_ms))
        except _LostPartitionError as error:
            return self._undecided(str(error))
        return self._judged()

    # --- phases -----------------------------------------------------------------------------------------------------

    def _break_and_use(self) -> None:
        self.world.start_all()
        meddlers = (self.administrator, self.passing_topic, self.disk_loss, self.rot, self.reassigner, self.voters)
        for meddler in (*meddlers, self.setting_changer, self.upgrade):
            if meddler is not None:
                meddler.start()
        self.refusals.start()
        self.clients.start()
        self.injector.put_down(self._schedule)
        self._pass_time(self._schedule.time_limit_s)

    def _heal(self) -> None:
        self.injector.heal_all()
        for meddler in (self.disk_loss, self.rot, self.setting_changer):
            if meddler is not None:
                meddler.stop()
        if self.upgrade is not None:
            self.upgrade.finish()
        if self.operator is not None:
            self.operator.start()
        if self.administrator is not None:
            self.administrator.keeps_records = True
        if self.passing_topic is not None:
            self.passing_topic.is_stopped = True
        if self.reassigner is not None:
            self.reassigner.is_stopped = True
        if self.voters is not None:
            self.voters.is_stopped = True
        self.clients.values_max = None  # Or a cluster that recovers could not show it: that takes a write.
        climate, cluster = self.world.climate, self.world.climate.cluster
        calm = replace(
            climate,
            loss=0,
            spike=0,
            duplication=0,
            crash_in_step=0,
            power_in_step=0,
            ambush=0,
            false_refusals=0,
            slow_lane_ms=QUICK_LANE_MS,
            cluster=None if cluster is None else replace(cluster, appointee_ambush=0),
        )
        self.world.climate = self.world.network.climate = calm

    def _recover(self) -> None:
        """Liveness: within bounds somebody leads, a write is acknowledged everywhere, and all replicas agree."""
        before = self.clients.acknowledged.copy()
        if self.world.climate.world is not WorldKind.QUORUM:
            for log in self.world.used_logs:
                self.clients.probe(log)

        def unserved() -> str | None:
            silent = [log for log in self.world.used_logs if self.clients.acknowledged[log] <= before[log]]
            return None if not silent else f"{silent[0]}: {why_not_converged(self.world)}"

        self._wait_while(unserved, "no write was acknowledged")
        self._wait_while(self._why_not_upgraded, "the feature level was not raised")
        self._pass_time(max(0.0, self._options.time_limit_s - CLIENT_TIMEOUT_MS / 1000 - self.world.now_us / US_PER_S))
        self.clients.is_stopped = True
        self._pass_time(CLIENT_TIMEOUT_MS / 1000)  # What is acknowledged after the last read could not be seen by it.
        self._wait_while(self._why_not_agreed(), "the replicas did not agree", copied=lambda: copied(self.world))

    def _why_not_upgraded(self) -> str | None:
        """A machine that never starts again cannot say what it knows, and nobody unregisters it."""
        if self.upgrade is None or self.upgrade.is_done or any(node.is_retired for node in self.world.nodes.values()):
            return None
        return f"replicas know {self.world.newest_levels}"

    def _why_not_agreed(self) -> Callable[[], str | None]:
        if self.world.climate.group is not None:
            return GroupRecovery(self.world).missing
        return lambda: why_not_converged(self.world)

    def _read_everything(self) -> None:
        readers = self.clients.read_to_the_end(self.world.used_logs)

        def unread() -> str | None:
            return next((f"{reader.log}" for reader in readers if not reader.has_read_to_the_end), None)

        self._wait_while(unread, "a log could not be read to its end")
        for node in self.world.nodes.values():
            if node.is_retired or (node.disk.is_damaged and not node.is_up):
                continue  # A reader has just come upon the damage.
            if not node.is_up:
                raise BrokenInvariantError("liveness", f"replica {node.replica_id} went down in a healed world")
            for log in hosted_logs(self.world, node):
                self._keep_log(node, log)
        self._await_answers()

    def _keep_log(self, node: Node, log: TopicPartition) -> None:
        broker = None if node.core is None else node.core.broker
        try:
            if broker is not None and log in broker.offline:  # Somebody has come upon its damage just now.
                raise StorageError(broker.offline[log].reason)
            self.record.logs += log_rows(node, log, has_values=self.world.climate.group is None)
        except StorageError as error:
            if not node.disk.is_damaged and log not in node.disk.rotten:
                raise BrokenInvariantError("flushed-data-lost", f"replica {node.replica_id}: {error}") from error
            self.record.rare[Rare.DAMAGE_DETECTED] += 1
        except DamagedError as error:
            detail = f"replica {node.replica_id} read without an error what is damaged: {error}"
            raise BrokenInvariantError("damage-served", detail) from error

    def _await_answers(self) -> None:
        """Whoever was asked something has answered it by the time that the longest wait is over."""
        owed = [
            (node, node.incarnation, call_id, request)
            for node in self.world.up()
            for call_id, request in node.requests.items()
        ]
        self._pass_time(ANSWERED_S_MAX)
        for node, incarnation, call_id, request in owed:
            if node.is_up and node.incarnation == incarnation and call_id in node.requests:
                detail = f"replica {node.replica_id} owes an answer to {request}"
                raise BrokenInvariantError("never-answered", detail)

    def _wait_while(
        self, missing: Callable[[], str | None], otherwise: str, *, copied: Callable[[], int] = lambda: 0
    ) -> None:
        """Let time pass until nothing is missing any more, and anew whenever more than ever is ``copied``.

        A follower may take one batch at a time, over a slow link to a slow disk, and many records to be back.
        """
        most, wait_us = copied(), int(RECOVERY_S_MAX * US_PER_S)
        end_us = self.world.now_us + wait_us
        while (what := missing()) is not None:
            if (now_copied := copied()) > most:
                most, end_us = now_copied, self.world.now_us + wait_us
            if self.world.now_us >= end_us:
                lost = lost_to_damage(self.world)
                if lost is not None:
                    raise _LostPartitionError(lost)
                detail = f"{otherwise} within {RECOVERY_S_MAX} s of a healed world: {what}"
                raise BrokenInvariantError("liveness", detail)
            self._pass_time(LOOK_MS / 1000)

    def _pass_time(self, seconds: float) -> None:
        self.world.queue.run_until(self.world.now_us + int(seconds * US_PER_S))
        if self.world.queue.happened > ACTIONS_MAX:
            raise BrokenInvariantError("liveness", f"more than {ACTIONS_MAX} things happened: somebody goes in circles")

    # --- judgement --------------------------------------------------------------------------------------------------

    def _convicted(self, violation: Violation) -> Run:
        reasons = (f"{violation.name}: {violation.detail}",)
        return self._over(Verdict.INVALID, violation, reasons, RunCounts(), ())

    def _undecided(self, reason: str) -> Run:
        """Not all could be judged, and what was is right."""
        return self._over(Verdict.UNKNOWN, None, (reason,), RunCounts(), ())

    def _judged(self) -> Run:
        counts, findings = judge_record(f"{self._options.seed}", self.record, self.world.climate)
        anomalies, coverage = findings.anomalies.to_pylist(), findings.coverage.to_pylist()
        anomalies = with_allowed(anomalies, self.record, self._given_up(), deletes=self._deletes())
        decision = decide(counts=counts, anomalies=anomalies, coverage=coverage, complete=True, problems=())
        violation = None
        if decision.verdict is Verdict.INVALID:
            first = next(row for row in anomalies if row["severity"] == Severity.VIOLATION)
            violation = Violation(name=first["anomaly"], detail=first["detail"], at_ms=self.world.now_ms)
        elif (stale_read := self._stale_read()) is not None:
            return self._convicted(Violation(name="stale-read", detail=stale_read, at_ms=self.world.now_ms))
        return self._over(decision.verdict, violation, decision.reasons, counts, anomalies)

    def _given_up(self) -> dict[str, Sequence[GivenUp]]:
        """The partitions in which elections may have given up what was acknowledged."""
        found = {} if self._partitions is None else self._partitions.given_up()
        return {f"{name}": elections for name, elections in found.items()}

    def _deletes(self) -> bool:
        """Whether retention deletes records, and whoever asks for that."""
        cluster = self.world.climate.cluster
        return cluster is not None and cluster.retention_bytes >= 0

    def _stale_read(self) -> str | None:
        """An answer that was too old, though the history does not show it."""
        return None if self._groups is None else self._groups.stale_read

    def _over(
        self,
        verdict: Verdict,
        violation: Violation | None,
        reasons: tuple[str, ...],
        counts: RunCounts,
        anomalies: Sequence[Mapping[str, object]],
    ) -> Run:
        self.census.finish()
        self.voter_census.finish()
        outcome = Outcome(
            seed=self._options.seed,
            verdict=verdict,
            violation=violation,
            reasons=reasons,
            rare=dict(sorted((f"{name}", count) for name, count in self.record.rare.items() if count)),
            simulated_ms=self.world.now_ms,
            steps=self.census.steps,
            acknowledged=self.clients.acknowledged.total(),
            not_promised=tuple(told(anomalies)),
        )
        return Run(outcome=outcome, record=self.record, counts=counts, anomalies=anomalies, options=self._options)
