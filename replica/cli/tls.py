"""The TLS of every command: options of ``replica`` itself, before the command's name, or of the environment.

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
_KEY = f"{__name__}.files"


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a group take the files for all of its commands."""
    for name, explanation in reversed(_FILES.items()):
        dashed = f"tls-{name}".replace("_", "-")
        command = click.option(
            f"--{dashed}",
            f"tls_{name}",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar=_variable(name),
            show_envvar=True,
            expose_value=False,
            callback=_keep,
            help=explanation,
        )(command)
    return command


def _variable(name: str) -> str:
    return f"REPLICA_TLS_{name.upper()}"


def _keep(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta.setdefault(_KEY, {})[str(option.name).removeprefix("tls_")] = path


def tls_files() -> TlsFiles | None:
    """What this command was given; None without TLS. Raises click.UsageError where it cannot be used."""
    for name in map(_variable, _FILES):
        if os.environ.get(name) == "":  # Without TLS is not what somebody wants who set it.
            raise click.UsageError(f"{name} is empty: unset it, or name a file")
    context = click.get_current_context(silent=True)
    files = None if context is None else context.meta.get(_KEY)
    if files is None:
        return None
    if "ca_file" not in files:
        raise click.UsageError("a certificate alone is not enough for TLS: say whom to believe with --tls-ca-file")
    from replica.rpc.tls import TlsError, TlsFiles

    found = TlsFiles(**files)
    try:
        found.check()
    except TlsError as error:
        raise click.UsageError(str(error)) from error
    return found
