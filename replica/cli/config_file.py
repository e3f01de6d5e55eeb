"""A file of settings, in TOML: its keys are the options of ``replica start`` without their dashes in front.

Owns what such a file may say, and every sentence about one that says something else. An option that may be repeated is
a table: ``[voter]``, and below it ``1 = "HOST:PORT"``, or a list where its entries have no names. What options and the
environment say counts for more: a file gives options another default, and click does the rest. Knows nothing of what
settings mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from replica.cli.config_setting import Setting, WrongValueError, shown
from replica.cli.help import meant
from replica.cli.tls import keep_files, tls_settings

FILE_BYTES_MAX = 1 << 20
KEY_LENGTH_MAX = 100
"""A longer key is not compared with those that there are."""
SENTENCE_LENGTH_MAX = 200
"""What is told of a file that is no TOML; the parser repeats keys, however long they are."""
_KEY = f"{__name__}.path"


class ConfigFileError(click.ClickException):
    """A file that cannot be used; the message names it, and the key."""


def config_option() -> click.Option:
    """The option that names the file; it is read before any other option is looked at."""
    return click.Option(
        ["--config"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="REPLICA_CONFIG",
        show_envvar=True,
        is_eager=True,
        expose_value=False,
        callback=_load,
        help="Take from this TOML file what neither options nor the environment say.",
    )


def _load(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    del option
    if path is not None:
        use_settings(context, path, read_settings(path, settings_of(context.command)))


def use_settings(context: click.Context, path: Path, values: Mapping[str, Any]) -> None:
    """Let a command begin with these values of a file, by the names of its parameters."""
    context.meta[_KEY] = path
    keep_files(context, values)
    context.default_map = {**(context.default_map or {}), **values}


def file_of(context: click.Context) -> Path | None:
    """Which file this command has read."""
    path: Path | None = context.meta.get(_KEY)
    return path


def settings_of(command: click.Command) -> list[Setting]:
    """The settings that a command takes, and those that belong to all commands."""
    return [*(each for each in command.params if isinstance(each, Setting)), *tls_settings()]


def read_settings(path: Path, settings: Iterable[Setting]) -> dict[str, Any]:
    """Read a file, and return what it says by the names of parameters. Raises ConfigFileError."""
    known = {setting.key: setting for setting in settings}
    values: dict[str, Any] = {}
    for key, value in _document(path).items():
        if key not in known:
            raise ConfigFileError(f"{path}: there is no setting {shown(key)}{_likely(key, known)}")
        setting = known[key]
        _check_place(path, setting, value, known)
        try:
            values[str(setting.name)] = setting.from_file(value)
        except WrongValueError as error:
            raise ConfigFileError(f"{path}: {key} {error}") from None
    return values


def _likely(key: str, known: Mapping[str, Setting]) -> str:
    """What somebody may have meant; the opposite of a flag is its key with another value."""
    opposite = key.removeprefix("no-")
    if opposite != key and opposite in known and known[opposite].is_flag:
        return f" (did you mean {opposite} = false?)"
    return meant(key, known) if len(key) <= KEY_LENGTH_MAX else ""


def _check_place(path: Path, setting: Setting, value: Any, known: Mapping[str, Setting]) -> None:
    """Whatever stands below the head of a table belongs to the table."""
    for key in value if setting.multiple and isinstance(value, Mapping) else ():
        if key in known:
            raise ConfigFileError(f"{path}: {key} stands in the table [{setting.key}]: move it above the first table")


def _document(path: Path) -> Mapping[str, Any]:
    text = _text(path)
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigFileError(f"{path}: its values are nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits.
        raise ConfigFileError(f"{path}: {str(error)[:SENTENCE_LENGTH_MAX]}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigFileError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ConfigFileError(f"{path} is larger than {FILE_BYTES_MAX} bytes: it holds no settings")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigFileError(f"{path}: line {line} is no UTF-8") from None
