"""The TLS of every command, and who a client is: options of ``replica`` itself, before the command's name, or of the
environment.

Owns their names. Files are read by whoever dials or serves. Imports nothing heavy before a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.cli.config_setting import Setting

if TYPE_CHECKING:
    from replica.rpc.tls import TlsFiles

_FILES = {
    "ca_file": "PEM file of the certificates whose signature is believed; switches TLS on.",
    "cert_file": "PEM file of this side's certificate: a replica's, or that of a client of replicas that ask for one.",
    "key_file": "PEM file of that certificate's key.",
}
_TOKEN, _TOKEN_VARIABLE = "token_file", "REPLICA_TOKEN_FILE"
_KEY = f"{__name__}.files"


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a group take the files for all of its commands."""
    command = click.option(
        "--token-file",
        _TOKEN,
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=_TOKEN_VARIABLE,
        show_envvar=True,
        expose_value=False,
        callback=_keep,
        help="File of a token that says who a client is; read again when it changes.",
    )(command)
    for name in reversed(_FILES):
        command = click.option(*_spelled(name), cls=Setting, **_declared(name))(command)
    return command


def tls_settings() -> list[Setting]:
    """The same as settings of a replica."""
    return [Setting(_spelled(name), **_declared(name)) for name in _FILES]


def _spelled(name: str) -> tuple[str, str]:
    return f"--tls-{name}".replace("_", "-"), f"tls_{name}"


def _declared(name: str) -> dict[str, Any]:
    return {
        "type": click.Path(path_type=Path, dir_okay=False),
        "unit": "path",
        "may_be": "a PEM file",
        "show_envvar": True,
        "expose_value": False,
        "callback": _keep,
        "help": _FILES[name],
    }


def _keep(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    if "\n" in str(path):  # Whoever gives the key itself does not want to read it in an error.
        raise click.BadParameter("give the path of a file, not its text", context, option)
    context.meta.setdefault(_KEY, {})[str(option.name).removeprefix("tls_")] = path


def keep_files(context: click.Context, values: Mapping[str, Any]) -> None:
    """Take from the values of a file, by the names of settings, what was not given otherwise."""
    found = {name: Path(values[f"tls_{name}"]) for name in _FILES if f"tls_{name}" in values}
    if found:
        context.meta[_KEY] = found | context.meta.get(_KEY, {})


def given_files(context: click.Context) -> Mapping[str, Path]:
    """What this command was given of TLS, by the names of settings."""
    return {f"tls_{name}": path for name, path in context.meta.get(_KEY, {}).items() if name in _FILES}


def tls_files(*, are_read: bool = True, with_token: bool = True) -> TlsFiles | None:
    """What this command was given; None without TLS. A replica shows no token, whatever its environment has.

    Unless files ``are_read``, they need not be there. Raises click.UsageError where they cannot be used.
    """
    for variable in (*(setting.variable for setting in tls_settings()), _TOKEN_VARIABLE):
        if os.environ.get(variable) == "":  # Without TLS is not what somebody wants who set it.
            raise click.UsageError(f"{variable} is empty: unset it, or name a file")
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
        if are_read:
            found.check()
    except TlsError as error:
        raise click.UsageError(str(error)) from error
    return found
