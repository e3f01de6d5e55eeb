"""The options of ``replica start`` about who is let do what. Owns their names and their words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from replica.server.access import AccessOptions

_FILE = click.Path(path_type=Path, dir_okay=False)


def access_params() -> list[click.Parameter]:
    """One option for each."""
    return [
        _option(
            "authorizer",
            type=click.Choice(["none", "acl"]),
            default="none",
            show_default=True,
            help="acl: whoever calls may do what the access control list allows (`replica acl`), and nothing else. The "
            "same on every replica.",
        ),
        _option("super-user", multiple=True, metavar="User:NAME", help="Who may do everything with it; several."),
        _option("token-secret-file", type=_FILE, help="The secret with which clients' tokens are signed (HS256)."),
        _option("token-public-key-file", type=_FILE, help="Or the public key of who signs them, as PEM."),
        _option("token-audience", metavar="NAME", help="Whom tokens must be for (aud)."),
        click.Option(
            ["--reflection/--no-reflection"],
            envvar="REPLICA_REFLECTION",
            show_envvar=True,
            default=True,
            show_default=True,
            help="Tell whoever is let in what RPCs there are (gRPC reflection).",
        ),
    ]


def _option(name: str, **attributes: Any) -> click.Option:
    envvar = f"REPLICA_{name.upper().replace('-', '_')}"
    return click.Option([f"--{name}"], envvar=envvar, show_envvar=True, **attributes)


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
