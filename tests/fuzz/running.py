"""Inputs handed to a decoder, one after the other, and what became of each.

Owns the bounds: of processor time by a timer of the kernel, of memory by what Python has traced of a sample and by
what the process has grown. An input is made of the decoder, a seed and its number alone, so that it can be made again.
"""

from __future__ import annotations

import resource
import signal
import sys
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.decoder import Decoder
from tests.fuzz.mutations import Material, drawn

CPU_S_MAX = 5.0
"""What one input may take of the processor: hundreds of times as long as any that is right."""
MEASURED_EVERY = 64
"""Of so many inputs one is traced for the memory that it takes."""
GROWTH_BYTES = 8 << 20
"""An input with which the process has grown by so much is run again, and traced."""
UNTRACED_BYTES = 128 << 20
"""What the process may grow with one input beside what that may take: libraries keep what they have had once."""
EXAMPLES_MAX = 3
"""Of each finding so many inputs are kept."""


class Kind(StrEnum):
    """What is wrong."""

    CRASH = "crash"
    """An error that is none of the refusals."""
    HANG = "hang"
    MEMORY = "memory"
    DIED = "died"
    """The process has ended."""


class HangError(BaseException):
    """The time of one input is over. No Exception: no handler of the decoder may take it for one of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An input that is neither taken nor refused; ``where`` tells one cause from another."""

    kind: Kind
    where: str
    number: int
    content: bytes


@dataclass(slots=True, kw_only=True)
class Report:
    """What became of the inputs of one decoder."""

    accepted: int = 0
    refused: int = 0
    traced: int = 0
    peak_bytes: int = 0
    """The most that was traced of one input."""
    found: Counter[str] = field(default_factory=Counter)
    examples: list[Finding] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """How many there were."""
        return self.accepted + self.refused + self.found.total()

    def note(self, finding: Finding) -> None:
        """Count a finding, and keep its input if it is one of the first."""
        cause = f"{finding.kind}: {finding.where}"
        self.found[cause] += 1
        if self.found[cause] <= EXAMPLES_MAX:
            self.examples.append(finding)

    def add(self, other: Report) -> None:
        """Count what another one has counted."""
        self.accepted, self.refused = self.accepted + other.accepted, self.refused + other.refused
        self.traced, self.peak_bytes = self.traced + other.traced, max(self.peak_bytes, other.peak_bytes)
        for finding in other.examples:
            if sum(f"{one.kind}: {one.where}" == f"{finding.kind}: {finding.where}" for one in self.examples) < 3:
                self.examples.append(finding)
        self.found += other.found


def inputs_of(decoder: Decoder, seed: int, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """These inputs with their numbers; the first ones are the right ones as they are."""
    material = Material(decoder.right(), decoder.words)
    for number in numbers:
        if number < len(material.right):
            yield number, material.right[number]
            continue
        dice = Random(f"{decoder.name} {seed} {number}")
        content = drawn(material, dice)
        if decoder.reseal is not None and dice.random() < 0.9:
            decoder.reseal(content, dice)
        yield number, bytes(content)


def fuzz(
    decoder: Decoder,
    numbers: Iterable[int],
    *,
    seed: int,
    folder: Path,
    skip: Collection[int] = (),
    begin: Callable[[int], None] = lambda _: None,
) -> Report:
    """Run the inputs of these numbers; ``begin`` is told of each before it is."""
    report = Report()
    with timed():
        resident = _resident_bytes()
        for number, content in inputs_of(decoder, seed, numbers):
            if number in skip:
                continue
            begin(number)
            finding = tried(decoder, number, content, folder, report, is_traced=number % MEASURED_EVERY == 0)
            before, resident = resident, _resident_bytes()
            if resident - before > GROWTH_BYTES:
                finding = finding or _grown(decoder, number, content, folder, resident - before)
                resident = _resident_bytes()
            if finding is not None:
                report.note(finding)
    return report


def warm_up(decoder: Decoder, folder: Path) -> None:
    """Run all that is right once: what is imported and remembered for good with it is no input's fault."""
    for content in decoder.right():
        with suppress(Exception):
            decoder.decode(content, folder)


def replayed(decoder: Decoder, content: bytes, folder: Path) -> Finding | None:
    """What is wrong with one input, traced; nothing if it is taken or refused."""
    with timed():
        return tried(decoder, 0, content, folder, Report(), is_traced=True)


def tried(
    decoder: Decoder, number: int, content: bytes, folder: Path, report: Report, *, is_traced: bool
) -> Finding | None:
    """Run one input; it is counted if it is taken or refused."""
    if is_traced:
        tracemalloc.start()
    is_accepted = False
    try:
        _decode_in_time(decoder, content, folder)
        is_accepted = True
    except decoder.refusals:
        pass
    except HangError as error:
        return Finding(kind=Kind.HANG, where=_place_of(error), number=number, content=content)
    except MemoryError as error:
        return Finding(kind=Kind.MEMORY, where=_place_of(error), number=number, content=content)
    except Exception as error:
        return Finding(kind=Kind.CRASH, where=_cause_of(error), number=number, content=content)
    finally:
        peak = tracemalloc.get_traced_memory()[1] if is_traced else 0
        tracemalloc.stop()
    if peak > decoder.memory_max(len(content)):
        return Finding(kind=Kind.MEMORY, where=f"more than {decoder.name} may take", number=number, content=content)
    report.accepted += is_accepted
    report.refused += not is_accepted
    report.traced += is_traced
    report.peak_bytes = max(report.peak_bytes, peak)
    return None


def _decode_in_time(decoder: Decoder, content: bytes, folder: Path) -> None:
    """Raises HangError if its time is over, also if that is so just when it is done."""
    try:
        signal.setitimer(signal.ITIMER_PROF, CPU_S_MAX)
        decoder.decode(content, folder)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _grown(decoder: Decoder, number: int, content: bytes, folder: Path, growth: int) -> Finding | None:
    """Whether an input is to blame for what the process has grown by."""
    if growth > UNTRACED_BYTES + decoder.memory_max(len(content)):
        return Finding(kind=Kind.MEMORY, where=f"{decoder.name} let the process grow", number=number, content=content)
    return tried(decoder, number, content, folder, Report(), is_traced=True)


@contextmanager
def timed() -> Iterator[None]:
    """Let inputs be ended whose time is over."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, end)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _resident_bytes() -> int:
    """The most that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _cause_of(error: Exception) -> str:
    return f"{type(error).__name__} in {_place_of(error)}"


def _place_of(error: BaseException) -> str:
    """The innermost function of the project that an error came through; of the fuzzer's where it came through none."""
    frames = traceback.extract_tb(error.__traceback__)
    names = [(frame.filename.rpartition("/site-packages/")[2].split("/"), frame.name) for frame in frames]
    places = [f"{'/'.join(parts[-3:])}:{name}" for parts, name in names if {"replica", "nemesis"} & set(parts[-4:])]
    return places[-1] if places else f"{'/'.join(names[-1][0][-2:])}:{names[-1][1]}"
