"""Evidence that a broker's process has ended: it is fenced at once, and the next process of it is not."""

from __future__ import annotations

from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.controller.bench import SESSION_MS, Bench, three_replicas


def started() -> Bench:
    """A bench with three brokers that are all in, and a partition that the first leads."""
    bench = Bench()
    bench.start(1, 2, 3)
    bench.create((1, 2, 3))
    bench.now_ms += 10
    return bench


def refuse(bench: Bench, broker_id: int, *, ago_ms: int = 0) -> None:
    """Let the controller know that nobody listens where this broker did, as was seen so long ago."""
    bench.controller.on_peer_refused(ReplicaId(broker_id), bench.now_ms - ago_ms, bench.now_ms)
    bench.tick()


def test_a_broker_whose_process_has_ended_is_fenced_at_once() -> None:
    """Its session is over with the process: it leaves the ISR, and another leads."""
    bench = started()
    refuse(bench, 1)
    assert bench.broker(1).fenced
    leader_id, isr, _ = bench.shape()
    assert leader_id in (2, 3)
    assert set(isr) == {2, 3}


def test_evidence_that_is_older_than_a_heartbeat_fences_nobody() -> None:
    """Who is heard from after its end was seen has not ended."""
    bench = started()
    bench.heartbeat(1)
    refuse(bench, 1, ago_ms=1)
    assert not bench.broker(1).fenced


def test_evidence_of_an_earlier_process_does_not_fence_the_next() -> None:
    """The broker was started again, and has registered, before the news of its end came."""
    bench = three_replicas()
    bench.now_ms += 10
    refused_at_ms = bench.now_ms
    bench.controller.on_peer_refused(ReplicaId(1), refused_at_ms, bench.now_ms)
    bench.tick()
    bench.now_ms += 100
    assert bench.register(1, "second").error is ErrorCode.NONE
    bench.heartbeat(1)
    bench.controller.on_peer_refused(ReplicaId(1), refused_at_ms, bench.now_ms)
    bench.tick()
    assert not bench.broker(1).fenced


def test_a_broker_is_started_again_at_once() -> None:
    """Nobody needs to wait for the session of a process that has ended."""
    bench = started()
    assert bench.register(1, "second").error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    refuse(bench, 1)
    assert bench.register(1, "second").error is ErrorCode.NONE


def test_wrong_evidence_is_made_good_by_the_next_heartbeat() -> None:
    """It has cost a leadership; the broker is let in again, and caught up followers join again."""
    bench = started()
    refuse(bench, 1)
    assert not bench.heartbeat(1).is_fenced
    assert not bench.broker(1).fenced


def test_evidence_of_nobody_that_is_known_changes_nothing() -> None:
    """There may be others to watch than brokers; and who is fenced already is not fenced again."""
    bench = started()
    refuse(bench, 9)
    bench.pass_ms(SESSION_MS)
    bench.records = ()
    refuse(bench, 1)
    assert bench.records == ()


def test_the_controller_watches_the_brokers_that_count_as_alive() -> None:
    """Fenced ones it need not, until they are heard from again; an inactive controller watches nobody."""
    bench = started()
    assert set(bench.controller.session_deadlines_ms) == {1, 2, 3}
    refuse(bench, 1)
    assert set(bench.controller.session_deadlines_ms) == {2, 3}
    bench.controller.deactivate()
    assert not bench.controller.session_deadlines_ms
