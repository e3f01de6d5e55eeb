"""One replica that leads a group of a real machine, in this process, behind a real port."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.machines import (
    AppliedLog,
    CommittedBatch,
    PlainCommand,
    SessionCommand,
    decode_entry,
    encode_entry,
    encode_outcome,
)
from replica.machines.key_value import KeyValueMachine, encode_command
from replica.machines.key_value.commands import Command
from replica.rpc.codec import (
    ADD_VOTER,
    APPLY,
    DESCRIBE_QUORUM,
    DESCRIBE_REPLICA,
    QUERY,
    REMOVE_VOTER,
    TRANSFER_LEADERSHIP,
    Method,
)

LEADER = m.CurrentLeader(leader_id=ReplicaId(1), leader_epoch=Epoch(4))
DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
QUORUM = m.DescribeQuorumResponse(
    error=ErrorCode.NONE,
    current_leader=LEADER,
    high_watermark=Offset(90),
    current_voters=(
        m.QuorumReplicaState(
            replica_id=ReplicaId(1), log_end_offset=Offset(100), directory_id=DIRECTORY_ID, address="one:1"
        ),
        m.QuorumReplicaState(
            replica_id=ReplicaId(2), log_end_offset=Offset(90), last_fetch_ms_ago=5, last_caught_up_ms_ago=7
        ),
        m.QuorumReplicaState(replica_id=ReplicaId(3), log_end_offset=None),
    ),
    observers=(m.QuorumReplicaState(replica_id=ReplicaId(9), log_end_offset=Offset(80), last_fetch_ms_ago=1),),
)


class GroupServer:
    """The group ``kv``. ``apply_answer`` is given to every ApplyRequest once it is set.

    ``after_query`` is applied behind each question. With ``lose_commands``, commands are applied, and answered with an
    error that tells nothing. Changes of the voters are made, or answered with ``voters_answer``.
    """

    def __init__(self) -> None:
        self.apply_answer: m.ApplyResponse | None = None
        self.lose_commands = False
        self.voters_answer = m.ChangeVotersResponse(error=ErrorCode.NONE)
        self.after_query: Command | None = None
        self.asked: list[m.Request] = []
        self._log = AppliedLog(KeyValueMachine(), name="kv")
        self._threads = ThreadPoolExecutor(4)
        self._server = grpc.server(self._threads)
        self._serve(APPLY, self._apply)
        self._serve(QUERY, self._query)
        self._serve(DESCRIBE_REPLICA, self._describe)
        self._serve(DESCRIBE_QUORUM, lambda _: QUORUM)
        self._serve(TRANSFER_LEADERSHIP, self._transfer)
        self._serve(ADD_VOTER, lambda _: self.voters_answer)
        self._serve(REMOVE_VOTER, lambda _: self.voters_answer)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.stop(None).wait()
        self._threads.shutdown()

    def _serve(self, method: Method[Any, Any], answer: Callable[[Any], m.Response]) -> None:
        def handle(encoded: bytes, _: object) -> bytes:
            request = method.request.decode(encoded)
            self.asked.append(request)
            return method.response.encode(answer(request))

        handlers: dict[str, Any] = {method.rpc: grpc.unary_unary_rpc_method_handler(handle)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(method.service, handlers),))

    def _describe(self, request: m.DescribeReplicaRequest) -> m.DescribeReplicaResponse:
        addresses = {ReplicaId(1): self.address}
        if request.topic_partition not in (TopicPartition("kv", 0), METADATA_LOG):
            return m.DescribeReplicaResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, addresses=addresses)
        return m.DescribeReplicaResponse(
            error=ErrorCode.NONE,
            replica_id=ReplicaId(1),
            directory_id=DIRECTORY_ID,
            leader=LEADER,
            addresses=addresses,
        )

    def _transfer(self, request: m.TransferLeadershipRequest) -> m.TransferLeadershipResponse:
        is_leader = request.target_id == LEADER.leader_id
        error = ErrorCode.ELECTION_NOT_NEEDED if is_leader else ErrorCode.INVALID_REQUEST
        return m.TransferLeadershipResponse(error=error, current_leader=LEADER)

    def _apply(self, request: m.ApplyRequest) -> m.ApplyResponse:
        if self.apply_answer is not None:
            return self.apply_answer
        base, outcomes = self._log.applied_offset, self._commit(request.entries)
        if self.lose_commands and any(isinstance(decode_entry(entry), SessionCommand) for entry in request.entries):
            return m.ApplyResponse(error=ErrorCode.REQUEST_TIMED_OUT)
        return m.ApplyResponse(error=ErrorCode.NONE, base_offset=base, outcomes=outcomes)

    def _query(self, request: m.QueryRequest) -> m.QueryResponse:
        outcomes = tuple(encode_outcome(self._log.query(each)) for each in request.requests)
        offset = self._log.applied_offset
        if self.after_query is not None:
            self._commit((encode_entry(PlainCommand(command=encode_command(self.after_query))),))
        return m.QueryResponse(error=ErrorCode.NONE, outcomes=outcomes, applied_offset=offset)

    def _commit(self, entries: tuple[bytes, ...]) -> tuple[bytes, ...]:
        base, outcomes = self._log.applied_offset, list[bytes]()
        batch = CommittedBatch(
            base_offset=base,
            end_offset=Offset(base + len(entries)),
            epoch=LEADER.leader_epoch,
            timestamp_ms=0,
            entries=entries,
        )
        self._log.apply(batch, lambda entry: outcomes.append(encode_outcome(entry.outcome)))
        return tuple(outcomes)
