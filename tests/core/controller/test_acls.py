"""The access control list: entries are added and removed by decisions, and survive logs and snapshots."""

from __future__ import annotations

import pytest

from replica.bounds import ACLS_MAX
from replica.core import messages as m
from replica.core.metadata.acls import Acl
from replica.core.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from replica.errors import ErrorCode
from tests.core.controller.bench import Bench
from tests.core.metadata.test_acls import entry

ONE, TWO = entry("allow User:a read topic orders"), entry("deny User:a write topic orders*")


def add(bench: Bench, *acls: Acl) -> m.ChangeAclsResponse:
    return bench.ask(m.CreateAclsRequest(acls=acls), m.ChangeAclsResponse)


def remove(bench: Bench, *acls: Acl) -> m.ChangeAclsResponse:
    return bench.ask(m.DeleteAclsRequest(acls=acls), m.ChangeAclsResponse)


def listed(bench: Bench) -> tuple[Acl, ...]:
    return bench.ask(m.DescribeAclsRequest(), m.DescribeAclsResponse).acls


def test_entries_come_and_go() -> None:
    """Each is a record; another controller, with the log or with a snapshot, has the same list."""
    bench = Bench()
    assert add(bench, TWO, ONE, TWO).error is ErrorCode.NONE
    assert list(bench.records) == [AccessControlEntryRecord(acl=ONE), AccessControlEntryRecord(acl=TWO)]
    assert listed(bench) == (ONE, TWO)
    bench.restart()
    assert listed(bench) == (ONE, TWO)
    bench.restart_from_snapshot()
    assert listed(bench) == (ONE, TWO)
    assert remove(bench, ONE).error is ErrorCode.NONE
    assert list(bench.records) == [RemoveAccessControlEntryRecord(acl=ONE)]
    assert listed(bench) == (TWO,)


def test_what_is_so_already_is_not_decided_again() -> None:
    """A change whose answer was lost may be asked for again."""
    bench = Bench()
    add(bench, ONE)
    assert add(bench, ONE).error is ErrorCode.NONE
    assert bench.records == ()
    assert remove(bench, TWO).error is ErrorCode.NONE
    assert bench.records == ()


@pytest.mark.parametrize(
    ("bad", "message"),
    [(entry("allow a read topic orders"), "a principal is"), (entry("allow User:a read cluster x"), "there is one")],
)
def test_of_entries_that_are_refused_none_is_added(bad: Acl, message: str) -> None:
    """One that could never decide anything spoils the request."""
    bench = Bench()
    answer = add(bench, ONE, bad)
    assert (answer.error, message in answer.message) == (ErrorCode.INVALID_REQUEST, True)
    assert listed(bench) == ()


def test_there_are_only_so_many_entries() -> None:
    """As many as one answer tells; whoever removes some may add others."""
    bench = Bench()
    many = [entry(f"allow User:{number} read topic orders") for number in range(ACLS_MAX)]
    for begin in range(0, ACLS_MAX, 1000):
        assert add(bench, *many[begin : begin + 1000]).error is ErrorCode.NONE
    assert add(bench, many[0]).error is ErrorCode.NONE
    answer = add(bench, ONE)
    assert (answer.error, "2000" in answer.message) == (ErrorCode.INVALID_REQUEST, True)
    remove(bench, many[0])
    assert add(bench, ONE).error is ErrorCode.NONE
    assert len(listed(bench)) == ACLS_MAX
