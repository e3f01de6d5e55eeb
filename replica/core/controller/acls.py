"""The access control list: entries added and removed, each a record of its own.

To add what is there, or to remove what is not, changes nothing, so that both may be asked for again.

Source: Kafka ``AclControlManager``.
"""

from __future__ import annotations

from replica.bounds import ACLS_MAX
from replica.core.controller.state import ControllerState
from replica.core.messages import (
    ChangeAclsResponse,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from replica.core.metadata.acls import acl_fault
from replica.core.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from replica.errors import ErrorCode


def on_create_acls(c: ControllerState, request: CreateAclsRequest, _now_ms: int) -> ChangeAclsResponse:
    """Add entries, all or none."""
    for acl in request.acls:
        if (fault := acl_fault(acl)) is not None:
            return ChangeAclsResponse(error=ErrorCode.INVALID_REQUEST, message=fault)
    added = sorted(set(request.acls) - c.image.acls)
    if len(c.image.acls) + len(added) > ACLS_MAX:
        there = len(c.image.acls)
        message = f"there are {there} entries, and may be {ACLS_MAX}; {len(added)} more are too many"
        return ChangeAclsResponse(error=ErrorCode.INVALID_REQUEST, message=message)
    c.append(*(AccessControlEntryRecord(acl=acl) for acl in added))
    return ChangeAclsResponse(error=ErrorCode.NONE)


def on_delete_acls(c: ControllerState, request: DeleteAclsRequest, _now_ms: int) -> ChangeAclsResponse:
    """Remove those of the entries that there are."""
    removed = sorted(c.image.acls.intersection(request.acls))
    c.append(*(RemoveAccessControlEntryRecord(acl=acl) for acl in removed))
    return ChangeAclsResponse(error=ErrorCode.NONE)


def on_describe_acls(c: ControllerState, _request: DescribeAclsRequest, _now_ms: int) -> DescribeAclsResponse:
    """Tell the whole list."""
    return DescribeAclsResponse(error=ErrorCode.NONE, acls=tuple(sorted(c.image.acls)))
