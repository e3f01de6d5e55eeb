"""The TLS of every command, and who a client is: options of ``replica`` itself, before the command's name, or of the
environment.

Owns their names. Files are read by whoever dials or serves. Imports nothing heavy before a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from replica.rpc.tls import TlsFiles

_FILES = {
    "ca_file": "PEM file of the certificates whose signature is believed; switches TLS on.",
    "cert_file": "PEM file of this side's certificate: a replica's, or that of a client of replicas that ask for one.",
    "key_file": "PEM file of that certificate's key.",
}
_TOKEN = "token_file"
_KEY = f"{__name__}.files"


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a group take the files for all of its commands."""
    command = _file_option(_TOKEN, "File of a token that says who a client is; read again when it changes.")(command)
    for name, explanation in reversed(_FILES.items()):
        command = _file_option(f"tls_{name}", explanation)(command)
    return command


def _file_option(name: str, explanation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        f"--{name.replace('_', '-')}",
        name,
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=_variable(name),
        show_envvar=True,
        expose_value=False,
        callback=_keep,
        help=explanation,
    )


def _variable(name: str) -> str:
    return f"REPLICA_{name.upper()}"


def _keep(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta.setdefault(_KEY, {})[str(option.name).removeprefix("tls_")] = path


def tls_files(*, with_token: bool = True) -> TlsFiles | None:
    """What this command was given; None without TLS. A replica shows no token, whatever its environment has.

    Raises click.UsageError where it cannot be used.
    """
    for name in map(_variable, (*(f"tls_{name}" for name in _FILES), _TOKEN)):
        if os.environ.get(name) == "":  # Without TLS is not what somebody wants who set it.
            raise click.UsageError(f"{name} is empty: unset it, or name a file")
    context = click.get_current_context(silent=True)
    files = None if context is None else context.meta.get(_KEY)
    if files is not None and not with_token:
        files = {name: path for name, path in files.items() if name != _TOKEN}
    if not files:
        return None
    if "ca_file" not in files:
        what = "a token is shown by TLS alone" if _TOKEN in files else "a certificate alone is not enough for TLS"
        raise click.UsageError(f"{what}: say whom to believe with --tls-ca-file")
    from replica.rpc.tls import TlsError, TlsFiles

    found = TlsFiles(**files)
    try:
        found.check()
    except TlsError as error:
        raise click.UsageError(str(error)) from error
    return found
