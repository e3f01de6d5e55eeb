"""How the harness looks at single replicas: quickly while it goes on, patiently when their logs are read."""

from __future__ import annotations

import asyncio

import pytest

from nemesis.cluster.control import LOOK_TIMEOUT_MS, Control
from nemesis.cluster.system import Dump
from nemesis.errors import NodeFailedError
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.rpc.transport import TransportError


class Busy:
    """A replica with an empty log that cannot be reached at first, and answers after so many milliseconds then.

    So many times its log begins later than it has just said.
    """

    def __init__(self, *, answers_after_ms: int = 0, unreachable: int = 0, deletes: int = 0) -> None:
        self._deletes = deletes
        self._answers_after_ms = answers_after_ms
        self._unreachable = unreachable
        self.asked = 0

    async def call(self, replica_id: ReplicaId, request: m.Request, timeout_ms: int) -> m.Response:
        del replica_id
        self.asked += 1
        if self.asked <= self._unreachable:
            raise TransportError("no connection")
        if timeout_ms < self._answers_after_ms:
            raise TransportError("no answer in time")
        if isinstance(request, m.DescribeReplicaRequest):
            return DESCRIBED
        assert isinstance(request, m.DumpLogRequest)
        self._deletes -= 1
        return DUMPED if self._deletes < 0 else m.DumpLogResponse(error=ErrorCode.OFFSET_OUT_OF_RANGE)

    async def close(self) -> None:
        """Nothing is open."""


DESCRIBED = m.DescribeReplicaResponse(error=ErrorCode.NONE, directory_id="disk")
DUMPED = m.DumpLogResponse(error=ErrorCode.NONE, log_end_offset=Offset(0))


def dump(replica: Busy) -> Dump:
    """The replica's log, as it is read at the end of a run."""
    return asyncio.run(Control({}, replica).dump(1, "topic1-0", has_values=True))


def test_a_log_is_read_from_a_replica_that_is_slow() -> None:
    """An answer that comes too late for a look is waited for: without that log there would be no verdict."""
    slow = Busy(answers_after_ms=2 * LOOK_TIMEOUT_MS)
    assert dump(slow).complete
    assert asyncio.run(Control({}, slow).directory_id(1, "topic1-0")) is None


def test_a_log_is_read_from_a_replica_whose_connection_was_lost() -> None:
    """One attempt that fails at once does not decide."""
    assert dump(Busy(unreachable=2)).complete


def test_a_log_is_read_anew_when_its_beginning_was_deleted() -> None:
    """1. A replica says where its log begins. 2. Retention deletes just that. 3. The read begins in vain."""
    assert dump(Busy(deletes=2)).complete
    with pytest.raises(NodeFailedError, match="its beginning does not stay"):
        dump(Busy(deletes=1_000_000))


def test_a_replica_that_never_answers_has_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends."""
    monkeypatch.setattr("nemesis.cluster.control.DUMP_TIMEOUT_MS", 300)
    with pytest.raises(NodeFailedError, match="it does not answer"):
        dump(Busy(unreachable=1_000_000))


def test_a_damaged_log_is_told() -> None:
    """What a replica shows of its log and is no log ends the dump with the reason, not the run."""

    class Damaged(Busy):
        """A replica whose log is something else."""

        async def call(self, replica_id: ReplicaId, request: m.Request, timeout_ms: int) -> m.Response:
            if isinstance(request, m.DescribeReplicaRequest):
                return DESCRIBED
            return m.DumpLogResponse(error=ErrorCode.NONE, log_end_offset=Offset(1), records=bytes(70))

    with pytest.raises(NodeFailedError, match="topic1-0 of replica 1 is damaged: byte 0: "):
        dump(Damaged())
