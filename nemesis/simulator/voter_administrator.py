"""Whoever changes the voters of groups while these are used: adds, removes and replaces them, and moves leadership.

Owns the choice of a change, and the asking until it is decided. One change comes after the other, a machine loses its
disk only between two, and nothing is done after which fewer than a majority of any set of voters would be left that
somebody goes by, or will if what is not committed is dropped: no operator may do that to a cluster that is to go on.
So it looks into the logs of all machines, which no operator can. A disk is lost with its machine's vote as well as
after that was taken from it.

A request that comes late arrives nowhere, as where a connection has been closed: it would be a change at a time for
which nobody has chosen it.

Source: KIP-853; Kafka's ``kafka-metadata-quorum.sh``, ``add-controller`` and ``remove-controller``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from nemesis.history import EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import World, voter_of
from replica.core import messages as m
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from replica.voters import VoterSet

RETRY_MS = (20, 400)
ATTEMPTS_MAX = 6
BURIES = 0.7
"""How often a voter whose disk is lost is removed, and not any other."""
LEADERS = 0.4
"""The share of removals that the leader of the log is asked to do to itself."""
_NOT_YET = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
_Change = m.AddVoterRequest | m.RemoveVoterRequest
_Request = _Change | m.TransferLeadershipRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChanges:
    """One change of a log's voters comes after the other, with ``pause_ms`` between; a leader has ``timeout_ms`` each.

    ``handovers`` is the share that only moves leadership, ``wipes`` the share in which a machine loses its disk.
    ``adds`` is the share of the other changes that add a voter, where there is one to add, and ``removes`` of what is
    left then the share that removes one whose disk is there.
    """

    pause_ms: tuple[int, int]
    timeout_ms: int
    handovers: float
    wipes: float
    adds: float = 0.55
    removes: float = 1.0


IN_A_CLUSTER = VoterChanges(pause_ms=(100, 1000), timeout_ms=1500, handovers=0.05, wipes=0.0, adds=0.9, removes=0.1)
"""Of the metadata log: mostly replaced disks get their votes back, so that the next disk can be done without."""


def voter_changes_of(climate: Climate) -> VoterChanges | None:
    """How voters change in a climate; absent where they never do.

    Where disks are replaced they must: what an empty disk has forgotten of its votes, no other knows.
    """
    group, cluster = climate.group, climate.cluster
    if cluster is not None and cluster.disk_losses:
        return IN_A_CLUSTER
    if group is None or not group.changing_voters:
        return None
    return VoterChanges(
        pause_ms=group.change_pause_ms, timeout_ms=group.change_timeout_ms, handovers=group.handovers, wipes=group.wipes
    )


class VoterAdministrator:
    """Changes the voters of every log of a world, until it is stopped. ``books`` say who votes where."""

    def __init__(
        self,
        world: World,
        record: Record,
        books: Mapping[TopicPartition, VoterBook],
        dice: Random,
        *,
        changes: VoterChanges,
    ) -> None:
        self.is_stopped = False
        self._world = world
        self._changes = changes
        self._record = record
        self._books = books
        self._dice = dice
        self._callers = {log: Caller(world, dice) for log in books}

    def start(self) -> None:
        """Do something after a pause, and then the next."""
        self._after(max(1, self._dice.randint(*self._changes.pause_ms)), self._act)

    def _act(self) -> None:
        if self.is_stopped:
            return
        if not self._is_quiet():
            self.start()
            return
        log, what = self._dice.choice(self._world.logs), self._dice.random()
        if what < self._changes.wipes:
            self._wipe()
        elif what < self._changes.wipes + self._changes.handovers:
            self._hand_over(log)
        else:
            self._change(log)

    # --- disks ------------------------------------------------------------------------------------------------------

    def _wipe(self) -> None:
        """Let a machine lose its disk, if all voters can do without, and have another."""
        nodes = [
            node
            for node in self._world.nodes.values()
            if voters_survive_without(self._world, self._books, node.replica_id)
        ]
        if nodes:
            node = self._dice.choice(nodes)
            detail = {"replicas": [node.replica_id]}
            self._record.nemesis(EventType.INVOKE, "replace-disk", detail)
            self._world.replace_disk(node, self._dice)
            self._record.nemesis(EventType.INFO, "replace-disk", detail)
        self.start()

    # --- requests ---------------------------------------------------------------------------------------------------

    def _hand_over(self, log: TopicPartition) -> None:
        """Let another voter lead."""
        target = self._dice.choice(self._books[log].latest_committed.ids)
        request = m.TransferLeadershipRequest(
            topic_partition=log, target_id=target, timeout_ms=self._changes.timeout_ms
        )
        self._ask(request, ATTEMPTS_MAX)

    def _change(self, log: TopicPartition) -> None:
        """Let one more vote, or one less."""
        voters, disks = self._books[log].latest_committed, _disks(self._world)
        lost = [voter.replica_id for voter in voters.voters if voter.directory_id != disks[voter.replica_id]]
        absent = [replica_id for replica_id in disks if voters.find(replica_id) is None]
        if lost and self._dice.random() < BURIES:
            self._ask(self._removal(log, voters, self._dice.choice(lost)), ATTEMPTS_MAX)
        elif absent and (len(voters.voters) == 1 or self._dice.random() < self._changes.adds):
            added = self._dice.choice(absent)
            voter = voter_of(added, disks[added])
            self._ask(
                m.AddVoterRequest(topic_partition=log, voter=voter, timeout_ms=self._changes.timeout_ms),
                ATTEMPTS_MAX,
            )
        elif self._changes.removes == 1 or self._dice.random() < self._changes.removes:
            leaders = [replica_id for replica_id in voters.ids if self._leads(replica_id, log)]
            some = leaders if leaders and self._dice.random() < LEADERS else voters.ids
            self._ask(self._removal(log, voters, self._dice.choice(some)), ATTEMPTS_MAX)
        else:
            self.start()

    def _removal(self, log: TopicPartition, voters: VoterSet, replica_id: ReplicaId) -> m.RemoveVoterRequest:
        voter = voters.find(replica_id)
        assert voter is not None, (voters, replica_id)
        return m.RemoveVoterRequest(topic_partition=log, voter=voter.key, timeout_ms=self._changes.timeout_ms)

    def _leads(self, replica_id: ReplicaId, log: TopicPartition) -> bool:
        core = self._world.nodes[replica_id].core
        return core is not None and isinstance(core.logs[log].role, Leader)

    def _ask(self, request: _Request, attempts: int) -> None:
        """Ask, again and again while that is certain to have come to nothing, and then go on."""
        if self.is_stopped or not self._is_quiet() or not self._may_ask(request):
            self.start()
            return
        book = self._books[request.topic_partition]
        book.on_its_way = partial(_changed, request=request)
        f, detail = _told(request)
        caller = self._callers[request.topic_partition]
        self._record.nemesis(EventType.INVOKE, f, detail)

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.ChangeVotersResponse | m.TransferLeadershipResponse | None), response
            book.on_its_way = None
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if response is None else response.error
            is_done = error is ErrorCode.NONE
            self._record.nemesis(EventType.INFO, f, detail, error=None if is_done else error)
            if response is None:
                caller.turn()
            elif error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                caller.follow(response.current_leader)
            if error in _NOT_YET and attempts > 1:
                self._after(self._dice.randint(*RETRY_MS), lambda: self._ask(request, attempts - 1))
            else:
                self.start()

        def on_silence() -> None:
            self._record.nemesis(EventType.INFO, f, detail, error="no answer in time")
            caller.turn()
            self.start()

        caller.ask(request, on_reply, on_silence, only_in_time=True)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._world.queue.after(delay_ms * US_PER_MS, action)

    def _is_quiet(self) -> bool:
        """Whether nobody has a change before it that is not decided: it could still come to something.

        Asked between two changes only: what was asked for and not answered cannot arrive any more.
        """
        requests = (request for node in self._world.nodes.values() for request in node.requests.values())
        if any(isinstance(request, _Change) for request in requests):
            return False
        for book in self._books.values():
            book.on_its_way = None
        return True

    def _may_ask(self, request: _Request) -> bool:
        """Whether a majority is left of any set of voters that may come of it."""
        disks, book = _disks(self._world), self._books[request.topic_partition]
        return all(is_living(_changed(voters, request), disks) for voters in book.possible())


def voters_survive_without(world: World, books: Mapping[TopicPartition, VoterBook], replica_id: ReplicaId) -> bool:
    """Tell whether each set of voters that anybody goes by, or may, can do without the disk of this machine."""
    disks = _disks(world)
    del disks[replica_id]
    return all(is_living(voters, disks) for book in books.values() for voters in book.possible())


def _disks(world: World) -> dict[ReplicaId, str]:
    return {replica_id: node.disk.directory_id for replica_id, node in world.nodes.items()}


def is_living(voters: VoterSet, disks: Mapping[ReplicaId, str]) -> bool:
    """Tell whether a majority of the voters is on the disks that the machines have."""
    living = sum(disks.get(voter.replica_id) == voter.directory_id for voter in voters.voters)
    return living >= voters.majority


def _changed(voters: VoterSet, request: _Request) -> VoterSet:
    match request:
        case m.AddVoterRequest(voter=voter):
            return voters if voters.find(voter.replica_id) is not None else voters.with_voter(voter)
        case m.RemoveVoterRequest(voter=key):
            return voters.without(key.replica_id) if voters.has(key) and len(voters.voters) > 1 else voters
        case _:
            return voters


def _told(request: _Request) -> tuple[str, dict[str, Any]]:
    """What the history calls it."""
    log = {"log": f"{request.topic_partition}"}
    match request:
        case m.AddVoterRequest(voter=voter):
            return "add-voter", {**log, "replicas": [voter.replica_id]}
        case m.RemoveVoterRequest(voter=key):
            return "remove-voter", {**log, "replicas": [key.replica_id]}
        case _:
            return "hand-over", {**log, "replicas": [request.target_id]}
