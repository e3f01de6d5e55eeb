"""The tables that say who takes what: nothing that can come in is missing, and nothing else is in them."""

from __future__ import annotations

from typing import get_args

from replica.core import messages as m
from replica.core.controller.controller import CONTROLLER_REQUESTS
from replica.core.events import Event, RequestReceived
from replica.core.group.group import GROUP_REQUESTS
from replica.core.partition.partition import PARTITION_REQUESTS
from replica.core.quorum.quorum_log import QUORUM_REQUESTS
from replica.core.replica import ON_EVENT, ON_REQUEST


def test_everything_that_comes_in_is_taken_by_somebody() -> None:
    """A replica knows who takes each request that there is, and each other event."""
    assert set(ON_REQUEST) == set(get_args(m.Request))
    assert {*ON_EVENT, RequestReceived} == set(get_args(Event))


def test_each_part_takes_its_own_requests() -> None:
    """A group and the controller answer all requests that are theirs, a quorum log all that are about a log."""
    assert set(GROUP_REQUESTS) == set(get_args(m.GroupRequest))
    assert set(CONTROLLER_REQUESTS) == set(get_args(m.ControllerRequest))
    assert set(QUORUM_REQUESTS) == {m.FetchRequest, *get_args(m.LogRequest)}
    assert set(PARTITION_REQUESTS) < set(get_args(m.LogRequest))
