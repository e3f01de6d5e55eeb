"""A log that went astray ends with a batch where a snapshot does: the power fails while that is put in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from nemesis.simulator.chains import Chain
from nemesis.simulator.invariants import LogInvariants
from nemesis.simulator.node import Node
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import first_voters
from replica.core.effects import QuorumState
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition

LOG = TopicPartition("kv", 0)
ONE = ReplicaId(1)
STATE = QuorumState(leader_epoch=Epoch(3))


def chain_of(*links: int) -> Chain:
    """One batch a record, all of one epoch."""
    ends = [Offset(at + 1) for at in range(len(links))]
    return Chain(ends=ends, epochs=[Epoch(1)] * len(links), links=list(links))


def judged(start: int, end: int, *, own: Chain, committed: Chain) -> Chain:
    """What a judge takes the log for that begins and ends there at a start, where it was ``own`` before."""
    log = SimpleNamespace(quorum_state=STATE, log=SimpleNamespace(epochs=SimpleNamespace(entries=())))
    node = SimpleNamespace(
        replica_id=ONE,
        core=SimpleNamespace(logs={LOG: log}),
        stores={LOG: SimpleNamespace(log_start_offset=Offset(start), log_end_offset=Offset(end))},
        flushed_end={},
        disk=SimpleNamespace(is_damaged=False),
    )
    invariants = LogInvariants(LOG, {ONE: cast(Node, node)}, initial_voters=first_voters([ONE]))
    invariants.chains[ONE], invariants.committed = own, committed
    invariants.on_boot(cast(Node, node))
    return invariants.chains[ONE]


def test_the_snapshot_takes_the_place_of_the_whole_log() -> None:
    """The next process finishes the installation: what is committed stands where other records ended too."""
    found = judged(3, 3, own=chain_of(1, 12, 13), committed=chain_of(1, 2, 3))

    assert (found.start, found.end, found.base) == (3, 3, 3)


@pytest.mark.parametrize(
    ("start", "end", "own", "name"),
    [
        (3, 4, chain_of(1, 12, 13, 14), "phantom-log"),
        (3, 3, chain_of(1, 12, 13), "log-start-is-committed"),
    ],
    ids=["with records behind it", "where nothing committed ends"],
)
def test_what_went_astray_is_no_beginning(start: int, end: int, own: Chain, name: str) -> None:
    """It convicts that any of it is kept, and that a log begins anew where nothing is committed."""
    with pytest.raises(BrokenInvariantError, match=name):
        judged(start, end, own=own, committed=chain_of(1, 2, 3) if end == 4 else chain_of(1, 2))
