"""The stage of a scenario: one calm simulated world in which only that happens which the scenario says.

Owns the passing of time, the cuts, who is held down, and a client whose writes may wait for their answers over many
steps. The world's own promises are watched all the time, and what is broken is told instead of ending the run: a
scenario may show a wrong rule at work. Knows no command and no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nemesis.faults.links import Link
from nemesis.scenarios.messages import Deliveries
from nemesis.scenarios.views import ReplicaView, WorldView, cells_of, gone, look, look_at
from nemesis.simulator.climate import Climate
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import LOG, Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Follower, Leader
from replica.core.rules import Rules
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import Offset, ReplicaId
from replica.records import encode_batch, parse_batches
from replica.storage import StorageError

HOLD = 1
"""The key under which a scenario holds machines down, and the one under which its links are cut."""
PATIENCE_MS = 10_000
"""How long a condition may take to become true, and how long a write may wait at its leader."""
ANSWER_MS = 100
"""How long the client waits at once; a later answer is told in the step in which it comes."""
HURRY_MS = 10
"""How long the questions of one that was hurried may take before the next is."""
TICK_MS = 0.01
"""How long a timer that is due may take to go off: far less than any message."""
CALM = Climate(latency_ms=(1.0, 1.0), flush_ms=(1.0, 1.0))
"""Every message and every flush takes a millisecond."""


class Stage(Observer):
    """A world, and all that a scenario does to it."""

    def __init__(self, *, seed: int = 1, climate: Climate = CALM, rules: Callable[[], Rules] = Rules) -> None:
        self.deliveries = Deliveries()
        self.cuts: frozenset[Link] = frozenset()
        self.waiting: dict[str, ReplicaId] = {}
        """Whom the client asked to append the values that it has no answer for yet."""
        self._told: list[str] = []
        self._last_views: dict[int, ReplicaView] = {}
        self.world = World(seed=seed, climate=climate, rules=rules, observers=(self.deliveries, self))
        self._invariants: Invariants | None = Invariants(self.world.logs, self.world.nodes, lying_disks=False)

    # --- looking ----------------------------------------------------------------------------------------------------

    def look(self) -> WorldView:
        """The whole cluster as it is."""
        return look(self.world, self.cuts, self._last_views)

    def take_told(self) -> tuple[str, ...]:
        """Hand over what has come to pass by itself since it was last asked for."""
        told, self._told = self._told, []
        return tuple(told)

    def node(self, replica_id: int) -> Node | None:
        """The machine with that number, if there is one."""
        return self.world.nodes.get(ReplicaId(replica_id))

    def leader(self) -> Node | None:
        """Who leads the latest epoch that anybody leads."""
        leading = [(log.epoch, node) for node in self.world.up() if isinstance((log := self._log(node)).role, Leader)]
        return max(leading, key=lambda pair: pair[0])[1] if leading else None

    def role_of(self, replica_id: int) -> str:
        """The name of its role; also of one that has no process."""
        return next(view.role for view in self.look().replicas if view.replica_id == replica_id)

    def knows(self, replica_id: int) -> int | None:
        """How far the leader knows this replica to be."""
        leader = self.leader()
        role = None if leader is None else self._log(leader).role
        known = role.voters.get(ReplicaId(replica_id)) if isinstance(role, Leader) else None
        return None if known is None else known.log_end_offset

    def has_agreed(self) -> bool:
        """Whether all that run follow one leader and know the same log, all of it to be committed."""
        logs = [self._log(node) for node in self.world.up()]
        facts = {(log.leader_id, log.epoch, log.log.log_end_offset) for log in logs}
        return (
            len(facts) == 1
            and all(log.leader_id is not None and log.high_watermark == log.log.flushed_end_offset for log in logs)
            and all(log.log.is_flushed for log in logs)
            and not self.waiting
        )

    def _log(self, node: Node) -> QuorumLog:
        assert node.core is not None, node.replica_id
        return node.core.logs[LOG]

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
        self._last_views[node.replica_id] = gone(look_at(node), flushed_only=power)
        self.world.hold_down(node.replica_id, HOLD)
        if power:
            node.lose_power(Crash(cause="power"))
        else:
            node.kill()

    def start(self, node: Node) -> None:
        """Let a machine start its process again."""
        self.world.release(node.replica_id, HOLD)

    def resign(self, node: Node) -> None:
        """Let a leader hand over, as a graceful stop does first."""
        node.submit(ev.ResignRequested())

    def hurry(self, node: Node) -> bool:
        """Let its clock leap to the moment at which it gives up on its leader or campaigns; tell whether it can."""
        role = self._log(node).role
        if isinstance(role, Leader):
            return False
        due_ms = role.fetch_deadline_ms if isinstance(role, Follower) else role.election_deadline_ms
        node.jump_clock(max(0, due_ms - node.now_ms))
        self.run(TICK_MS)
        return True

    # --- the client -------------------------------------------------------------------------------------------------

    def append(self, value: str, target: Node) -> None:
        """Append one record and wait a little for its answer."""
        self.waiting[value] = target.replica_id

        def on_reply(response: m.Response | None) -> None:
            del self.waiting[value]
            self._told.append(f"append {value} to {target.replica_id}: {_outcome(response)}")

        request = m.ProduceRequest(
            topic_partition=LOG, acks=-1, timeout_ms=PATIENCE_MS, records=encode_batch([value.encode()]).data
        )
        self.world.ask(target.replica_id, request, on_reply)
        if not self.run(ANSWER_MS, lambda: value not in self.waiting):
            self._told.append(f"append {value} to {target.replica_id}: no answer yet")

    def read(self, target: Node) -> str:
        """Read the log from its start to its high watermark as a consumer; in words, what came."""
        values: list[str] = []
        position = Offset(0)
        while answers := self._fetch(target, position):
            response = answers[0]
            if not isinstance(response, m.FetchResponse) or response.error is not ErrorCode.NONE:
                return _refusal(response)
            if response.high_watermark is None:
                return "nothing, its high watermark is not known yet"
            batches = parse_batches(response.records)
            values += [cell.value for batch in batches if not batch.is_control for cell in cells_of(batch)]
            position = batches[-1].end_offset if batches else position
            if position >= response.high_watermark:
                return f"{' '.join(values) or 'nothing'} (high watermark {response.high_watermark})"
        return "no answer"

    def _fetch(self, target: Node, position: Offset) -> list[m.Response | None]:
        """One answer, None from a machine without a process; no answer if none comes soon."""
        answers: list[m.Response | None] = []
        request = m.FetchRequest(topic_partition=LOG, fetch_offset=position, max_wait_ms=0)
        self.world.ask(target.replica_id, request, answers.append)
        self.run(ANSWER_MS, lambda: bool(answers))
        return answers

    # --- watching (Observer) ----------------------------------------------------------------------------------------

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        self._last_views.pop(node.replica_id, None)
        self._watch(lambda invariants: invariants.on_boot(node, torn_bytes))

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        for effect in step.effects:
            if isinstance(effect, fx.Halt):
                self._last_views[node.replica_id] = gone(look_at(node), flushed_only=False)
                self._told.append(f"replica {node.replica_id} halts: {effect.reason}")
        self._watch(lambda invariants: invariants.on_step(node, step))

    def on_down(self, node: Node, crash: Crash) -> None:
        """See ``Observer``. Nobody starts a process but the scenario."""
        self.world.hold_down(node.replica_id, HOLD)
        for value in [value for value, asked in self.waiting.items() if asked == node.replica_id]:
            del self.waiting[value]
            self._told.append(f"append {value} to {node.replica_id}: unknown, the connection broke")
        self._watch(lambda invariants: invariants.on_down(node, crash))

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """See ``Observer``."""
        self.world.hold_down(node.replica_id, HOLD)
        self._told.append(f"replica {node.replica_id} cannot start: {error}")

    def _watch(self, look_on: Callable[[Invariants], None]) -> None:
        """Tell of the first broken promise. What comes after it cannot be judged any more."""
        if self._invariants is None:
            return
        try:
            look_on(self._invariants)
        except BrokenInvariantError as error:
            self._invariants = None
            self._told.append(f"BROKEN {error.name}: {error.detail}")


def _outcome(response: m.Response | None) -> str:
    match response:
        case None:
            return "fail, nobody listens"
        case m.ProduceResponse(error=ErrorCode.NONE, base_offset=offset, leader_epoch=epoch):
            return f"ok, offset {offset} of epoch {epoch}"
        case m.ProduceResponse(error=error, not_appended=not_appended):
            failed = write_definitely_failed(error, not_appended=not_appended)
            return f"fail, {error}" if failed else f"unknown, {error}"
        case _:
            raise AssertionError(response)


def _refusal(response: m.Response | None) -> str:
    return "fail, nobody listens" if response is None else f"fail, {response.error}"


def calm(**changes: Any) -> Climate:
    """The calm climate with other constants."""
    return replace(CALM, **changes)
