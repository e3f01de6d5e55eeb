"""What every replica says of its high watermark, asked again and again while a run goes on.

Owns the pace of asking and the rows. A row's time is that of the answer's arrival: what it tells was true before.
"""

from __future__ import annotations

import asyncio

from nemesis.cluster.system import ReplicaState, System
from nemesis.history import HIGH_WATERMARK
from nemesis.history.recorder import Recorder

SAMPLE_S_MIN = 0.5
ANSWERS_PER_S = 40
"""So many answers a second, at most, are worth their share of the processor."""


async def sample_high_watermarks(system: System, recorder: Recorder, stop: asyncio.Event) -> None:
    """Ask every replica of every log, again and again; who waits no longer sets ``stop`` and cancels this."""
    while not stop.is_set():
        states = await system.replica_states()
        record_states(states, recorder)
        await asyncio.sleep(max(SAMPLE_S_MIN, len(states) / ANSWERS_PER_S))


def record_states(states: tuple[ReplicaState, ...], recorder: Recorder) -> None:
    """One row for each replica that knows a high watermark."""
    for state in states:
        if state.high_watermark is not None:
            recorder.replica(
                state.node,
                HIGH_WATERMARK,
                topic_partition=state.topic_partition,
                epoch=state.epoch,
                offset=state.high_watermark,
                detail=state.role,
            )
