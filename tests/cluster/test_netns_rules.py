"""What the kernel is told of links, with a kernel that only listens."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nemesis.cluster.netns_links import TRIAL_OF, KernelLinks
from nemesis.cluster.netns_probe import TRIALS
from nemesis.cluster.netns_tools import Shaped, drop_rule, loss_rule, shape_script
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.impairments import Bandwidth, Delay, Duplicate, Impairments, NetworkFault, ReplyLost, SlowClose
from nemesis.faults.links import CLIENTS, LinkMode
from nemesis.faults.needs import IMPAIRED_LINKS, Need
from nemesis.faults.targets import Role

SERVICES = {1: "10.0.0.1", 2: "10.0.0.2", CLIENTS: "10.0.0.9"}
THERE = frozenset({(1, 2)})
PATIENCE_S = 5.0


class Listening:
    """A kernel that does nothing."""

    def __init__(self) -> None:
        self.rules: dict[int, tuple[str, ...]] = {}
        self.shaped: dict[int, tuple[Shaped, ...]] = {}
        self.told = 0

    def filter(self, end: int, rules: tuple[str, ...]) -> None:
        self.told += 1
        self.rules[end] = rules

    def shape(self, end: int, shaped: tuple[Shaped, ...]) -> None:
        self.told += 1
        self.shaped[end] = shaped

    def reset(self, source: int, destination: str) -> int:
        self.told += 1
        return 0


@pytest.fixture
def kernel() -> Listening:
    return Listening()


@pytest.fixture
def links(kernel: Listening) -> KernelLinks:
    return KernelLinks((1, 2), SERVICES, kernel)


async def test_what_comes_in_is_filtered_where_it_arrives(kernel: Listening, links: KernelLinks) -> None:
    """One rule for each source, in the network of the destination alone, and none when all is healed."""
    await links.cut("a", frozenset({(1, 2), (CLIENTS, 2)}), LinkMode.BLACKHOLE)

    assert kernel.rules == {2: ("ip saddr 10.0.0.1 ip daddr 10.0.0.2 drop", "ip saddr 10.0.0.9 ip daddr 10.0.0.2 drop")}
    await links.heal_all()
    assert kernel.rules == {2: ()}


async def test_faults_of_one_link_add_up(kernel: Listening, links: KernelLinks) -> None:
    """The narrowest of all decides, delays come one after the other; healed one by one."""
    faults: list[NetworkFault] = [
        Bandwidth(rate_bytes_per_s=9, target=Role.ALL),
        Delay(latency_ms=5, target=Role.ALL),
    ]
    for key, fault in enumerate(faults):
        await links.impair(str(key), THERE, fault, 0)
        await links.impair(f"{key} again", THERE, fault, 0)

    assert kernel.shaped == {1: (Shaped(destination="10.0.0.2", rate_bytes_per_s=9, latency_ms=10),)}
    await links.heal("0")
    await links.heal("0 again")
    assert kernel.shaped == {1: (Shaped(destination="10.0.0.2", latency_ms=10),)}
    await links.heal_all()
    assert kernel.shaped == {1: ()}


async def test_the_kernel_is_told_of_changes_only(kernel: Listening, links: KernelLinks) -> None:
    """What is cut already needs no new rule."""
    await links.cut("a", THERE, LinkMode.BLACKHOLE)
    await links.cut("b", THERE, LinkMode.BLACKHOLE)
    await links.heal("a")

    assert kernel.told == 1


async def test_what_the_kernel_cannot_do_is_refused(kernel: Listening, links: KernelLinks) -> None:
    """A fault that no trial can find possible is refused when it is asked for all the same, and so is no link."""
    for fault in (SlowClose(delay_ms=1, target=Role.ONE), ReplyLost(target=Role.ONE), Duplicate(target=Role.ONE)):
        with pytest.raises(UnsupportedError, match="proxies"):
            await links.impair("a", THERE, fault, 0)
    with pytest.raises(ValueError, match="there are no links"):
        await links.cut("a", frozenset({(1, 3)}), LinkMode.RESET)
    assert kernel.told == 0


class Slow(Listening):
    """A kernel that takes what it is told when the event loop has gone on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.went_on = threading.Event()

    def filter(self, end: int, rules: tuple[str, ...]) -> None:
        assert self.went_on.wait(PATIENCE_S), "the loop stood still"
        super().filter(end, rules)


async def test_the_loop_goes_on_while_the_kernel_is_told() -> None:
    """Clients must not wait for a fault; one change waits for the other; who is cancelled leaves nothing half told."""
    kernel = Slow()
    links = KernelLinks((1, 2), SERVICES, kernel)
    cut = asyncio.create_task(links.cut("a", THERE, LinkMode.BLACKHOLE))
    healed = asyncio.create_task(links.heal("a"))
    await asyncio.sleep(0.01)
    assert kernel.told == 0
    cut.cancel()
    await asyncio.sleep(0.01)
    assert not cut.done()

    kernel.went_on.set()
    await asyncio.wait([cut, healed])
    assert cut.cancelled()
    assert (kernel.rules, kernel.told) == ({2: ()}, 2)


class Failing(Listening):
    """A kernel that refuses what is told of these ends."""

    def __init__(self, *ends: int) -> None:
        super().__init__()
        self.refuses = set(ends)

    def filter(self, end: int, rules: tuple[str, ...]) -> None:
        if end in self.refuses:
            raise NodeFailedError(f"end {end} refuses")
        super().filter(end, rules)


async def test_a_heal_that_fails_is_tried_again() -> None:
    """What cannot be healed at one end is healed at the others, told, and healed when all is, as soon as it can be."""
    kernel = Failing()
    links = KernelLinks((1, 2), SERVICES, kernel)
    await links.cut("a", THERE | {(2, 1)}, LinkMode.BLACKHOLE)
    kernel.refuses = {1}
    with pytest.raises(NodeFailedError, match="end 1 refuses"):
        await links.heal("a")
    assert [len(kernel.rules[end]) for end in (1, 2)] == [1, 0]

    kernel.refuses = set()
    await links.heal_all()
    assert kernel.rules == {1: (), 2: ()}


def test_every_impairment_has_a_trial_or_none() -> None:
    """What says that a fault can be done is one of the trials, or no kernel can do it."""
    needed = {fault.need for fault in Impairments.faults}

    assert needed == IMPAIRED_LINKS
    assert needed - {Need.CONVERSATIONS} == set(TRIAL_OF)
    assert set(TRIAL_OF.values()) <= set(TRIALS)


def test_each_address_has_a_class_of_its_own() -> None:
    """What is limited is limited, what is late is late, and what goes elsewhere is left alone."""
    script = shape_script(
        "service",
        [
            Shaped(destination="10.0.0.1", rate_bytes_per_s=1000),
            Shaped(destination="10.0.0.2", latency_ms=20, jitter_ms=5),
        ],
    )

    assert script.splitlines() == [
        "qdisc add dev service root handle 1: htb default 0",
        "class add dev service parent 1: classid 1:2 htb rate 8000bit burst 2k quantum 1600",
        "filter add dev service parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1/32 flowid 1:2",
        "class add dev service parent 1: classid 1:3 htb rate 100000000000bit burst 2k quantum 1600",
        "qdisc add dev service parent 1:3 handle 3: netem delay 20ms 5ms limit 100000",
        "filter add dev service parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.2/32 flowid 1:3",
    ]


def test_who_loses_everything_needs_no_dice() -> None:
    """The filter's dice are compared with numbers below a hundred only."""
    ends = ("10.0.0.1", "10.0.0.2")
    assert "mod 100 < 99 drop" in loss_rule(*ends, percent=99)
    assert loss_rule(*ends, percent=100) == drop_rule(*ends)
