"""Who may do what: entries of an access control list, and what they say in sum.

Owns Kafka's model: what denies counts for more than what allows, and what nothing allows is denied. Who may read,
write, delete or alter something may describe it as well. A name is meant literally, or as the beginning of names; one
of ``*`` is every name, and the principal ``User:*`` everybody. Knows no request and no caller. Kafka's CLUSTER_ACTION
is no right that can be given: replicas have it, by their certificates.

Source: Kafka's ``AclAuthorizer``, ``StandardAuthorizerData``, ``AclOperation``; KIP-11, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

PRINCIPAL_TYPE = "User:"
EVERYBODY = f"{PRINCIPAL_TYPE}*"
ANY_NAME = "*"
THE_CLUSTER = "cluster"
"""The name of the one resource that the cluster itself is (Kafka's ``kafka-cluster``)."""


class Permission(StrEnum):
    """What an entry does."""

    ALLOW = "allow"
    DENY = "deny"


class Operation(StrEnum):
    """What somebody wants to do with a resource; in an entry, ``ALL`` is each of them."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class ResourceType(StrEnum):
    """What is protected: topics, groups of state machines, and the cluster as a whole."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


class PatternType(StrEnum):
    """How the name of an entry is meant (KIP-290)."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Acl(Struct, frozen=True, kw_only=True, order=True):
    """One entry of the list."""

    principal: str
    permission: Permission
    operation: Operation
    resource_type: ResourceType
    pattern_type: PatternType
    name: str

    def is_about(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether it decides about this operation on resources of this kind."""
        if self.resource_type is not resource_type:
            return False
        if self.operation in (Operation.ALL, operation):
            return True
        is_allowed = self.permission is Permission.ALLOW
        return is_allowed and operation is Operation.DESCRIBE and self.operation in _IMPLY_DESCRIBE

    def matches(self, name: str) -> bool:
        """Whether it is about a resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)


_IMPLY_DESCRIBE = frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER})


def acl_fault(acl: Acl) -> str | None:
    """Say why an entry can never decide anything; None for one that can."""
    if not acl.principal.startswith(PRINCIPAL_TYPE) or acl.principal == PRINCIPAL_TYPE:
        return f"a principal is {PRINCIPAL_TYPE}NAME, or {EVERYBODY} for everybody, this one is {acl.principal!r}"
    if not acl.name:
        return f"an entry names what it is about; for every name, give {ANY_NAME}"
    is_named_so = (acl.pattern_type, acl.name) == (PatternType.LITERAL, THE_CLUSTER)
    if acl.resource_type is ResourceType.CLUSTER and not is_named_so:
        return f"there is one cluster, and its name is {THE_CLUSTER!r}, this one is {acl.name!r}"
    return None


class AclTable:
    """What a set of entries says in sum."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        of: dict[str, list[Acl]] = {}
        for acl in acls:
            of.setdefault(acl.principal, []).append(acl)
        self._of: Mapping[str, list[Acl]] = of

    def allows(self, principal: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether a principal may do this with the resource of this name."""
        found = {acl.permission for acl in self._about(principal, operation, resource_type) if acl.matches(name)}
        return found == {Permission.ALLOW}

    def allows_any(self, principal: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether anything allows this with a resource of this kind. What is denied is denied when it is named."""
        about = self._about(principal, operation, resource_type)
        return any(acl.permission is Permission.ALLOW for acl in about)

    def _about(self, principal: str, operation: Operation, resource_type: ResourceType) -> list[Acl]:
        entries = (*self._of.get(principal, ()), *self._of.get(EVERYBODY, ()))
        return [acl for acl in entries if acl.is_about(operation, resource_type)]
