"""The stage of a scenario: one calm simulated world in which only that happens which the scenario says.

Owns the passing of time, the cuts, who is held down, and a client whose writes may wait for their answers over many
steps. The world's own promises are watched all the time, and what is broken is told instead of ending the run: a
scenario may show a wrong rule at work. Knows no command and no file; what the replicas keep, a quorum log or a
partition, is known to the stages that derive from it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from nemesis.faults.links import Link
from nemesis.scenarios.messages import Deliveries
from nemesis.scenarios.views import Cell, ReplicaView, WorldView, cells_of, gone
from nemesis.simulator.climate import Climate
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import Observer, World
from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch, encode_batch, parse_batches
from replica.storage import StorageError

HOLD = 1
"""The key under which a scenario holds machines down, and the one under which its links are cut."""
PATIENCE_MS = 10_000
"""How long a condition may take to become true, and how long a write may wait at its leader."""
ANSWER_MS = 100
"""How long the client waits at once; a later answer is told in the step in which it comes."""
CALM = Climate(latency_ms=(1.0, 1.0), flush_ms=(1.0, 1.0))
"""Every message and every flush takes a millisecond."""


class Stage(Observer):
    """A world, and all that a scenario does to it. ``log`` is what the client writes to and reads from."""

    patience_ms = PATIENCE_MS
    answer_ms = ANSWER_MS

    def __init__(self, world: World, log: TopicPartition, deliveries: Deliveries) -> None:
        self.world = world
        self.log = log
        self.deliveries = deliveries
        self.cuts: frozenset[Link] = frozenset()
        self.waiting: dict[str, ReplicaId] = {}
        """Whom the client asked to append the values that it has no answer for yet."""
        self._told: list[str] = []
        self._last_views: dict[int, ReplicaView] = {}
        self._judges: Sequence[Observer] = ()
        world.observers += [deliveries, self]

    # --- looking ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def look(self) -> WorldView:
        """The whole cluster as it is."""

    @abstractmethod
    def look_at(self, node: Node) -> ReplicaView | None:
        """One replica that has a process; absent where it keeps nothing that is shown."""

    @abstractmethod
    def leader(self) -> Node | None:
        """Who leads the latest epoch that anybody leads."""

    @abstractmethod
    def knows(self, replica_id: int) -> int | None:
        """How far the leader knows this replica to be."""

    @abstractmethod
    def has_agreed(self) -> bool:
        """Whether all that run have the same log and know all of it to be committed."""

    def take_told(self) -> tuple[str, ...]:
        """Hand over what has come to pass by itself since it was last asked for."""
        told, self._told = self._told, []
        return tuple(told)

    def node(self, replica_id: int) -> Node | None:
        """The machine with that number, if there is one."""
        return self.world.nodes.get(ReplicaId(replica_id))

    @property
    def last_number(self) -> int:
        """The highest number that a scenario may name."""
        return len(self.world.nodes)

    def node_named(self, name: str) -> Node | None:
        """The machine that a scenario calls so, if there is one."""
        return self.node(int(name)) if name.isdecimal() else None

    def name_of(self, replica_id: int) -> str:
        """What a scenario calls a machine."""
        return str(replica_id)

    def role_of(self, replica_id: int) -> str:
        """The name of its role; also of one that has no process."""
        return next(view.role for view in self.look().replicas if view.replica_id == replica_id)

    # --- time -------------------------------------------------------------------------------------------------------

    def run(self, ms: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass, or only until a condition holds; tell whether it did. What holds already takes no time."""
        if until is not None and until():
            return True
        return self.world.queue.run_until(self.world.now_us + int(ms * US_PER_MS), until)

    # --- faults -----------------------------------------------------------------------------------------------------

    def cut(self, links: frozenset[Link]) -> None:
        """Let nothing through on these links any more, either."""
        self._set_cuts(self.cuts | links)

    def heal(self, replica_ids: frozenset[int] | None = None) -> None:
        """Let everything through again; or what goes from or to these replicas."""
        kept = () if replica_ids is None else (link for link in self.cuts if replica_ids.isdisjoint(link))
        self._set_cuts(frozenset(kept))

    def _set_cuts(self, cuts: frozenset[Link]) -> None:
        self.cuts = cuts
        self.world.network.cut(HOLD, cuts)

    def end(self, node: Node, *, power: bool) -> None:
        """End a process for good until it is started: killed, or with the power of its machine."""
        self._remember(node, flushed_only=power)
        self.world.hold_down(node.replica_id, HOLD)
        if power:
            node.lose_power(Crash(cause="power"))
        else:
            node.kill()

    def start(self, node: Node) -> None:
        """Let a machine start its process again."""
        self.world.release(node.replica_id, HOLD)

    def _remember(self, node: Node, *, flushed_only: bool) -> None:
        view = self.look_at(node)
        if view is not None:
            self._last_views[node.replica_id] = gone(view, flushed_only=flushed_only)

    @property
    def last_views(self) -> Mapping[int, ReplicaView]:
        """How each machine without a process looked when its process ended."""
        return self._last_views

    # --- the client -------------------------------------------------------------------------------------------------

    def append(self, value: str, target: Node, *, acks: int = -1) -> None:
        """Append one record and wait a little for its answer."""
        self.waiting[value] = target.replica_id

        def on_reply(response: m.Response | None) -> None:
            del self.waiting[value]
            self._told.append(f"append {value} to {target.replica_id}: {_outcome(response)}")
            self.on_answer(value, acks, response)

        request = m.ProduceRequest(
            topic_partition=self.log,
            acks=acks,
            timeout_ms=self.patience_ms,
            records=encode_batch([value.encode()]).data,
        )
        self.world.ask(target.replica_id, request, on_reply)
        if not self.run(self.answer_ms, lambda: value not in self.waiting):
            self._told.append(f"append {value} to {target.replica_id}: no answer yet")

    def read(self, target: Node) -> str:
        """Read the log from its start to its high watermark as a consumer; in words, what came."""
        cells: list[Cell] = []
        position = Offset(0)
        while answers := self._fetch(target, position):
            response = answers[0]
            answer = response.answer_for(self.log) if isinstance(response, m.FetchResponse) else None
            if answer is None or answer.error is not ErrorCode.NONE:
                return _refusal(answer)
            if answer.high_watermark is None:
                return "nothing, its high watermark is not known yet"
            batches = parse_batches(answer.records)
            cells += _records_of(batches)
            position = batches[-1].end_offset if batches else position
            if position >= answer.high_watermark:
                self.on_read(cells)
                return _found(cells, answer)
        return "no answer"

    def poll(self, target: Node) -> None:
        """Let a consumer wait at a replica for what it has not read there yet: what lies above the high watermark."""
        is_answered = False

        def on_reply(response: m.Response | None) -> None:
            nonlocal is_answered
            is_answered = True
            answer = response.answer_for(self.log) if isinstance(response, m.FetchResponse) else None
            if answer is None or answer.error is not ErrorCode.NONE:
                self._told.append(f"poll from {target.replica_id}: {_refusal(answer)}")
                return
            cells = _records_of(parse_batches(answer.records))
            self._told.append(f"poll from {target.replica_id}: {_found(cells, answer)}")
            self.on_read(cells)

        view = self.look_at(target) if target.is_up else None
        position = Offset((view.high_watermark or 0) if view is not None else 0)
        part = m.FetchPartition(topic_partition=self.log, fetch_offset=position)
        self.world.ask(target.replica_id, m.FetchRequest(partitions=(part,), max_wait_ms=self.patience_ms), on_reply)
        if not self.run(self.answer_ms, lambda: is_answered):
            self._told.append(f"poll from {target.replica_id}: nothing yet")

    def on_answer(self, value: str, acks: int, response: m.Response | None) -> None:
        """An append was answered."""

    def on_read(self, cells: Sequence[Cell]) -> None:
        """A consumer has read these records."""

    def _fetch(self, target: Node, position: Offset) -> list[m.Response | None]:
        """One answer, None from a machine without a process; no answer if none comes soon."""
        answers: list[m.Response | None] = []
        request = m.FetchRequest(partitions=(m.FetchPartition(topic_partition=self.log, fetch_offset=position),))
        self.world.ask(target.replica_id, request, answers.append)
        self.run(self.answer_ms, lambda: bool(answers))
        return answers

    # --- watching (Observer) ----------------------------------------------------------------------------------------

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        self._last_views.pop(node.replica_id, None)
        self._watch(lambda judge: judge.on_boot(node, torn_bytes))

    def on_step(self, node: Node, step: Step) -> None:
        for effect in step.effects:
            if isinstance(effect, fx.Halt):
                self._remember(node, flushed_only=False)
                self._told.append(f"replica {node.replica_id} halts: {effect.reason}")
        self._watch(lambda judge: judge.on_step(node, step))

    def on_down(self, node: Node, crash: Crash) -> None:
        """See ``Observer``. Nobody starts a process but the scenario."""
        self.world.hold_down(node.replica_id, HOLD)
        for value in [value for value, asked in self.waiting.items() if asked == node.replica_id]:
            del self.waiting[value]
            self._told.append(f"append {value} to {node.replica_id}: unknown, the connection broke")
        self._watch(lambda judge: judge.on_down(node, crash))

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        self.world.hold_down(node.replica_id, HOLD)
        self._told.append(f"replica {node.replica_id} cannot start: {error}")

    def _watch(self, look_on: Callable[[Observer], None]) -> None:
        """Tell of the first broken promise. What comes after it cannot be judged any more."""
        try:
            for judge in self._judges:
                look_on(judge)
        except BrokenInvariantError as error:
            self._judges = ()
            self._told.append(f"BROKEN {error.name}: {error.detail}")


def _outcome(response: m.Response | None) -> str:
    match response:
        case None:
            return "fail, nobody listens"
        case m.ProduceResponse(error=ErrorCode.NONE, base_offset=None):
            return "no acknowledgement was asked for"
        case m.ProduceResponse(error=ErrorCode.NONE, base_offset=offset, leader_epoch=epoch):
            return f"ok, offset {offset} of epoch {epoch}"
        case m.ProduceResponse(error=error, not_appended=not_appended):
            failed = write_definitely_failed(error, not_appended=not_appended)
            return f"fail, {error}" if failed else f"unknown, {error}"
        case _:
            raise AssertionError(response)


def _records_of(batches: Sequence[RecordBatch]) -> list[Cell]:
    return [cell for batch in batches if not batch.is_control for cell in cells_of(batch)]


def _found(cells: Sequence[Cell], answer: m.FetchedPartition) -> str:
    values = " ".join(cell.value for cell in cells)
    return f"{values or 'nothing'} (high watermark {answer.high_watermark})"


def _refusal(answer: m.FetchedPartition | None) -> str:
    return "fail, nobody listens" if answer is None else f"fail, {answer.error}"
