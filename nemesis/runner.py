"""One run: a folder, a cluster, a schedule, a workload, and a history on disk.

Owns the order of things and the run's documents (``test.json``, ``schedule.json``). Ends with a recorded history and
nothing left running, whatever happens; judging comes afterwards and needs the folder only.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from typing import Any

from nemesis.cluster.closing import closed_by, side_by_side
from nemesis.cluster.host import DIED
from nemesis.cluster.key_value_client import SMALL_SNAPSHOT_RECORD_BYTES
from nemesis.cluster.kinds import ClusterKind
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.resources import resources_kept
from nemesis.cluster.system import System
from nemesis.errors import UnsupportedError
from nemesis.faults.catalogue import KINDS
from nemesis.faults.load import Load
from nemesis.faults.needs import Need
from nemesis.history import FINAL_READ, KILLED_FROM_OUTSIDE, POLL, READ, EventType
from nemesis.history.document import TEST_NAME
from nemesis.history.recorder import Clock, Recorder
from nemesis.history.stopped import Found, Stopped, write_stopped
from nemesis.history.writer import HistoryWriter
from nemesis.schedules.injector import Injector, is_set_within
from nemesis.schedules.schedule import Schedule
from nemesis.systems.catalogue import HIGHWATER, new_system, offer_of
from nemesis.systems.offer import Offered
from nemesis.workload.catalogue import USUAL
from nemesis.workload.ending import ReportWriter, dump_all, sample_high_watermarks, wait_converged
from nemesis.workload.workload import KEYS_DEFAULT, Setup, Workload

WEAK_ACKS = {"1": 1, "0": 0}
"""What stands in the history of appends that ask for less than all replicas."""
READS = frozenset({POLL, FINAL_READ, READ})
"""The operations that change nothing."""
ENDED_OTHERWISE = ("halted", DIED, KILLED_FROM_OUTSIDE)
"""What a replica reports, or is told of it, that ends otherwise than it was told to."""
DISAGREED_S_MAX = 5.0
"""How long the final read of each log may take where the replicas did not agree: it may never end."""
SHARD_S = 2.0
"""How often the history is written out: no more than this is lost when the harness is killed."""
VERSIONED = ("highwater-log", "grpcio", "protobuf", "pyarrow", "numpy", "pyspark")
SMALL_SEGMENT_BYTES = 32_768
"""Where disks are broken: so small that new files are begun, and their names can be lost, while others write."""
SERVER_IN_HAND = ("-m", "nemesis.variants.server")
"""How Python starts a replica that the harness has its hands on."""
REPOSITORY = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a run is made of, beside its schedule; all of it stands in ``test.json``.

    ``system`` is what is put to the test, ``cluster`` how big it is, ``kind`` where its nodes run. With
    ``strict_acks`` an append that asked for less than all replicas is judged as if it had asked for all. ``rate`` is
    operations a second of all ``concurrency`` processes together. ``keys`` is how many objects are in use at a time, of
    a workload that has objects. ``final_time_limit`` is how many seconds the replicas get to agree when all is healed.
    """

    seed: int
    nemesis: tuple[str, ...] = ()
    variant: str | None = None
    workload: type[Workload] = USUAL
    strict_acks: bool = False
    keys: int = KEYS_DEFAULT
    concurrency: int = 10
    rate: float = 200.0
    final_time_limit: float = 45.0
    system: str = HIGHWATER
    kind: ClusterKind = ClusterKind.LOCAL
    cluster: ReplicaOptions = field(default_factory=ReplicaOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is, for whoever watches."""

    phase: str
    elapsed_s: float
    time_limit_s: float
    acknowledged: int
    failed: int
    unknown: int
    polls: int
    faults: tuple[str, ...]


OnProgress = Callable[[Progress], None]
FirstAnomaly = Callable[[], Awaitable[Found | None]]
"""Waits for the first anomaly of the run that is being recorded; None when nobody looks for any more."""
STOP = "stop"
"""What stands in the history where the run was stopped."""


def new_folder(store: Path, now: datetime, workload: type[Workload] = USUAL) -> Path:
    """Make ``<store>/<workload>/<UTC time>/`` and let ``latest`` beside it point there."""
    stem = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    parent = store / workload.name
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1000):
        folder = parent / (stem if attempt == 0 else f"{stem}-{attempt}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    else:
        raise FileExistsError(f"{parent} has a thousand runs of {stem} already")
    pointer = parent / f".latest-{os.getpid()}"
    pointer.symlink_to(folder.name)
    pointer.replace(parent / "latest")
    return folder


def write_documents(folder: Path, options: RunOptions, schedule: Schedule, argv: Sequence[str], now: datetime) -> None:
    """Write ``test.json`` (seed, options, versions, command) and ``schedule.json``."""
    offer = offer_of(options.system)
    document = {
        "workload": options.workload.name,
        "seed": options.seed,
        "shows_logs": offer.shows_logs,
        "logs": offer.logs(options.cluster),
        "gapless": list(offer.gapless(options.cluster)),
        "trimmed": list(options.cluster.topics.trimmed),
        "started_at": now.astimezone(UTC).isoformat(timespec="seconds"),
        "options": {"schedule": schedule.name, "time_limit": schedule.time_limit_s, **options_to_json(options)},
        "versions": versions(),
        "argv": list(argv),
    }
    (folder / TEST_NAME).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (folder / "schedule.json").write_text(schedule.to_json(), encoding="utf-8")


def options_to_json(options: RunOptions) -> dict[str, Any]:
    """Every setting of a run but its seed and its schedule, by name."""
    values: dict[str, Any] = asdict(options)
    cluster, kind = values.pop("cluster"), values.pop("kind")
    del values["seed"], values["workload"], cluster["server"]
    store = cluster.pop("store")
    if store is None:
        del values["keys"]
    parts = [*(cluster.pop(name) for name in ("topics", "client", "timing")), *([] if store is None else [store])]
    return {**values, "cluster": kind, **cluster, **{name: value for part in parts for name, value in part.items()}}


def versions() -> dict[str, str]:
    """What this run depends on: packages, Python, system, and the commit if this is a checkout."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for name in VERSIONED:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    commit = _commit()
    return found if commit is None else found | {"commit": commit}


def _commit() -> str | None:
    command = ("git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    if not (REPOSITORY / ".git").exists():
        return None
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def check_supported(options: RunOptions, schedule: Schedule) -> None:
    """Look whether such a cluster can be had here, and can do all that the schedule asks for.

    And all that was to be drawn from: which of it a seed draws must not decide whether a run is refused. Nothing is
    made or started. Raises UnsupportedError, which says what cannot be done and why.
    """
    _check_supported(_new_cluster(Path(), options), options, schedule)


def _new_cluster(folder: Path, options: RunOptions) -> Offered:
    return new_system(options.system, options.kind, folder, options.cluster)


def _check_supported(system: System, options: RunOptions, schedule: Schedule) -> None:
    asked = {fault.kind: fault.need for fault in schedule.faults} | {word: KINDS[word].need for word in options.nemesis}
    reasons = {kind: system.lacks(need) for kind, need in asked.items()}
    said = [f"{name}: {why}" for name, why in reasons.items() if why is not None]
    if said:
        raise UnsupportedError(f"a cluster of the kind {options.kind} cannot do what is asked for: {'; '.join(said)}")


async def record_run(
    folder: Path,
    options: RunOptions,
    schedule: Schedule,
    on_progress: OnProgress,
    first_anomaly: FirstAnomaly | None = None,
) -> None:
    """Run the schedule against a cluster in ``folder`` and record it.

    With ``first_anomaly`` the run ends when that has come: no further step, everything heals, and all is read. Raises
    UnsupportedError as ``check_supported`` does, NodeFailedError when the cluster does not start, or something of it
    is left over. Whatever is raised, and when cancelled, faults are undone, processes ended, and what was recorded is
    kept, without the mark of a complete history.
    """
    cluster = _new_cluster(folder, options)
    _check_supported(cluster, options, schedule)
    with HistoryWriter(folder) as writer:
        clock = Clock()
        reports = ReportWriter(writer, clock)
        run = OpenRun(cluster, writer, clock, reports, options, schedule, on_progress, first_anomaly)
        ended = (
            lambda: reports.write_new(cluster.reports()),
            # What befalls the replicas now is their being stopped, not the run; unless one ends otherwise.
            cluster.close,
            lambda: reports.write_new([report for report in cluster.reports() if report.event in ENDED_OTHERWISE]),
        )
        async with closed_by(*ended):
            await cluster.open()
            async with resources_kept(cluster, folder, clock.now_ns):
                stopped = await run.record()
            if stopped is not None:
                write_stopped(folder, stopped)


class OpenRun:
    """The phases of one run over an open cluster."""

    def __init__(
        self,
        system: System,
        writer: HistoryWriter,
        clock: Clock,
        reports: ReportWriter,
        options: RunOptions,
        schedule: Schedule,
        on_progress: OnProgress,
        first_anomaly: FirstAnomaly | None = None,
    ) -> None:
        self._system = system
        self._writer = writer
        self._clock = clock
        self._reports = reports
        self._options = options
        self._schedule = schedule
        self._on_progress = on_progress
        self._first_anomaly = first_anomaly
        self._stopped: Stopped | None = None
        self._phase = "starting"
        self._recorder = recorder = Recorder(writer, clock)
        load = Load()
        self._injector = Injector(system, recorder, load)
        self._workload = options.workload(_setup(options, system, recorder, load))

    async def record(self) -> Stopped | None:
        """Make the topics, let clients and faults loose, heal, read everything; returns what cut it short."""
        watch = asyncio.create_task(self._watch())
        try:
            await self._system.create_logs()
            await self._break_and_use()
            await self._read_everything()
            return self._stopped
        finally:
            await self._injector.abandon()
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _break_and_use(self) -> None:
        """Clients and faults side by side, until the time is up and the last step is done, or an anomaly is known."""
        self._phase = "running"
        over, stop = asyncio.Event(), asyncio.Event()
        begin_s = asyncio.get_running_loop().time()
        async with side_by_side() as tasks:
            # It ends here: of two who ask side by side, the older answer could be written after the newer one.
            samples = tasks.create_task(sample_high_watermarks(self._system, self._recorder, stop))
            tasks.create_task(self._workload.run(rate=self._options.rate, stop=stop))
            judge = tasks.create_task(self._end_at_anomaly(over))
            try:
                late_s = await self._injector.run(self._schedule, begin_s=begin_s, stop=over)
                end_s = begin_s + self._schedule.time_limit_s + late_s
                await is_set_within(over, end_s - asyncio.get_running_loop().time())
                judge.cancel()
                self._phase = "healing"
                await self._injector.heal_all()
            finally:
                # A cancellation alone does not end them for sure: in Python 3.11 ``asyncio.wait_for``, by which Redis's
                # client sends each command, loses one that comes when the command has just been sent.
                stop.set()
                samples.cancel()

    async def _end_at_anomaly(self, over: asyncio.Event) -> None:
        """Set ``over`` when the first anomaly is known, and say so in the history."""
        found = None if self._first_anomaly is None else await self._first_anomaly()
        if found is not None:
            self._stopped = Stopped(at_s=round(self._clock.now_ns() / 1e9, 3), found=found)
            self._recorder.harness(EventType.INFO, STOP, asdict(self._stopped))
            over.set()

    async def _read_everything(self) -> None:
        self._phase = "converging"
        patience_s = self._options.final_time_limit
        agreed = await wait_converged(self._system, self._recorder, at_most_s=patience_s)
        self._phase = "reading"
        at_most_s = patience_s if agreed else min(patience_s, DISAGREED_S_MAX)
        await self._workload.read_everything(at_most_s=at_most_s, claim_end=agreed)
        await dump_all(self._system, self._recorder, self._writer)

    async def _watch(self) -> None:
        """Write the history out and tell the progress, again and again."""
        written_ns = 0
        while True:
            await asyncio.sleep(0.25)
            if self._clock.now_ns() - written_ns > SHARD_S * 1e9:
                self._reports.write_new(self._system.reports())
                self._writer.flush()
                written_ns = self._clock.now_ns()
            self._on_progress(self._progress())

    def _progress(self) -> Progress:
        changes, reads = self._recorder.counted(READS)
        return Progress(
            phase=self._phase,
            elapsed_s=self._clock.now_ns() / 1e9,
            time_limit_s=self._schedule.time_limit_s,
            acknowledged=changes[EventType.OK],
            failed=changes[EventType.FAIL],
            unknown=changes[EventType.INFO],
            polls=reads[EventType.OK],
            faults=self._injector.open_faults,
        )


def _setup(options: RunOptions, system: System, recorder: Recorder, load: Load) -> Setup:
    return Setup(
        system=system,
        recorder=recorder,
        # A name, not the number alone: the schedule's dice must not repeat themselves here.
        random=Random(f"workload {options.seed}"),
        concurrency=options.concurrency,
        load=load,
        keys=options.keys,
        acks=None if options.strict_acks else WEAK_ACKS.get(options.cluster.client.acks),
    )


def variant_server(variant: str) -> tuple[str, ...]:
    """How Python starts a replica with that variant's wrong rule."""
    return (*SERVER_IN_HAND, "--variant", variant)


def that_can_stand_still(cluster: ReplicaOptions) -> ReplicaOptions:
    """The same cluster, of replicas that can be told to stand still at points of their work."""
    return replace(cluster, server=_server_in_hand(cluster), can_stand_still=True)


def with_clocks_in_hand(cluster: ReplicaOptions) -> ReplicaOptions:
    """The same cluster, of nodes whose clocks can be set."""
    return replace(cluster, server=_server_in_hand(cluster), clocks_in_hand=True)


def that_can_break_disks(cluster: ReplicaOptions) -> ReplicaOptions:
    """The same cluster, of replicas whose disks can lose power, refuse and tarry; their files are many and small."""
    store = cluster.store and replace(cluster.store, snapshot_record_bytes=SMALL_SNAPSHOT_RECORD_BYTES)
    small = replace(cluster, store=store, log_segment_bytes=SMALL_SEGMENT_BYTES)
    return replace(small, server=_server_in_hand(cluster), can_break_disks=True)


def in_hand(cluster: ReplicaOptions, needs: Collection[Need]) -> ReplicaOptions:
    """The same cluster, of nodes that can be told whatever faults with these needs have to tell them."""
    if Need.STANDING_STILL in needs:
        cluster = that_can_stand_still(cluster)
    if Need.TIMERS in needs or Need.WALL_CLOCKS in needs:
        cluster = with_clocks_in_hand(cluster)
    return that_can_break_disks(cluster) if Need.DISKS in needs else cluster


def _server_in_hand(cluster: ReplicaOptions) -> tuple[str, ...]:
    """How Python starts its replicas in the harness's own way, with the wrong rule that it may have."""
    return cluster.server if cluster.server[: len(SERVER_IN_HAND)] == SERVER_IN_HAND else SERVER_IN_HAND
