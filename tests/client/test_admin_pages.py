"""An administrator's client follows the pages of an answer by itself."""

from __future__ import annotations

import pytest

from replica.bounds import PAGE_PARTITIONS_MAX
from replica.client.admin import Admin
from replica.client.connections import Endpoint
from replica.client.failures import AdminError
from replica.core import messages as m
from replica.core.metadata.pages import Cursor
from replica.errors import ErrorCode
from replica.ids import TopicId, TopicPartition
from tests.client.views import BOOTSTRAP, ONE, TWO, described, leads
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock


async def test_many_moves_are_asked_for_in_several_requests() -> None:
    """None names more partitions than a controller takes; where one is refused, the others are begun all the same."""
    count = PAGE_PARTITIONS_MAX + 1
    asked: list[int] = []

    def answer(_: Endpoint, request: m.Request) -> Answer:
        if isinstance(request, m.DescribeClusterRequest):
            return described(controller=leads(2, 4))
        assert isinstance(request, m.AlterPartitionReassignmentsRequest), request
        asked.extend(wish.topic_partition.partition for wish in request.partitions)
        assert len(request.partitions) <= PAGE_PARTITIONS_MAX
        errors = [ErrorCode.INVALID_REPLICA_ASSIGNMENT, *[ErrorCode.NONE] * (len(request.partitions) - 1)]
        return m.AlterPartitionReassignmentsResponse(
            error=ErrorCode.NONE,
            partitions=tuple(
                m.ReassignedPartition(topic_partition=wish.topic_partition, error=error)
                for wish, error in zip(request.partitions, errors, strict=True)
            ),
        )

    admin = Admin(BOOTSTRAP, connections=ScriptedConnections(answer), clock=VirtualClock())
    with pytest.raises(AdminError) as refused:
        await admin.alter_partition_reassignments({TopicPartition("orders", number): [1] for number in range(count)})
    assert refused.value.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert asked == list(range(count))


async def test_reassignments_in_pages_are_put_together() -> None:
    """What is under way is listed to its end, in the order in which the controller tells it."""

    def answer(_: Endpoint, request: m.Request) -> Answer:
        if isinstance(request, m.DescribeClusterRequest):
            return described(controller=leads(2, 4))
        assert isinstance(request, m.ListPartitionReassignmentsRequest), request
        number = 0 if request.cursor is None else request.cursor.partition
        moving = m.OngoingPartitionReassignment(topic_partition=TopicPartition("orders", number), replicas=(ONE, TWO))
        return m.ListPartitionReassignmentsResponse(
            error=ErrorCode.NONE,
            partitions=(moving,),
            next_cursor=Cursor(topic_id=TopicId(7), partition=number + 1) if number < 2 else None,
        )

    admin = Admin(BOOTSTRAP, connections=ScriptedConnections(answer), clock=VirtualClock())
    ongoing = await admin.list_partition_reassignments()
    assert [moving.topic_partition.partition for moving in ongoing] == [0, 1, 2]
