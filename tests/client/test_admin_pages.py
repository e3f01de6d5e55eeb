"""An administrator's client follows the pages of an answer by itself."""

from __future__ import annotations

from replica.client.admin import Admin
from replica.client.connections import Endpoint
from replica.core.messages import (
    DescribeClusterRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    Request,
)
from replica.core.metadata.pages import Cursor
from replica.errors import ErrorCode
from replica.ids import TopicId, TopicPartition
from tests.client.views import BOOTSTRAP, ONE, TWO, described, leads
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock


async def test_reassignments_in_pages_are_put_together() -> None:
    """What is under way is listed to its end, in the order in which the controller tells it."""

    def answer(_: Endpoint, request: Request) -> Answer:
        if isinstance(request, DescribeClusterRequest):
            return described(controller=leads(2, 4))
        assert isinstance(request, ListPartitionReassignmentsRequest), request
        number = 0 if request.cursor is None else request.cursor.partition
        moving = OngoingPartitionReassignment(topic_partition=TopicPartition("orders", number), replicas=(ONE, TWO))
        return ListPartitionReassignmentsResponse(
            error=ErrorCode.NONE,
            partitions=(moving,),
            next_cursor=Cursor(topic_id=TopicId(7), partition=number + 1) if number < 2 else None,
        )

    admin = Admin(BOOTSTRAP, connections=ScriptedConnections(answer), clock=VirtualClock())
    ongoing = await admin.list_partition_reassignments()
    assert [moving.topic_partition.partition for moving in ongoing] == [0, 1, 2]
