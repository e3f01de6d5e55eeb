"""What a replica is told of who may do what: what cannot go together does not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from replica.cli.access import access_from
from replica.cli.start import start_command
from replica.core.config import InvalidConfigError
from replica.server.access import AccessOptions
from replica.server.tokens import TokenFiles

SECRET = TokenFiles(secret_file=Path("secret"))


@pytest.mark.parametrize(
    ("access", "how", "told"),
    [
        (AccessOptions(acls=True), {"has_tls": False}, "knows replicas by their certificates"),
        (AccessOptions(acls=True), {"asks_everybody": False, "has_peer_listener": False}, "give --peer-listen"),
        (AccessOptions(super_users=("User:a",)), {}, "without an authorizer"),
        (AccessOptions(tokens=SECRET), {}, "without an authorizer"),
        (AccessOptions(acls=True, super_users=("a",)), {}, "is no principal"),
        (AccessOptions(acls=True, super_users=("User:",)), {}, "is no principal"),
        (AccessOptions(acls=True, tokens=TokenFiles(audience="a")), {}, "give the file of their key"),
        (
            AccessOptions(acls=True, tokens=TokenFiles(secret_file=Path("a"), public_key_file=Path("b"))),
            {},
            "tokens have one key",
        ),
    ],
)
def test_what_cannot_work_is_refused(access: AccessOptions, how: dict[str, bool], told: str) -> None:
    """One sentence says what to change."""
    with pytest.raises(InvalidConfigError, match=told):
        access.check(**{"has_tls": True, "asks_everybody": True, "has_peer_listener": False, **how})


@pytest.mark.parametrize(
    ("access", "how"),
    [
        (AccessOptions(), {"has_tls": False}),
        (AccessOptions(reflection=False), {"has_tls": False}),
        (AccessOptions(acls=True, super_users=("User:a",), tokens=SECRET), {}),
        (AccessOptions(acls=True), {"asks_everybody": False, "has_peer_listener": True}),
    ],
)
def test_what_can_work_is_not(access: AccessOptions, how: dict[str, bool]) -> None:
    """Tokens alone are enough where replicas have a listener of their own."""
    access.check(**{"has_tls": True, "asks_everybody": True, "has_peer_listener": False, **how})


def test_options_come_from_the_command_line() -> None:
    """Each has its option, and nothing is on that was not asked for."""
    command = start_command()
    least = ["--data-dir", "d", "--listen", "h:1"]
    assert access_from(command.make_context("start", [*least]).params) == AccessOptions()
    given = [*least, "--authorizer", "acl", "--super-user", "User:a", "--super-user", "User:b", "--no-reflection"]
    given += ["--token-secret-file", "secret", "--token-audience", "highwater"]
    assert access_from(command.make_context("start", given).params) == AccessOptions(
        acls=True,
        super_users=("User:a", "User:b"),
        tokens=TokenFiles(secret_file=Path("secret"), audience="highwater"),
        reflection=False,
    )


def test_an_authorizer_without_certificates_does_not_start(tmp_path: Path) -> None:
    """It would keep out every replica, or nobody."""
    arguments = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--authorizer", "acl"]
    done = CliRunner().invoke(start_command(), arguments)
    assert (done.exit_code, "knows replicas by their certificates" in done.output) == (1, True)
