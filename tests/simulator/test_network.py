"""The simulated network: what is lost, held up, repeated and reordered, and that each link has its own luck."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.network import Network
from nemesis.simulator.queue import EventQueue

WIDE = replace(CALM, latency_ms=(1.0, 50.0))


class Post:
    """A network, and what came out of it in which order."""

    def __init__(self, climate: Climate) -> None:
        self.queue = EventQueue()
        self.network = Network(self.queue, climate, "seed")
        self.arrived: list[int] = []

    def send(self, count: int, *, source: int = 1, target: int = 2) -> None:
        for number in range(count):
            self.network.deliver(source, target, partial(self.arrived.append, number))

    def wait(self) -> list[int]:
        self.queue.run_until(self.queue.now_us + 10_000_000)
        return self.arrived


def test_messages_overtake_each_other() -> None:
    """Each message has its own delay, so that they arrive in another order than they were sent in."""
    post = Post(WIDE)
    post.send(50)
    arrived = post.wait()
    assert arrived != sorted(arrived)
    assert sorted(arrived) == list(range(50))


def test_an_ordered_link_keeps_its_order() -> None:
    """In an ordered climate nothing overtakes on one link."""
    post = Post(replace(WIDE, ordered=True))
    post.send(50)
    assert post.wait() == list(range(50))


def test_loss_and_duplication_are_about_as_frequent_as_the_climate_says() -> None:
    """Some messages never arrive, some twice, most once."""
    post = Post(replace(CALM, loss=0.2, duplication=0.2))
    post.send(1000)
    arrived = post.wait()
    assert 720 < len(set(arrived)) < 880
    assert 80 < len(arrived) - len(set(arrived)) < 240


def test_a_clients_messages_are_never_repeated() -> None:
    """A connection repeats nothing: an append that arrived twice would be the harness's doing."""
    post = Post(replace(CALM, duplication=1.0))
    post.send(20, source=-1)
    assert sorted(post.wait()) == list(range(20))


def test_a_cut_link_loses_what_is_on_its_way_and_only_in_its_direction() -> None:
    """A cut is one-way, takes what has not arrived yet, and ends with its healing."""
    post = Post(CALM)
    post.send(5)
    post.network.cut(7, frozenset({(1, 2)}))
    assert post.wait() == []
    post.send(1, source=2, target=1)
    assert post.wait() == [0]
    post.network.heal(7)
    post.send(2)
    assert sorted(post.wait()) == [0, 0, 1]


def test_a_clogged_link_delivers_everything_when_it_is_healed() -> None:
    """Nothing gets through a clog, and nothing is lost in it."""
    post = Post(CALM)
    post.network.clog(1, frozenset({(1, 2)}))
    post.send(5)
    assert post.wait() == []
    post.network.heal(1)
    assert sorted(post.wait()) == list(range(5))


def test_a_link_that_two_faults_cut_is_cut_until_both_are_healed() -> None:
    """Faults overlap: healing one does not undo the other."""
    post = Post(CALM)
    post.network.cut(1, frozenset({(1, 2)}))
    post.network.cut(2, frozenset({(1, 2), (2, 1)}))
    post.network.heal(1)
    post.send(1)
    assert post.wait() == []
    post.network.heal_all()
    post.send(1)
    assert post.wait() == [0]


def test_the_luck_of_one_link_does_not_depend_on_another() -> None:
    """What else is sent elsewhere changes nothing here, so that a shrunk schedule keeps most of its luck."""
    alone, beside = Post(replace(WIDE, loss=0.3)), Post(replace(WIDE, loss=0.3))
    beside.send(40, source=2, target=1)
    beside.wait()
    beside.arrived.clear()
    for post in (alone, beside):
        post.send(40)
    assert alone.wait() == beside.wait()
