"""The values that the page shows, each already in the unit and the words in which it is shown.

Owns the frozen dataclasses between reading a run folder and drawing it. Knows neither files nor HTML. Times are seconds
since the first operation of the history; ``None`` for a time means that it never came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nemesis.checks.promises import Kept
from nemesis.faults.look import Look
from nemesis.verdict import Verdict


class Outcome(StrEnum):
    """How an operation ended. INFO is unknown: it may have happened, or may happen yet."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class MarkKind(StrEnum):
    """A moment worth a vertical line."""

    CONTROLLER = "controller election"
    ELECTION = "leader election"
    UNCLEAN = "unclean election"
    TRUNCATION = "truncation"
    ISR_SHRINK = "ISR shrink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault from its injection to its healing. No ``replicas`` means that the whole cluster is concerned."""

    look: Look
    fault_id: int | None
    name: str
    target: str
    replicas: tuple[int, ...]
    start_s: float
    end_s: float | None

    def struck(self, replicas: Collection[int], start_s: float, end_s: float) -> bool:
        """Whether it went on at some time between these two, and struck one of these replicas."""
        goes_on = self.start_s <= end_s and (self.end_s is None or self.end_s >= start_s)
        return goes_on and (not self.replicas or not set(self.replicas).isdisjoint(replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An injection that struck nobody, and why."""

    name: str
    time_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One replica held itself leader of one epoch of ``log``, until it learned better, died, or the run ended.

    Who leads the log of the metadata is the controller. ``log`` is absent where there is only one.
    """

    log: str | None
    replica_id: int
    epoch: int
    start_s: float
    end_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that a replica reported of a log; ``offset`` is where a truncated log ends."""

    kind: MarkKind
    log: str | None
    time_s: float
    replica_id: int
    epoch: int | None
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """A partition had no leader from ``start_s`` on, and only ``eligible`` replicas might lead without a loss.

    It ended with ``leader_id``, which was *unclean* if that was not known to hold everything. All of it is absent where
    it did not end.
    """

    log: str
    epoch: int
    eligible: tuple[int, ...]
    start_s: float
    end_s: float | None
    leader_id: int | None
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """A leader that was not known to hold everything; ``isr`` and ``elr`` (eligible beside it) are those before.

    ``log_end_offset`` is where its log ended then, absent where it did not say.
    """

    kind: str
    log: str
    epoch: int
    leader_id: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    time_s: float
    log_end_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What befell the cluster, in order of time. ``replicas`` are the ids of the lanes, ascending."""

    replicas: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    leaderships: tuple[Leadership, ...] = ()
    marks: tuple[Mark, ...] = ()
    offline: tuple[Offline, ...] = ()
    unclean_elections: tuple[UncleanElection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Operations per second of one function and outcome, one figure for each bin of ``Throughput``."""

    f: str
    outcome: Outcome
    per_second: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Completions over time: bin ``i`` begins at ``starts_s[i]`` and is ``bin_ms`` wide."""

    bin_ms: int
    starts_s: tuple[float, ...] = ()
    rates: tuple[Rate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyQuantile:
    """One quantile over all ok operations of one function, by the bins of ``Throughput``; ``None`` for an empty bin."""

    f: str
    quantile: float
    times_s: tuple[float, ...]
    latency_ms: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Quantiles over all operations, and how many of the ``total`` are drawn, which is bounded."""

    quantiles: tuple[LatencyQuantile, ...] = ()
    shown: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCounts:
    """How many operations of one function ended how."""

    f: str
    counts: Mapping[Outcome, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """How often one error was recorded, by function and outcome."""

    f: str
    outcome: Outcome
    error: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """One operation in words; ``key`` is its topic-partition or object, ``returned_s`` absent if it never came back."""

    index: int
    process: str
    f: str
    key: str
    outcome: Outcome
    invoked_s: float | None
    returned_s: float | None
    value: str
    offset: str
    node: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceTable:
    """A part of an anomaly's evidence that is a list of objects of one shape; the page shows the first ``rows``."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When the operations of an anomaly ran, from the first to the last; the anomaly is marked at ``at_s``."""

    start_s: float
    end_s: float
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyKind:
    """All anomalies of one name: ``count`` were found, ``listed`` of them are in results.json one by one."""

    name: str
    promise: str
    is_violation: bool
    count: int
    listed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one replica holds at an offset, in words."""

    replica_id: int
    offset: int
    holds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyView:
    """One anomaly with all its evidence; ``life`` is what befell the records that it is about, a sentence each."""

    number: int
    anomaly: str
    severity: str
    topic_partition: str
    offsets: tuple[int, ...]
    replicas: tuple[int, ...]
    sentence: str
    moment: Moment | None = None
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[EvidenceTable, ...] = ()
    operations: tuple[OperationRow, ...] = ()
    operations_left_out: int = 0
    held: tuple[Held, ...] = ()
    life: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecord:
    """An acknowledged record that is lost; ``cause`` is empty where none is known.

    ``faults`` are those that struck its leader, or whoever is the cause, from its acknowledgement to the last cause.
    """

    topic_partition: str
    offset: int
    value: int
    cause: str
    faults: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One kind of anomaly, as the promise it would break.

    ``looked`` says how much was looked at, ``why`` why that was nothing, or not all there was; else it is empty. An
    ``is_absent`` one is of something that the run does not have: of transactions where clients only append.
    """

    anomaly: str
    sentence: str
    count: int
    kept: Kept
    looked: str
    why: str
    is_absent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdict and evidence, and in ``narrative`` what happened, in the order of time.

    ``anomalies`` are a bounded number of examples of each of the ``kinds``, the worst first; ``anomaly_count`` is how
    many were found. ``lost`` are the acknowledged records that are lost and whose offset is known, by log and offset;
    ``lost_unlisted`` is how many more there are that no row lists.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    headlines: tuple[str, ...] = ()
    narrative: tuple[str, ...] = ()
    promises: tuple[Promise, ...] = ()
    kinds: tuple[AnomalyKind, ...] = ()
    anomalies: tuple[AnomalyView, ...] = ()
    anomaly_count: int = 0
    lost: tuple[LostRecord, ...] = ()
    lost_unlisted: int = 0
    stats: tuple[tuple[str, str], ...] = ()
    engine: str = ""

    def kept(self, anomaly: str) -> Kept:
        """What is known of the promise that this anomaly would break."""
        return next((one.kept for one in self.promises if one.anomaly == anomaly), Kept.NOT_JUDGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica's log at the end of the run; ``epochs`` are (leader epoch, first offset of its batches).

    ``is_complete`` says that it was read up to its end offset.
    """

    topic_partition: str
    replica_id: int
    log_start_offset: int
    high_watermark: int | None
    log_end_offset: int
    epochs: tuple[tuple[int, int], ...]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What was known of one replica's log at some moments: an offset at each; no ``replica_id`` for all of them."""

    replica_id: int | None
    times_s: tuple[float, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InSync:
    """A replica was in the ISR for some time, as the leader and the metadata told."""

    replica_id: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A replica truncated its log from one end offset to another; ``from_offset`` is absent where it was not told."""

    replica_id: int
    time_s: float
    from_offset: int | None
    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """One log over time: who led it, who was in sync, and how far it was, as far as anybody told.

    ``acknowledged`` has the offsets at which clients were told that their records stand.
    """

    name: str
    reigns: tuple[Leadership, ...]
    in_sync: tuple[InSync, ...]
    high_watermarks: tuple[Series, ...]
    log_ends: tuple[Series, ...]
    cuts: tuple[Cut, ...]
    acknowledged: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """Everything the page shows of one run. ``missing`` says, a sentence each, what could not be read.

    ``operations`` are those of clients that are drawn, and ``log_views`` the logs.
    """

    name: str
    command: str
    facts: tuple[tuple[str, str], ...]
    duration_s: float
    judgement: Judgement
    timeline: Timeline
    throughput: Throughput
    latency: Latency
    operations: tuple[OperationRow, ...] = ()
    log_views: tuple[LogView, ...] = ()
    counts: tuple[OperationCounts, ...] = ()
    errors: tuple[ErrorCount, ...] = ()
    logs: tuple[ReplicaLog, ...] = ()
    log_files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
