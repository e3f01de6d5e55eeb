"""``replica config``: what a replica would be started with, and where each setting comes from.

Owns what is shown. No secret is a setting: keys and certificates are named by their files, which are not opened here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from replica.cli.client import as_table, output_option, timeout_option
from replica.cli.config_cluster import describe_config, dynamic_settings, set_config, unset_config
from replica.cli.config_file import config_option, file_of, read_settings, settings_of, use_settings
from replica.cli.config_setting import Setting
from replica.cli.help import Command, Group, example
from replica.cli.start import sections, server_options_from, settings
from replica.cli.tls import given_files
from replica.core.settings import SETTINGS

Row = dict[str, Any]

DYNAMIC = "dynamic"
"""The origin of what a running broker is told."""
PLACES = {"data_dir": "data", "listen": "127.0.0.1:0"}
"""What stands for those settings that a file may leave to options."""


@click.group(cls=Group)
def config() -> None:
    """Show what a replica would be started with, check files of settings, and change settings of running brokers."""


config.add_command(set_config)
config.add_command(unset_config)
config.add_command(describe_config)


@config.command("check", epilog=example("replica config check replica.toml"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Check a file of settings without starting anything.

    It is read as by `replica start --config FILE`, in this environment. Neither the data directory nor certificates are
    looked at.
    """
    start = click.Command("start", params=list(settings()))
    given = read_settings(file, settings_of(start))
    context = click.Context(start, info_name="start", parent=click.get_current_context())
    use_settings(context, file, PLACES | given)
    start.parse_args(context, [])
    with context:
        options = server_options_from(context.params, files_are_read=False)
    _check_machines(options.groups)
    left = [
        setting.key for setting in settings() if setting.required and _is_missing(context, str(setting.name), given)
    ]
    others = f"; {' and '.join(left)} must be given as well" if left else ""
    click.echo(f"{file}: {len(given)} settings that can work together{others}")


def _is_missing(context: click.Context, name: str, given: Mapping[str, Any]) -> bool:
    return name not in given and context.get_parameter_source(name) is not ParameterSource.ENVIRONMENT


def _check_machines(groups: Mapping[str, str]) -> None:
    from replica.core.config import InvalidConfigError
    from replica.server.groups import make_groups

    try:
        make_groups(groups)
    except InvalidConfigError as error:
        raise click.ClickException(str(error)) from error


def _relaxed(setting: Setting) -> Setting:
    """The same setting where none is required."""
    if not setting.required:
        return setting
    made = copy(setting)
    made.required = False
    return made


# --- show -----------------------------------------------------------------------------------------------------------


@config.command(
    "show",
    cls=Command,
    params=[config_option(), *map(_relaxed, settings())],
    sections={"This command": ["origin", "broker", "bootstrap", "timeout_ms", "output"], **sections()},
    epilog=example("replica config show --config replica.toml --origin", "replica config show --broker 1 --origin"),
)
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="Ask the cluster what this broker is told.")
@click.option("--bootstrap", multiple=True, metavar="HOST:PORT", envvar="REPLICA_BOOTSTRAP", help="Whom to ask then.")
@timeout_option
@output_option
def show(origin: bool, broker: int | None, bootstrap: tuple[str, ...], timeout_ms: int, output: str, **_: Any) -> None:
    """Print all settings, and where they come from.

    They are those that `replica start` would have with these options in this environment. Options count for more than
    the environment, that for more than the file of --config, and that for more than defaults. With --broker, what the
    cluster tells a running broker counts for more than all of them (`replica config set`).
    """
    if broker is not None and not bootstrap:
        raise click.UsageError("what a broker is told the cluster knows: give --bootstrap")
    told = {} if broker is None else dynamic_settings(broker, bootstrap, timeout_ms)
    rows = [_told(row, *told.get(row["setting"].replace("-", "_"), ())) for row in _rows(click.get_current_context())]
    if output == "json":
        hidden = () if origin else ("origin", "place")
        click.echo(json.dumps([{name: row[name] for name in row if name not in hidden} for row in rows], indent=2))
        return
    click.echo(as_table([_cells(row, origin) for row in rows]))


def _told(row: Row, text: str | None = None, place: str | None = None) -> Row:
    """The same, or what the cluster says instead."""
    if text is None:
        return row
    name = row["setting"].replace("-", "_")
    return row | {"value": SETTINGS[name].read(name, text), "origin": DYNAMIC, "place": place}


def _cells(row: Row, origin: bool) -> Row:
    value = str(row["value"]).lower() if isinstance(row["value"], bool) else row["value"]
    comma = "," if row["origin"] == DYNAMIC else ""
    place = row["origin"] if row["place"] is None else f"{row['origin']}{comma} {row['place']}"
    return {"setting": row["setting"], "value": value} | ({"origin": place} if origin else {})


def _rows(context: click.Context) -> Iterator[Row]:
    """Every setting that a command was given, or that holds without."""
    for setting in settings_of(context.command):
        name = str(setting.name)
        if name in context.params:
            yield _row(context, setting, context.params[name], context.get_parameter_source(name))
        else:
            yield _row_of_tls(context, setting, name)


def _row_of_tls(context: click.Context, setting: Setting, name: str) -> Row:
    """Its files are given to the command above all others."""
    path, source = given_files(context).get(name), context.find_root().get_parameter_source(name)
    is_of_file = path is not None and source in (None, ParameterSource.DEFAULT)
    return _row(context, setting, path, ParameterSource.DEFAULT_MAP if is_of_file else source)


def _row(context: click.Context, setting: Setting, value: Any, source: ParameterSource | None) -> Row:
    """``origin`` is an option, the environment, the file or the default; ``place`` says which one."""
    in_force = setting.in_force(value)
    origin, place = _origin(context, setting, value, source)
    return {
        "setting": setting.key,
        "value": str(in_force) if isinstance(in_force, Path) else in_force,
        "unit": setting.unit,
        "origin": origin,
        "place": place,
    }


def _origin(
    context: click.Context, setting: Setting, value: Any, source: ParameterSource | None
) -> tuple[str, str | None]:
    match source:
        case ParameterSource.COMMANDLINE:
            return "option", setting.secondary_opts[0] if value is False else setting.opts[0]
        case ParameterSource.ENVIRONMENT:
            return "environment", setting.variable
        case ParameterSource.DEFAULT_MAP:
            return "file", f"{file_of(context)}: {setting.key}"
        case _:
            return "default", None
