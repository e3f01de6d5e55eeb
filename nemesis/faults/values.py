"""Faults as data: what is done, to whom, and the word for undoing it.

Owns the closed set of faults and their form in JSON. How they are done is the injectors' business. Clogged links and
metadata that comes late can be done by the simulator only. A fault with ``steps`` is only begun when it strikes: those
are the names of the operations by which it is done later, if it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from nemesis.disks.damage import WAYS
from nemesis.faults.clocks import HEALER as CLOCK_HEALER
from nemesis.faults.clocks import DriftClock, JumpWallClock, StrobeWallClock, WallClockFault, check_at_least
from nemesis.faults.crash_points import CrashPoint
from nemesis.faults.links import LinkMode
from nemesis.faults.network import (
    Bandwidth,
    Between,
    Delay,
    Duplicate,
    Loss,
    NetworkFault,
    ReplyLost,
    Reset,
    SlowClose,
)
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Replicas hear each other no more, as ``shape`` says of ``target``; clients still reach all of them."""

    kind: ClassVar[str] = "partition"
    healer: ClassVar[str] = "heal"
    shape: Shape
    target: Target = Role.NOBODY
    mode: LinkMode = LinkMode.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink:
    """One directed link between two replicas."""

    kind: ClassVar[str] = "partition-link"
    healer: ClassVar[str] = "heal"
    source: Target
    destination: Target
    mode: LinkMode = LinkMode.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class CutClients:
    """Clients and ``target`` hear each other no more; the replicas still do."""

    kind: ClassVar[str] = "partition-clients"
    healer: ClassVar[str] = "heal"
    target: Target
    mode: LinkMode = LinkMode.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL. What the process wrote and the kernel has survives; healed by starting it again."""

    kind: ClassVar[str] = "kill"
    healer: ClassVar[str] = "start"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class KillStarting:
    """SIGKILL, a start, and SIGKILL again ``after_ms`` of it, ``times`` times; healed by starting it at last."""

    kind: ClassVar[str] = "kill-starting"
    healer: ClassVar[str] = "start"
    target: Target
    after_ms: int
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAt:
    """SIGKILL when the replica comes to a ``point`` of its work for the ``nth`` time; it stands still there.

    Healed by starting who was killed; who has not come there by then is left alone. Needs replicas that are told so.
    """

    kind: ClassVar[str] = "kill-at"
    healer: ClassVar[str] = "start"
    steps: ClassVar[tuple[str]] = ("come-to-point",)
    target: Target
    point: CrashPoint
    nth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """SIGSTOP: alive, silent, and sure that no time has passed when SIGCONT comes."""

    kind: ClassVar[str] = "pause"
    healer: ClassVar[str] = "resume"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A graceful stop: the replica hands over its leadership and closes its logs; healed by starting it again."""

    kind: ClassVar[str] = "stop"
    healer: ClassVar[str] = "start"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart:
    """Each of ``target`` in turn stops gracefully, is started, and is waited for until it may lead again.

    It goes on by itself, and its healing ends it: nobody else is stopped then, and whoever is down is started.
    """

    kind: ClassVar[str] = "rolling-restart"
    healer: ClassVar[str] = "end-rolling"
    steps: ClassVar[tuple[str]] = ("stop-rolling",)
    target: Target = Role.ALL


class VoterChange(StrEnum):
    """The ways to change who votes, or who of them leads."""

    REMOVE = "remove"
    REPLACE = "replace"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVoters:
    """``target`` votes no more in quorum logs, or votes no more and comes back with an empty disk, or is to lead.

    Healed by being added to the voters again, where it is none. Who is removed only stays up and goes on fetching.
    Needs a cluster whose voters can be changed.
    """

    kind: ClassVar[str] = "membership"
    healer: ClassVar[str] = "restore-voters"
    steps: ClassVar[tuple[str, str, str]] = ("remove-voter", "transfer-leadership", "empty-disk")
    change: VoterChange
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceDisk:
    """SIGKILL of ``target``, one node, an empty disk in the place of its own, and a start. With ``outage`` all others
    are killed with it, and started with it, before it or after it.

    Healed when it is in sync again wherever it is a replica, and votes again. Needs a cluster whose voters can be
    changed, and topics whose acknowledged records are on two disks at least.
    """

    kind: ClassVar[str] = "replace-disk"
    healer: ClassVar[str] = "end-replacement"
    target: Target
    outage: bool = False


class Course(StrEnum):
    """What becomes of a move of partitions, when it is begun."""

    MOVE = "move"
    """It is left to itself."""
    REDIRECT = "redirect"
    """It is given another target, soon after."""
    CANCEL = "cancel"
    """It is cancelled, soon after."""
    REORDER = "reorder"
    """Nobody comes or goes: another of the replicas is the preferred leader, and is to lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """So many ``partitions`` move to other replicas (KIP-455), ``more`` of them than their topic was created with.

    Which, and to whom, the dice of the step say; whoever leads is to go with ``leader_goes``, where there are others
    enough. Healed when each partition has as many replicas as before: what is under way is cancelled, or let come to
    its end. Needs topics, and more than one node.
    """

    kind: ClassVar[str] = "reassign"
    healer: ClassVar[str] = "restore-replicas"
    steps: ClassVar[tuple[str, str, str]] = ("move-replicas", "cancel-move", "elect-preferred")
    course: Course
    partitions: int = 1
    more: int = 0
    leader_goes: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, partitions=self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitMemory:
    """``target`` may use no more memory than ``percent`` of what it uses now, or as much as the kernel can take away.

    Healed by the limit that it had; whom the kernel killed meanwhile is started. Needs nodes with a limit of their own.
    """

    kind: ClassVar[str] = "memory-limit"
    healer: ClassVar[str] = "free-memory"
    target: Target
    percent: int

    def __post_init__(self) -> None:
        check_at_least(1, percent=self.percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss:
    """The machine goes dark: what was written and not flushed is lost, all of it or any part."""

    kind: ClassVar[str] = "power-loss"
    healer: ClassVar[str] = "start"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Clog:
    """Messages on the links of ``shape`` are held up, and all arrive when it is healed."""

    kind: ClassVar[str] = "clog"
    healer: ClassVar[str] = "unclog"
    shape: Shape
    target: Target = Role.NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpClock:
    """The timers' clock leaps ahead by ``by_ms`` milliseconds; there is nothing to undo."""

    kind: ClassVar[str] = "clock-jump"
    healer: ClassVar[str] = CLOCK_HEALER
    target: Target
    by_ms: int

    def __post_init__(self) -> None:
        check_at_least(1, by_ms=self.by_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopClock:
    """The timers' clock stands still and the process works on: nothing is ever late by it; healed by letting it go on.

    So it is with a virtual machine whose host withholds time from it. What was missed is never made up for.
    """

    kind: ClassVar[str] = "clock-stop"
    healer: ClassVar[str] = CLOCK_HEALER
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Clients ask ``factor`` times as often as they are to; healed by the usual rate."""

    kind: ClassVar[str] = "burst"
    healer: ClassVar[str] = "ease"
    factor: int

    def __post_init__(self) -> None:
        check_at_least(1, factor=self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk:
    """Nothing that takes space can be written."""

    kind: ClassVar[str] = "fill-disk"
    healer: ClassVar[str] = "free-disk"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk:
    """A flush takes ``factor`` times as long."""

    kind: ClassVar[str] = "slow-disk"
    healer: ClassVar[str] = "speed-up-disk"
    target: Target
    factor: int

    def __post_init__(self) -> None:
        check_at_least(1, factor=self.factor)


CALLS = ("fsync", "pwrite", "pread", "rename", "create", "ftruncate", "unlink", "mkdir", "fsync_directory")
"""The calls of a disk that can fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailDisk:
    """Every call of one kind (one of ``CALLS``) fails with an input/output error."""

    kind: ClassVar[str] = "fail-disk"
    healer: ClassVar[str] = "repair-disk"
    target: Target
    call: str


class DiskPart(StrEnum):
    """Which files of a disk: of a log, a snapshot of one, or the small ones that say what is promised."""

    LOG = "log"
    SNAPSHOT = "snapshot"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageDisk:
    """Flushed bytes are flipped, zeroed or overwritten by others, or cut off (``how``), in a file of this ``part``.

    A process is killed before, and started on what there is; healed by putting back what was there. In the simulator a
    log is damaged under a process that runs, and nobody can undo it.
    """

    kind: ClassVar[str] = "damage-disk"
    healer: ClassVar[str] = "end-damage"
    target: Target
    how: str
    part: DiskPart = DiskPart.LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMetadata:
    """Each answer to a Fetch of the metadata log reaches ``target`` ``delay_ms`` later; all else comes in time.

    So a broker lives in a leader epoch that is over, while its heartbeats and its fetches of partitions go on.
    """

    kind: ClassVar[str] = "stale-metadata"
    healer: ClassVar[str] = "fresh-metadata"
    target: Target
    delay_ms: int


ProcessFault = Kill | KillStarting | KillAt | Pause | Stop | RollingRestart
"""What can be done to processes by signals, starts and orders."""
TimerFault = JumpClock | StopClock | DriftClock
"""What can be done to the clock that timers go by."""
ClockFault = TimerFault | WallClockFault
"""What can be done to clocks. The simulator has the first two of them."""
DiskFault = PowerLoss | FillDisk | SlowDisk | FailDisk | DamageDisk
"""What can be done to disks of replicas that were started on files of ours."""
LiveFault = (
    Partition | CutLink | CutClients | ProcessFault | ChangeVoters | NetworkFault | ClockFault | DiskFault | Burst
) | (Reassign | LimitMemory | ReplaceDisk)
"""What can be done to processes."""

SimulatedFault = Clog | DelayMetadata
"""What can be done in the simulator only."""

Fault = LiveFault | SimulatedFault

FAULTS: Mapping[str, type[Fault]] = {
    fault.kind: fault
    for fault in (
        *(KillStarting, KillAt, Reassign, LimitMemory, ReplaceDisk),
        *(Partition, CutLink, CutClients, Kill, Pause, Stop, RollingRestart, ChangeVoters),
        *(Delay, Loss, Bandwidth, Reset, SlowClose, ReplyLost, Duplicate),
        *(JumpClock, StopClock, DriftClock, JumpWallClock, StrobeWallClock, Burst),
        *(PowerLoss, Clog, FillDisk, SlowDisk, FailDisk, DamageDisk, DelayMetadata),
    )
}
"""Every fault by its kind."""


def _call(name: str) -> str:
    if name not in CALLS:
        raise ValueError(f"{name!r} is no call of a disk that can fail: give one of {', '.join(CALLS)}")
    return name


def _way(name: str) -> str:
    if name not in WAYS:
        raise ValueError(f"{name!r} is no damage: give one of {', '.join(WAYS)}")
    return name


_ENUMS: dict[str, Callable[[Any], Any]] = {
    "shape": Shape,
    "mode": LinkMode,
    "change": VoterChange,
    "course": Course,
    "between": Between,
    "point": CrashPoint,
    "call": _call,
    "how": _way,
    "part": DiskPart,
}


def fault_to_json(fault: Fault) -> dict[str, Any]:
    """The fault as a JSON object: ``kind`` and its fields."""
    return {"kind": fault.kind, **asdict(fault)}


def fault_from_json(document: dict[str, Any]) -> Fault:
    """The reverse. Raises ``ValueError`` for a kind or a field that does not exist."""
    fields = dict(document)
    kind = fields.pop("kind", None)
    if kind not in FAULTS:
        raise ValueError(f"{kind!r} is no fault: give one of {', '.join(FAULTS)}")
    typed = {name: _ENUMS[name](value) if name in _ENUMS else value for name, value in fields.items()}
    try:
        return FAULTS[kind](**typed)
    except TypeError as error:
        raise ValueError(f"{kind} cannot be made of {sorted(fields)}: {error}") from None
