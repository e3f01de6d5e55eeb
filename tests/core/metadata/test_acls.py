"""Access control entries in sum: Kafka's rules, one by one."""

from __future__ import annotations

import pytest

from replica.core.metadata.acls import (
    Acl,
    AclTable,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acl_fault,
)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def entry(text: str) -> Acl:
    """Read an entry: ``allow User:a read topic orders``, with a star behind a prefix."""
    permission, principal, operation, kind, name = text.split(maxsplit=4)
    is_prefix = len(name) > 1 and name.endswith("*")
    return Acl(
        principal=principal,
        permission=Permission(permission),
        operation=Operation(operation),
        resource_type=ResourceType(kind),
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        name=name.removesuffix("*") if is_prefix else name,
    )


@pytest.mark.parametrize(
    ("entries", "asked", "is_allowed"),
    [
        pytest.param((), (READ, TOPIC, "orders"), False, id="nothing_allows"),
        pytest.param(("allow User:a read topic orders",), (READ, TOPIC, "orders"), True, id="allowed"),
        pytest.param(("allow User:b read topic orders",), (READ, TOPIC, "orders"), False, id="somebody_else"),
        pytest.param(("allow User:a read topic orders",), (READ, TOPIC, "orders-2"), False, id="literal_name"),
        pytest.param(("allow User:a read topic orders*",), (READ, TOPIC, "orders-2"), True, id="prefix"),
        pytest.param(("allow User:a read topic orders*",), (READ, TOPIC, "order"), False, id="shorter_than_prefix"),
        pytest.param(("allow User:a read topic *",), (READ, TOPIC, "orders"), True, id="every_name"),
        pytest.param(("allow User:a read topic *",), (READ, GROUP, "orders"), False, id="another_kind"),
        pytest.param(("allow User:a read topic *",), (WRITE, TOPIC, "orders"), False, id="another_operation"),
        pytest.param(("allow User:a all topic *",), (WRITE, TOPIC, "orders"), True, id="all_operations"),
        pytest.param(("allow User:* read topic orders",), (READ, TOPIC, "orders"), True, id="everybody"),
        pytest.param(("allow User:a read topic orders",), (DESCRIBE, TOPIC, "orders"), True, id="read_describes"),
        pytest.param(("allow User:a write topic orders",), (DESCRIBE, TOPIC, "orders"), True, id="write_describes"),
        pytest.param(("allow User:a alter topic orders",), (DESCRIBE, TOPIC, "orders"), True, id="alter_describes"),
        pytest.param(("allow User:a delete topic orders",), (DESCRIBE, TOPIC, "orders"), True, id="delete_describes"),
        pytest.param(("allow User:a create topic orders",), (DESCRIBE, TOPIC, "orders"), False, id="create_does_not"),
        pytest.param(
            ("allow User:a all topic *", "deny User:a read topic orders"), (READ, TOPIC, "orders"), False, id="denied"
        ),
        pytest.param(
            ("deny User:* all topic secret*", "allow User:a read topic secrets"),
            (READ, TOPIC, "secrets"),
            False,
            id="denied_to_everybody",
        ),
        pytest.param(
            ("allow User:a all topic *", "deny User:a read topic orders"),
            (WRITE, TOPIC, "orders"),
            True,
            id="only_read",
        ),
        pytest.param(
            ("allow User:a all topic *", "deny User:a read topic orders"),
            (DESCRIBE, TOPIC, "orders"),
            True,
            id="to_deny_reading_hides_nothing",
        ),
        pytest.param(("allow User:a alter cluster cluster",), (DESCRIBE, CLUSTER, "cluster"), True, id="cluster"),
    ],
)
def test_what_entries_say(
    entries: tuple[str, ...], asked: tuple[Operation, ResourceType, str], is_allowed: bool
) -> None:
    """Denied counts for more than allowed, and what nothing allows is denied."""
    assert AclTable(map(entry, entries)).allows("User:a", *asked) is is_allowed


def test_a_right_on_any_resource_of_a_kind() -> None:
    """Any name will do, of the kind and for the operation; what is denied is denied when it is named."""
    table = AclTable(map(entry, ("allow User:a write topic orders*", "deny User:b write topic x")))
    assert table.allows_any("User:a", WRITE, TOPIC)
    assert not table.allows_any("User:a", READ, TOPIC)
    assert not table.allows_any("User:a", WRITE, GROUP)
    assert not table.allows_any("User:b", WRITE, TOPIC)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("allow User:a read topic orders", None),
        ("allow User:a alter cluster cluster", None),
        ("allow a read topic orders", "a principal is User:NAME"),
        ("allow User: read topic orders", "a principal is User:NAME"),
        ("allow User:a alter cluster other", "there is one cluster"),
        ("allow User:a alter cluster cluster*", "there is one cluster"),
    ],
)
def test_what_can_never_decide_anything(text: str, fault: str | None) -> None:
    """An entry that looks as if it protected something, and does not, is named."""
    found = acl_fault(entry(text))
    assert found is None if fault is None else found is not None and fault in found
