"""``replica config set``, ``unset`` and ``describe``, and ``replica quota``: what the metadata log says of settings.

Owns the words of their options. Settings have the names that they have as options of ``replica start``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import bootstrap_option, output_option, settings, show, timeout_option, with_admin
from replica.cli.help import Group, example

if TYPE_CHECKING:
    from replica.core.metadata.resources import ConfigResource, Configs

THIS_BROKER, ALL_BROKERS = "this broker", "all brokers"
_QUOTAS = {
    "produce_bytes": ("producer_byte_rate", "Bytes that may be written"),
    "fetch_bytes": ("consumer_byte_rate", "Bytes that may be read"),
    "requests": ("request_rate", "Requests that may be made"),
}
"""By parameter: the name in the metadata log, and what is counted, by one replica in a second."""

_broker_option = click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="Of this broker.")
_all_option = click.option("--all", "is_all", is_flag=True, help="Of all brokers that have no setting of their own.")
_user_option = click.option("--user", metavar="NAME", help="Of this user: User:NAME in the access control list.")
_default_option = click.option("--default", "is_default", is_flag=True, help="Of each user without quotas of its own.")


def _broker(broker: int | None, is_all: bool) -> ConfigResource:
    from replica.core.metadata.resources import ConfigResource, ConfigResourceType

    if (broker is None) != is_all:
        raise click.UsageError("give --broker ID, or --all")
    return ConfigResource(resource_type=ConfigResourceType.BROKER, name="" if broker is None else str(broker))


def _user(user: str | None, is_default: bool) -> ConfigResource:
    from replica.core.metadata.acls import PRINCIPAL_TYPE
    from replica.core.metadata.resources import ConfigResource, ConfigResourceType

    if (user is None) != is_default or user == "":
        raise click.UsageError("give --user NAME, or --default")
    return ConfigResource(resource_type=ConfigResourceType.USER, name=(user or "").removeprefix(PRINCIPAL_TYPE))


def _named(key: str) -> str:
    return key.replace("-", "_")


def _key(name: str) -> str:
    return name.replace("_", "-")


# --- brokers --------------------------------------------------------------------------------------------------------


@click.command(
    "set", epilog=example("replica config set --broker 1 log-level=debug", "replica config set --all num-partitions=6")
)
@click.argument("entries", nargs=-1, required=True, metavar="NAME=VALUE...")
@_broker_option
@_all_option
@bootstrap_option
@timeout_option
def set_config(
    entries: tuple[str, ...], broker: int | None, is_all: bool, bootstrap: tuple[str, ...], timeout_ms: int
) -> None:
    """Change settings of running brokers, all or none.

    Each broker goes by them as soon as it has read the metadata log that far, and also after a restart. What is set of
    one broker counts for more than what is set of all, and that for more than what a replica was started with.
    """
    resource = _broker(broker, is_all)
    configs: dict[str, str | None] = {_named(key): value for key, value in settings(entries, "NAME=VALUE").items()}
    with_admin(bootstrap, timeout_ms, lambda admin: admin.alter_configs(resource, configs))
    click.echo(f"{'all brokers' if is_all else f'broker {broker}'}: {', '.join(entries)}")


@click.command("unset", epilog=example("replica config unset --broker 1 log-level"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_broker_option
@_all_option
@bootstrap_option
@timeout_option
def unset_config(
    names: tuple[str, ...], broker: int | None, is_all: bool, bootstrap: tuple[str, ...], timeout_ms: int
) -> None:
    """Take settings of running brokers back: whatever else there is holds again."""
    resource = _broker(broker, is_all)
    with_admin(bootstrap, timeout_ms, lambda admin: admin.alter_configs(resource, dict.fromkeys(map(_named, names))))
    click.echo(f"{'all brokers' if is_all else f'broker {broker}'}: {', '.join(names)} unset")


@click.command("describe", epilog=example("replica config describe", "replica config describe --broker 1"))
@_broker_option
@_all_option
@bootstrap_option
@output_option
@timeout_option
def describe_config(broker: int | None, is_all: bool, bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show what was set of running brokers; of one, also what it has from all. `config show` has the other settings."""
    if broker is not None:
        of_broker = dynamic_settings(broker, bootstrap, timeout_ms)
        show(
            [{"setting": _key(name), "value": value, "of": place} for name, (value, place) in of_broker.items()], output
        )
        return
    show(list(_rows(_described("broker", bootstrap, timeout_ms), "broker", only_all=is_all)), output)


def dynamic_settings(broker: int, bootstrap: tuple[str, ...], timeout_ms: int) -> Mapping[str, tuple[str, str]]:
    """What the metadata log says to one broker, by the names of settings, and whether that is of it or of all."""
    found = _described("broker", bootstrap, timeout_ms)
    places = {_broker(None, True): ALL_BROKERS, _broker(broker, False): THIS_BROKER}
    told = {name: (text, place) for each, place in places.items() for name, text in found.get(each, {}).items()}
    return dict(sorted(told.items()))


def _described(kind: str, bootstrap: tuple[str, ...], timeout_ms: int) -> Configs:
    from replica.core.metadata.resources import ConfigResourceType

    return with_admin(bootstrap, timeout_ms, lambda admin: admin.describe_configs(ConfigResourceType(kind)))


def _rows(configs: Configs, kind: str, *, only_all: bool) -> Iterator[dict[str, Any]]:
    for resource, of_resource in configs.items():
        for name, text in of_resource.items():
            if not only_all or not resource.name:
                yield {kind: resource.name or "all", "setting": _key(name), "value": text}


# --- users ----------------------------------------------------------------------------------------------------------


@click.group(cls=Group)
def quota() -> None:
    """Say how much of each replica a user may have in a second."""


def _quota_options(**attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, (_, says) in reversed(_QUOTAS.items()):
            option = click.option(f"--{_key(name)}", help=f"{says} through one replica in a second.", **attributes)
            command = option(command)
        return command

    return decorate


@quota.command("set", epilog=example("replica quota set --user shop --produce-bytes 1000000 --requests 500"))
@_user_option
@_default_option
@_quota_options(type=click.IntRange(min=1), metavar="N")
@bootstrap_option
@timeout_option
def set_quota(
    user: str | None, is_default: bool, bootstrap: tuple[str, ...], timeout_ms: int, **given: int | None
) -> None:
    """Set quotas of a user, or of each that has none; those that are not named stay."""
    configs: dict[str, str | None] = {_QUOTAS[each][0]: str(n) for each, n in given.items() if n is not None}
    if not configs:
        raise click.UsageError(f"give one of {', '.join(f'--{_key(name)}' for name in _QUOTAS)}")
    _alter_quotas(_user(user, is_default), configs, bootstrap, timeout_ms)


@quota.command("unset", epilog=example("replica quota unset --user shop", "replica quota unset --default --requests"))
@_user_option
@_default_option
@_quota_options(is_flag=True)
@bootstrap_option
@timeout_option
def unset_quota(user: str | None, is_default: bool, bootstrap: tuple[str, ...], timeout_ms: int, **given: bool) -> None:
    """Take quotas of a user back, those that are named or all: the default holds again."""
    named = [_QUOTAS[name][0] for name, is_given in given.items() if is_given or not any(given.values())]
    _alter_quotas(_user(user, is_default), dict.fromkeys(named), bootstrap, timeout_ms)


def _alter_quotas(
    resource: ConfigResource, configs: dict[str, str | None], bootstrap: tuple[str, ...], timeout_ms: int
) -> None:
    with_admin(bootstrap, timeout_ms, lambda admin: admin.alter_configs(resource, configs))
    told = ", ".join(f"{name} unset" if text is None else f"{name}={text}" for name, text in configs.items())
    click.echo(f"{resource.name or 'default'}: {told}")


@quota.command("describe", epilog=example("replica quota describe"))
@bootstrap_option
@output_option
@timeout_option
def describe_quotas(bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show all quotas; `all` is what each user has that has none of its own."""
    show(list(_rows(_described("user", bootstrap, timeout_ms), "user", only_all=False)), output)
