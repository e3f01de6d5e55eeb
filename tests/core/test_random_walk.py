"""One replica in a world of random peers and clients, polite and rude: what must hold whatever happens to it.

The world keeps the promises that other replicas keep (one leader an epoch, votes only for that one) and nothing else:
answers come late, twice or never, offsets and epochs are guessed, requests are malformed, power fails.
A failing seed is repeated with ``pytest tests/core/test_random_walk.py -k 'walk and [seed]'``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId, SnapshotId
from replica.records import encode_batch
from tests.core.harness import CLUSTER, LOG, Bench, batches_of, disk_id, kept_snapshot_of, leader, records_of
from tests.core.scenarios import fetch_answer, fetch_of_log
from tests.depth import seeds

CONFIG = QuorumConfig(parked_fetches_max=4, parked_produces_max=4, observers_max=2, fetch_wait_max_ms=5000)
PERMITTED_HALTS = ("below the high watermark", "which is committed")
"""What a guessing leader can drive a replica to; two leaders in one epoch there are not."""
SNAPSHOTS_SEEN = {"stored", "installed", "rejected"}


class Walk:
    """A bench, a seed, and one random thing after another."""

    def __init__(self, seed: int, *, replica_id: int) -> None:
        self.random = Random(seed)
        self.bench = Bench(replica_id=replica_id, config=CONFIG, seed=seed)
        self.stale: list[fx.Send] = []
        self.seen: Counter[str] = Counter()
        self.votes: dict[int, ReplicaId] = {}
        self.leaders: dict[int, ReplicaId] = {}

    def leader_of(self, epoch: int) -> ReplicaId:
        """Name the only replica that is ever elected in this epoch."""
        return ReplicaId(Random(epoch).randrange(3))

    def run(self, steps: int) -> None:
        actions: list[tuple[int, Callable[[], object]]] = [
            (6, self.request),
            (8, self.answer),
            (2, self.fail),
            (2, self.answer_again),
            (5, self.flush),
            (4, self.wait),
            (6, self.store_snapshot),
            (3, self.catch_up),
            (6, self.load_snapshot),
            (1, lambda: self.bench.to_deadline() if self.bench.replica.deadline_ms is not None else None),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            (_, action) = self.random.choices(actions, weights)[0]
            action()
            if self.random.random() < 0.005:
                self.bench.step(ev.ResignRequested())
            self.check()
            if self.bench.halted is not None or self.random.random() < 0.01:
                self.bench.restart(power_loss=self.random.random() < 0.5)
                self.stale.clear()  # No answer reaches a process through the connections of the one before it.
                self.seen["restart"] += 1
                self.check()

    def check(self) -> None:
        """Check what no step may break."""
        bench = self.bench
        self.seen[bench.role] += 1
        if bench.halted is not None:
            self.seen["halt"] += 1
            assert any(reason in bench.halted for reason in PERMITTED_HALTS), bench.halted
            return
        due_ms = bench.replica.deadline_ms
        assert due_ms is None or due_ms > bench.now_ms, ("a deadline that has passed", bench.log.role)
        assert bench.log.log.log_end_offset == bench.disk.end
        stored = bench.disk.quorum_state
        if stored is None:
            return
        assert stored == bench.log.quorum_state
        assert stored.leader_epoch >= max([0, *self.votes, *self.leaders]), "an epoch fell"
        if stored.voted_id is not None:
            assert self.votes.setdefault(stored.leader_epoch, stored.voted_id) == stored.voted_id, "voted twice"
        if stored.leader_id is not None:
            assert self.leaders.setdefault(stored.leader_epoch, stored.leader_id) == stored.leader_id, "two leaders"

    # --- time and disk ----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        self.bench.elapse(self.random.choice([0, 1, 20, 100, 500, 2000]))

    def flush(self) -> None:
        if self.bench.disk.owed:
            self.bench.flush()

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def store_snapshot(self) -> None:
        """Finish the snapshot that is on its way, or take one of something committed."""
        bench, log = self.bench, self.bench.log.log
        if bench.disk.storing:
            bench.finish_storing()
            self.seen["stored"] += 1
            return
        newest = log.snapshots[-1].id.end_offset if log.snapshots else 0
        if bench.log.is_storing_snapshot or (log.high_watermark or 0) <= newest:
            return
        end_offset = self.random.randint(newest + 1, log.high_watermark or 0)
        bench.store(end_offset, log.epoch_below(Offset(end_offset)) or 0)

    def catch_up(self) -> None:
        """Send a follower to a snapshot, and let some pieces come as they should."""
        for send in reversed(self.bench.sends):
            if isinstance(send.request, m.FetchRequest):
                self.bench.respond(send, fetch_answer(error=ErrorCode.NONE, snapshot_id=self.snapshot_id()))
                break
        for _ in range(3):
            for send in reversed(self.bench.sends):
                if isinstance(send.request, m.FetchSnapshotRequest):
                    self.bench.respond(send, self.piece(send.request, ErrorCode.NONE))
                    break
        if self.random.random() < 0.7:
            self.load_snapshot()

    def load_snapshot(self) -> None:
        """Load what was received, or find that it cannot be loaded."""
        log = self.bench.log
        if log.received_snapshot is None:
            return
        if self.random.random() < 0.7:
            self.bench.act(log.install_snapshot(self.bench.now_ms))
            self.seen["installed"] += 1
        else:
            self.bench.act(log.reject_snapshot(self.bench.now_ms))
            self.seen["rejected"] += 1

    def snapshot_id(self) -> SnapshotId:
        """Guess a snapshot: one that there is, or one ahead."""
        ahead = SnapshotId(Offset(self.bench.disk.end + self.random.randint(-2, 9)), self.near_epoch())
        return self.random.choice([ahead, ahead, *self.bench.disk.snapshots])

    def piece(self, request: m.FetchSnapshotRequest, error: ErrorCode) -> m.PeerResponse:
        if error is not ErrorCode.NONE:
            return m.FetchSnapshotResponse(error=error, current_leader=self.some_leader())
        asked = self.random.choice([request.snapshot_id] * 9 + [self.snapshot_id()])
        data = kept_snapshot_of(asked.end_offset, asked.epoch).data
        position = request.position + self.random.choice([0] * 9 + [1])
        return m.FetchSnapshotResponse(
            error=error,
            snapshot_id=asked,
            size_bytes=len(data),
            position=position,
            data=data[position : position + self.random.choice([1 << 20, 1 << 20, 20, 0])],
            current_leader=self.own_leader(),
        )

    def fetch_snapshot(self) -> m.Request:
        asked = self.snapshot_id()
        return m.FetchSnapshotRequest(
            topic_partition=LOG,
            cluster_id=self.cluster(),
            snapshot_end_offset=asked.end_offset,
            snapshot_epoch=asked.epoch,
            position=self.random.choice([0, 0, 3, -1, 1 << 40]),
            max_bytes=self.random.choice([1 << 20, 7, 0, -1]),
            current_leader_epoch=self.near_epoch(),
            replica_id=(replica_id := ReplicaId(self.random.choice([0, 1, 2, 9]))),
            replica_directory_id=disk_id(replica_id),
        )

    # --- peers that answer ------------------------------------------------------------------------------------------

    def take_send(self) -> fx.Send | None:
        if not self.bench.sends:
            return None
        send = self.random.choice(self.bench.sends)
        self.stale.append(send)
        return send

    def answer(self) -> None:
        if (send := self.take_send()) is not None:
            self.bench.respond(send, self.response_to(send))

    def answer_again(self) -> None:
        if self.stale:
            send = self.random.choice(self.stale)
            self.bench.respond(send, self.response_to(send))

    def fail(self) -> None:
        if (send := self.take_send()) is not None:
            self.bench.fail(send)

    def near_epoch(self) -> Epoch:
        """Guess an epoch: mostly the present one, sometimes one beside it."""
        return Epoch(max(0, self.bench.epoch + self.random.choice([0, 0, 0, 0, 0, 0, -1, 1, 2])))

    def some_leader(self) -> m.CurrentLeader:
        epoch = self.near_epoch()
        known = self.random.random() < 0.6 and (epoch != self.bench.epoch or self.leader_of(epoch) != 0)
        return leader(self.leader_of(epoch) if known and epoch > 0 else None, epoch)

    def response_to(self, send: fx.Send) -> m.PeerResponse:
        current = self.some_leader()
        error = self.random.choice([ErrorCode.NONE] * 6 + list(ErrorCode))
        match send.request:
            case m.VoteRequest(pre_vote=pre_vote, candidate_epoch=epoch, candidate_id=candidate):
                granted = self.random.random() < 0.8 and (pre_vote or self.leader_of(epoch) == candidate)
                return m.VoteResponse(error=ErrorCode.NONE, vote_granted=granted, current_leader=current)
            case m.FetchRequest():
                return self.fetch_response(send.request, error)
            case m.FetchSnapshotRequest():
                return self.piece(send.request, self.random.choice([ErrorCode.NONE] * 199 + list(ErrorCode)))
            case m.BeginQuorumEpochRequest():
                return m.BeginQuorumEpochResponse(error=error, current_leader=current)
            case m.EndQuorumEpochRequest():
                return m.EndQuorumEpochResponse(error=error, current_leader=current)
            case _:
                raise AssertionError(f"a quorum log never sends {send.request}")

    def own_leader(self) -> m.CurrentLeader | None:
        return self.random.choice([None, leader(self.bench.log.leader_id, self.bench.epoch), self.some_leader()])

    def fetch_response(self, request: m.FetchRequest, error: ErrorCode) -> m.FetchResponse:
        (part,) = request.partitions
        if error is not ErrorCode.NONE:
            of_the_log = fetch_answer(error=error, current_leader=self.some_leader())
            return self.random.choice([of_the_log, of_the_log, of_the_log, m.FetchResponse(error=error)])
        if self.random.random() < 0.3:
            sent_to = self.snapshot_id()
            return fetch_answer(error=error, snapshot_id=sent_to, current_leader=self.own_leader())
        if self.random.random() < 0.1:
            end = EpochEndOffset(Epoch(self.random.randint(0, self.bench.epoch)), self.boundary())
            return fetch_answer(error=error, diverging_epoch=end, current_leader=self.own_leader())
        epoch = max(1, self.random.randint(min(part.last_fetched_epoch or 0, self.bench.epoch), self.bench.epoch))
        data = records_of(batches_of((epoch, self.random.randrange(4)), start=part.fetch_offset))
        if data and self.random.random() < 0.1:
            data = data[: self.random.randrange(len(data))]
        known = self.bench.high_watermark or 0
        high_watermark = self.random.choice([None, known, known, known + 1, known + 2, self.offset()])
        return fetch_answer(
            error=error,
            high_watermark=None if high_watermark is None else Offset(high_watermark),
            current_leader=self.own_leader(),
            records=data,
        )

    # --- peers and clients that ask ---------------------------------------------------------------------------------

    def offset(self) -> Offset:
        """Guess an offset: mostly near the log's end."""
        return Offset(max(0, self.bench.disk.end + self.random.choice([0, 0, 0, 0, -1, -2, -9, 1, 50, -(1 << 40)])))

    def boundary(self) -> Offset:
        """Guess where an epoch ends: between batches, for logs that share an epoch share its batches."""
        return self.random.choice([Offset(self.bench.disk.end + 5), *self._batch_ends()[-4:]])

    def _batch_ends(self) -> list[Offset]:
        return [self.bench.disk.start, *(batch.end_offset for batch in self.bench.disk.batches)]

    def request(self) -> None:
        make = self.random.choice([self.vote, self.begin, self.end, self.fetch, self.fetch, self.produce, self.ask])
        self.bench.call(make())

    def ask(self) -> m.Request:
        return self.inspect() if self.random.random() < 0.7 else self.fetch_snapshot()

    def cluster(self) -> str | None:
        return self.random.choice([CLUSTER] * 8 + [None, "another"])

    def vote(self) -> m.Request:
        last_epoch = self.bench.log.log.last_epoch or 0
        return m.VoteRequest(
            topic_partition=LOG,
            cluster_id=self.cluster(),
            candidate_id=ReplicaId(self.random.choice([0, 1, 1, 2, 2, 9])),
            candidate_directory_id=self.random.choice([None, "disk", "disk"]),
            candidate_epoch=self.near_epoch(),
            last_offset_epoch=last_epoch + self.random.choice([0, 0, 0, -1, 1, -(1 << 31), 1 << 30]),
            last_offset=self.offset() - self.random.choice([0, 0, 0, 1 << 50]),
            pre_vote=self.random.random() < 0.5,
            **self.addressee(),
        )

    def addressee(self) -> dict[str, Any]:
        """Name for whom a request is: mostly for this very voter, sometimes for another, or for nobody."""
        config = self.bench.config
        return {
            "voter_id": self.random.choice([*[config.replica_id] * 4, None, ReplicaId(1)]),
            "voter_directory_id": self.random.choice([*[config.directory_id] * 4, None, disk_id(1)]),
        }

    def begin(self) -> m.Request:
        epoch = self.near_epoch()
        return m.BeginQuorumEpochRequest(
            topic_partition=LOG,
            cluster_id=self.cluster(),
            leader_id=self.leader_of(epoch),
            leader_epoch=epoch,
            **self.addressee(),
        )

    def end(self) -> m.Request:
        epoch = self.near_epoch()
        preferred = tuple(ReplicaId(self.random.randrange(4)) for _ in range(self.random.randrange(4)))
        return m.EndQuorumEpochRequest(
            topic_partition=LOG,
            cluster_id=self.cluster(),
            leader_id=self.leader_of(epoch),
            leader_epoch=epoch,
            preferred_candidates=preferred,
        )

    def fetch(self) -> m.Request:
        last_epoch = self.bench.log.log.last_epoch or 0
        guess = Epoch(max(0, last_epoch + self.random.choice([0, 0, 0, 0, -1, 1])))
        replica_id = self.random.choice([None, *map(ReplicaId, (0, 1, 2, 7, 8, 9))])
        return fetch_of_log(
            cluster_id=self.cluster(),
            replica_id=replica_id,
            replica_directory_id=None if replica_id is None else disk_id(replica_id),
            current_leader_epoch=self.random.choice([None, *[self.near_epoch()] * 4]),
            fetch_offset=self.offset(),
            last_fetched_epoch=self.random.choice([None, *[guess] * 4]),
            high_watermark=self.random.choice([None, Offset(self.bench.high_watermark or 0), self.offset()]),
            max_wait_ms=self.random.choice([0, 0, 100, 500, -1, 1 << 40]),
            min_bytes=self.random.choice([1, 1, 0, -5, 200, 1 << 40]),
            max_bytes=self.random.choice([1 << 20, 1, 0, 1 << 40]),
        )

    def produce(self) -> m.Request:
        data = encode_batch([b"x" * self.random.randrange(20) for _ in range(self.random.randint(1, 3))]).data
        return m.ProduceRequest(
            topic_partition=LOG,
            cluster_id=self.cluster(),
            acks=self.random.choice([-1, -1, -1, 1, 0, 7]),
            timeout_ms=self.random.choice([1000, 0, -1, 100, 1 << 40]),
            records=self.random.choice([data] * 4 + [data[:-1], data * 2, b""]),
            current_leader_epoch=self.random.choice([None, None, self.near_epoch()]),
        )

    def inspect(self) -> m.Request:
        replica_id = self.random.choice([None, ReplicaId(1)])
        questions: list[m.Request] = [
            m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=self.near_epoch()),
            m.ListOffsetsRequest(topic_partition=LOG, latest=self.random.random() < 0.7, replica_id=replica_id),
            m.DescribeQuorumRequest(topic_partition=LOG),
            m.DescribeReplicaRequest(topic_partition=LOG),
            m.DumpLogRequest(topic_partition=LOG, offset=self.offset(), max_bytes=self.random.choice([0, 1000])),
        ]
        return self.random.choice(questions)


def walk(seed: int, *, replica_id: int = 0, steps: int = 600) -> Walk:
    """Walk, then let every wait run out."""
    walked = Walk(seed, replica_id=replica_id)
    walked.run(steps)
    walked.bench.elapse(CONFIG.produce_timeout_max_ms)
    walked.check()
    return walked


@pytest.mark.parametrize("seed", seeds(30))
def test_a_walk_of_a_voter_breaks_nothing(seed: int) -> None:
    """No event is an error, no deadline has passed after a step, and every call is answered exactly once."""
    bench = walk(seed).bench
    assert bench.halted is not None or bench.open_calls == set()


@pytest.mark.parametrize("seed", seeds(10))
def test_a_walk_of_an_observer_breaks_nothing(seed: int) -> None:
    """The same holds of a replica without a vote, and it never leads or campaigns."""
    walked = walk(seed, replica_id=9)
    assert walked.bench.halted is not None or walked.bench.open_calls == set()
    assert set(walked.seen) - SNAPSHOTS_SEEN <= {"unattached", "follower", "halt", "restart"}


@pytest.mark.slow
def test_walks_go_everywhere() -> None:
    """The walks are worth walking: together they see every role often, restarts, and snapshots."""
    seen: Counter[str] = Counter()
    for seed in range(32):
        seen += walk(seed).seen
    roles = ("unattached", "prospective", "candidate", "leader", "follower", "resigned")
    assert all(seen[role] > 50 for role in roles), seen
    assert seen["restart"] > 10, seen
    assert min(seen["installed"], seen["rejected"]) > 2, seen
