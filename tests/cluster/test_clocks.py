"""The clocks of real replicas are set while they run: timers run out too early or not at all, and records grow old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.faults.fault import Fault
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import ClockFault, DriftClock, JumpClock, JumpWallClock, StopClock, StrobeWallClock
from nemesis.history import METADATA_LOG
from nemesis.runner import with_clocks_in_hand
from nemesis.schedules.schedule import Heal, Inject
from tests.cluster.stage import NAME, Stage, running

pytestmark = pytest.mark.cluster

ELECTION_S = 5.0
PLAIN = ReplicaOptions(topics=TopicOptions(partitions=1))
OPTIONS = with_clocks_in_hand(PLAIN)
MINUTE_MS, MONTH_MS = 60_000, 31 * 24 * 3_600_000
TOLD_AGAIN_S = 4 * Timing().broker_heartbeat_interval_ms / 1000
"""By then every broker has said what its clock shows, and has been told what all agree on."""
RETENTION = ("--log-retention-check-interval-ms", "100", "--log-segment-bytes", "1024")


class ClockStage(Stage):
    """A stage whose replicas have clocks that can be set."""

    def __init__(self, folder: Path, *server: str) -> None:
        super().__init__(folder, replace(OPTIONS, server=(*OPTIONS.server, *server)))

    async def led_in(self) -> int:
        """The newest epoch in which somebody who answers leads the metadata log; -1 if nobody does."""
        states = await self.cluster.replica_states()
        led = [state.epoch for state in states if state.topic_partition == METADATA_LOG and state.role == "leader"]
        return max(led, default=-1)

    async def wait_led(self, holds: Callable[[int], bool]) -> int:
        """Wait until that epoch is as wanted."""
        while not holds(epoch := await self.led_in()):
            await asyncio.sleep(0.05)
        return epoch

    async def elect_anew(self, action: Inject) -> int:
        """Do that until somebody leads in a newer epoch, which is returned.

        A leap goes unnoticed by a timer that a message resets before it is looked at.
        """
        before = await self.wait_led(lambda epoch: epoch >= 0)
        while True:
            await self.do(action)
            with suppress(TimeoutError):
                async with asyncio.timeout(ELECTION_S):
                    return await self.wait_led(lambda epoch: epoch > before)
            await self.do(Heal(fault_id=action.fault_id))

    async def stop_clocks(self, fault_id: int) -> int:
        """Stop all clocks while all follow one leader of the metadata log and nobody campaigns; who leads.

        A campaign that had begun before would need no clock to be won.
        """
        while True:
            await self.do(Inject(fault_id=fault_id, fault=StopClock(target=Role.ALL)))
            with suppress(TimeoutError):
                async with asyncio.timeout(ELECTION_S):
                    return await self.wait_agreed()
            await self.do(Heal(fault_id=fault_id))
            await asyncio.sleep(ELECTION_S)

    async def wait_agreed(self) -> int:
        """Wait until one leads the metadata log and all others follow; who leads."""
        while True:
            states = [state for state in await self.cluster.replica_states() if state.topic_partition == METADATA_LOG]
            heard = {(state.epoch, state.leader_id) for state in states}
            roles = sorted(state.role for state in states)
            if len(heard) == 1 and roles == ["follower", "follower", "leader"]:
                ((_, leader),) = heard
                assert leader is not None
                return leader
            await asyncio.sleep(0.05)

    async def log_starts(self) -> list[int]:
        """Where each replica's log of the topic begins."""
        dumps = [dump for node in self.cluster.nodes for dump in await self.cluster.dumps(node)]
        return [dump.log_start_offset for dump in dumps if dump.topic_partition == NAME]


async def test_timers_run_out_too_early_or_not_at_all(tmp_path: Path) -> None:
    """A leap makes replicas elect anew with nothing broken; while clocks stand still nobody succeeds a dead leader."""
    async with running(ClockStage(tmp_path)) as stage:
        await stage.elect_anew(Inject(fault_id=0, fault=JumpClock(target=Role.ALL, by_ms=MINUTE_MS)))
        await stage.do(Heal(fault_id=0))

        # A thousand times too fast: followers seem to be silent for longer than any fetch can take.
        before = await stage.elect_anew(Inject(fault_id=1, fault=DriftClock(target=Role.CONTROLLER, percent=100_000)))
        await stage.do(Heal(fault_id=1))

        # A second of silence is enough to campaign by clocks that go on, and six times as long is not enough here.
        await stage.cluster.kill(await stage.stop_clocks(2))
        end_s = asyncio.get_running_loop().time() + 6 * OPTIONS.timing.fetch_timeout_ms / 1000
        while asyncio.get_running_loop().time() < end_s:
            assert await stage.led_in() == -1, "who stands still in time misses nobody"
            await asyncio.sleep(0.05)
        await stage.do(Heal(fault_id=2))
        await stage.wait_led(lambda epoch: epoch > before)


async def test_records_are_as_old_as_the_wall_clock_says(tmp_path: Path) -> None:
    """When all are a month ahead retention deletes what was written just now; when they are true again nothing more.

    What time the cluster has is told with the heartbeats: until some have come it is still the wrong one.
    """
    async with running(ClockStage(tmp_path, *RETENTION)) as stage:
        values = iter(range(1, 1_000_000))

        async def write(so_long: Callable[[int, float], bool]) -> int:
            """Append while that holds of the last offset and the time; returns the last offset."""
            begin_s, offset = asyncio.get_running_loop().time(), 0
            while so_long(offset, asyncio.get_running_loop().time() - begin_s):
                offset = await stage.append(next(values))
            return offset

        end = await write(lambda offset, _: offset < 50)
        assert await stage.log_starts() == [0, 0, 0]
        await stage.do(Inject(fault_id=0, fault=JumpWallClock(target=Role.ALL, by_ms=MONTH_MS)))
        while not all(start > 0 for start in await stage.log_starts()):
            await asyncio.sleep(0.05)
        await stage.do(Heal(fault_id=0))

        # Some checks of retention come by while segments enough are filled for it.
        begin = await write(lambda offset, elapsed_s: offset <= end or elapsed_s < TOLD_AGAIN_S) + 1
        await write(lambda offset, elapsed_s: elapsed_s < 1.5 or offset < begin + 100)
        assert all(start <= begin for start in await stage.log_starts())


@pytest.mark.parametrize(
    "fault",
    [
        JumpClock(target=Role.ALL, by_ms=1),
        StopClock(target=Role.ALL),
        DriftClock(target=Role.ALL, percent=1),
        JumpWallClock(target=Role.ALL, by_ms=1),
        StrobeWallClock(target=Role.ALL, by_ms=1, period_ms=1),
    ],
    ids=lambda fault: fault.kind,
)
def test_clocks_that_are_not_in_hand_cannot_be_set(tmp_path: Path, fault: ClockFault) -> None:
    """A cluster of plain replicas says so before it starts, and one of such as can be told does it."""

    def why_not(options: ReplicaOptions, fault: Fault) -> str | None:
        return ReplicaCluster(LocalHost(tmp_path, options.nodes), options).lacks(fault.need)

    assert "clocks" in (why_not(PLAIN, fault) or "")
    assert why_not(OPTIONS, fault) is None
