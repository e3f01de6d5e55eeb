"""The options of ``replica`` itself that say who a client is."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from replica.cli.tls import tls_files, tls_options
from tests.rpc.certificates import files_of


@click.group()
@tls_options
def root() -> None:
    """Take the files."""


@root.command()
@click.option("--with-token/--without-token", default=True)
def told(with_token: bool) -> None:
    """Say which files there are."""
    files = tls_files(with_token=with_token)
    click.echo("nobody" if files is None else f"{files.ca_file.name} {files.token_file and files.token_file.name}")


def run(*arguments: object, **environment: str) -> tuple[int, str]:
    """The exit code, and what is said."""
    done = CliRunner(env=environment).invoke(root, [str(argument) for argument in arguments])
    return done.exit_code, done.output.strip()


def test_a_token_comes_from_a_file_and_is_shown_by_tls_alone(tmp_path: Path) -> None:
    """By option or environment; a replica shows none, whatever its environment has."""
    ca_file, token = files_of(tmp_path, "any").ca_file, tmp_path / "token"
    token.write_text("secret-token")
    assert run("--tls-ca-file", ca_file, "--token-file", token, "told") == (0, "ca.pem token")
    environment = {"REPLICA_TLS_CA_FILE": str(ca_file), "REPLICA_TOKEN_FILE": str(token)}
    assert run("told", **environment) == (0, "ca.pem token")
    assert run("told", "--without-token", **environment) == (0, "ca.pem None")
    assert run("told", "--without-token", REPLICA_TOKEN_FILE=str(token)) == (0, "nobody")
    code, said = run("told", REPLICA_TOKEN_FILE=str(token))
    assert (code, "a token is shown by TLS alone" in said) == (2, True)


@pytest.mark.parametrize(("content", "told_of_it"), [("", "has no token"), ("two words", "has no token")])
def test_a_token_that_cannot_be_used_is_named_by_its_file(content: str, told_of_it: str, tmp_path: Path) -> None:
    """Before anybody is asked; an empty variable is none that somebody wants who set it."""
    ca_file, token = files_of(tmp_path, "any").ca_file, tmp_path / "token"
    token.write_text(content)
    code, said = run("--tls-ca-file", ca_file, "--token-file", token, "told")
    assert (code, told_of_it in said, not content or content not in said) == (2, True, True)
    code, said = run("--tls-ca-file", ca_file, "told", REPLICA_TOKEN_FILE="")
    assert (code, "REPLICA_TOKEN_FILE is empty" in said) == (2, True)
