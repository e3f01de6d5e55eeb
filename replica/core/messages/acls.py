"""What administrators ask about the access control list: they add and remove whole entries, and read all of it.

As with all changes, the active controller answers, once they are committed. Source: Kafka's
``CreateAclsRequest.json``, ``DeleteAclsRequest.json``, ``DescribeAclsRequest.json``.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from replica.bounds import ALL_ACLS, Message
from replica.core.messages.leadership import CurrentLeader
from replica.core.metadata.acls import Acl
from replica.errors import ErrorCode


class CreateAclsRequest(Struct, frozen=True, kw_only=True):
    """Add entries, all or none; those that there are already stay."""

    acls: tuple[Acl, ...]
    cluster_id: str | None = None


class DeleteAclsRequest(Struct, frozen=True, kw_only=True):
    """Remove exactly these entries; those that there are not are passed over."""

    acls: tuple[Acl, ...]
    cluster_id: str | None = None


class ChangeAclsResponse(Struct, frozen=True, kw_only=True):
    """INVALID_REQUEST: an entry can never decide anything, or there would be too many."""

    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class DescribeAclsRequest(Struct, frozen=True, kw_only=True):
    """Ask for the whole list."""

    cluster_id: str | None = None


class DescribeAclsResponse(Struct, frozen=True, kw_only=True):
    """All entries, in the order of their fields."""

    error: ErrorCode
    message: Message = ""
    acls: Annotated[tuple[Acl, ...], ALL_ACLS] = ()
    current_leader: CurrentLeader | None = None
