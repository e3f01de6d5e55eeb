"""The options of ``replica start`` about who is let do what. Owns their names and their words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.cli.config_setting import Setting

if TYPE_CHECKING:
    from replica.server.access import AccessOptions


def access_settings() -> list[Setting]:
    """One setting for each."""
    return [
        Setting(
            ["--authorizer"],
            type=click.Choice(["none", "acl"]),
            default="none",
            show_default=True,
            show_envvar=True,
            unit="word",
            holds=("none",),
            help="acl: whoever calls may do what the access control list allows (`replica acl`), and nothing else. The "
            "same on every replica.",
        ),
        Setting(
            ["--super-user"],
            multiple=True,
            metavar="User:NAME",
            show_envvar=True,
            unit="User:NAME",
            may_be="principals",
            help="Who may do everything with it; several.",
        ),
        _file("token-secret-file", "The secret with which clients' tokens are signed (HS256).", "a file"),
        _file("token-public-key-file", "Or the public key of who signs them, as PEM.", "a PEM file"),
        Setting(
            ["--token-audience"],
            metavar="NAME",
            show_envvar=True,
            unit="text",
            may_be="any",
            help="Whom tokens must be for (aud).",
        ),
        Setting(
            ["--reflection/--no-reflection"],
            show_envvar=True,
            default=True,
            show_default=True,
            unit="switch",
            holds=(True,),
            help="Tell whoever is let in what RPCs there are (gRPC reflection).",
        ),
    ]


def _file(name: str, says: str, may_be: str) -> Setting:
    kind = click.Path(path_type=Path, dir_okay=False)
    return Setting([f"--{name}"], type=kind, show_envvar=True, unit="path", may_be=may_be, help=says)


def access_from(values: Mapping[str, Any]) -> AccessOptions:
    """Read them from the values of a command."""
    from replica.server.access import AccessOptions
    from replica.server.tokens import TokenFiles

    return AccessOptions(
        acls=values["authorizer"] == "acl",
        super_users=tuple(values["super_user"]),
        tokens=TokenFiles(
            secret_file=values["token_secret_file"],
            public_key_file=values["token_public_key_file"],
            audience=values["token_audience"],
        ),
        reflection=values["reflection"],
    )
