"""Many simulations side by side: worker processes that are fed one piece of work after the other.

Owns the processes and the order of results: they come back in the order of the work, whichever is done first, so that
what a sweep reports is a function of its options. A worker that dies or never answers is told as ``Lost``, with the
piece of work that it had: that is an error of the harness and never a verdict. Knows nothing of what the work is; its
clock is for patience only.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, TypeVar

ANSWER_S_MAX = 900.0
"""How long a worker may be at one piece of work: hundreds of times what the slowest seed takes."""
FAREWELL_S_MAX = 10.0
"""How long a worker that has closed its pipe may take to be gone, until it is killed."""
AHEAD_MAX = 256
"""How many results are kept at most behind one that is not there yet."""
JOBS_MAX = 512
YOUNG_OBJECTS_MAX = 1_000_000
"""How many objects are made until garbage in circles is looked for. A world makes many that live as long as it, and
few circles: at Python's default of 700, a tenth of the time goes into looking, and at a tenth of this one part in
thirty, to keep 7 of 170 MB from piling up."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """There is no result, because of an error in the work or the end of its worker."""

    error: str


class Workers:
    """``jobs`` processes at work; with one job, this process itself. Entered once, used as often as wanted."""

    def __init__(self, jobs: int) -> None:
        if not 1 <= jobs <= JOBS_MAX:
            raise ValueError(f"{jobs} jobs: give 1 to {JOBS_MAX}")
        self._jobs = jobs
        self.answer_s_max = ANSWER_S_MAX
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, int] = {}
        self._thresholds_before = gc.get_threshold()

    def __enter__(self) -> Workers:
        if self._jobs > 1:
            self._idle = [_Worker() for _ in range(self._jobs)]
        else:
            gc.set_threshold(YOUNG_OBJECTS_MAX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in (*self._idle, *self._busy):
            worker.end()
        self._idle, self._busy = [], {}
        gc.set_threshold(*self._thresholds_before)

    def in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[tuple[Item, Result | Lost], None, None]:
        """Do ``work`` to every item; each item with its result, in the order of the items.

        ``work`` must be a function that another process can import, or a ``partial`` of one. Whoever has seen enough
        stops asking, and closes the iterator before the workers are used again.
        """
        if self._jobs == 1:
            return ((item, _attempt(work, item)) for item in items)
        return self._side_by_side(work, items)

    def _side_by_side(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[tuple[Item, Result | Lost], None, None]:
        assert not self._busy, "the workers are still at what they were given before"
        left = enumerate(items)
        given: dict[int, Item] = {}
        done: dict[int, Result | Lost] = {}
        index = 0
        try:
            while True:
                self._feed(work, left, given)
                if not given:
                    return
                self._gather(done)
                while index in done:
                    yield given.pop(index), done.pop(index)
                    index += 1
        except GeneratorExit:
            # Nobody wants what is still under way, and the workers are wanted again: let them come to its end.
            while self._busy:
                self._gather(done)
            raise

    def _feed(self, work: Callable[[Item], Any], left: Iterator[tuple[int, Item]], given: dict[int, Item]) -> None:
        while self._idle and len(given) < AHEAD_MAX:
            index, item = next(left, (None, None))
            if index is None:
                return
            assert item is not None, index
            worker = self._idle.pop(0)
            worker.give(work, item, time.monotonic() + self.answer_s_max)
            given[index], self._busy[worker] = item, index

    def _gather(self, done: dict[int, Any]) -> None:
        """Wait until a worker has a result or has ended, and take what there is."""
        patience_s = min(worker.due_s for worker in self._busy) - time.monotonic()
        ready = wait([worker.connection for worker in self._busy], timeout=max(0.0, patience_s))
        for worker in tuple(self._busy):
            if worker.connection in ready:
                done[self._busy.pop(worker)] = worker.answer()
            elif time.monotonic() >= worker.due_s:
                done[self._busy.pop(worker)] = Lost(error=f"no result within {self.answer_s_max:g} s")
                worker.end()
            else:
                continue
            self._idle.append(worker if worker.is_alive else _Worker())


class _Worker:
    """One process, started afresh rather than forked, and the pipe to it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.due_s = 0.0
        self.is_alive = True
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _interrupts_held_off():
            self._process.start()
        theirs.close()

    def give(self, work: Callable[[Item], Any], item: Item, due_s: float) -> None:
        self.due_s = due_s
        # A worker that has ended meanwhile is noticed when its answer is waited for.
        with suppress(OSError):
            self.connection.send((work, item))

    def answer(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self._process.join(FAREWELL_S_MAX)
            self.end()
            return Lost(error=f"its worker process ended with {self._process.exitcode}")

    def end(self) -> None:
        self.is_alive = False
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection) -> None:
    """What a worker does: one piece of work after the other, until nobody is there to give any."""
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    with suppress(EOFError, OSError):
        while True:
            work, item = connection.recv()
            connection.send(_attempt(work, item))


def _attempt(work: Callable[[Item], Result], item: Item) -> Result | Lost:
    try:
        return work(item)
    except Exception as error:
        return Lost(error="".join(traceback.format_exception(error)))


@contextmanager
def _interrupts_held_off() -> Iterator[None]:
    """A process that starts here ignores Ctrl-C: whoever has started it ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
