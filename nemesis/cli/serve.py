"""``nemesis serve``: the store as pages.

Owns the command's options, and where the server listens.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import click

from nemesis.cli.exit import UnsupportedError
from nemesis.cli.run import store_option

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8484
REQUESTS_MAX = 100


@click.command()
@store_option
@click.option(
    "--host",
    default=HOST_DEFAULT,
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen. By default only this machine can ask. With 0.0.0.0 everybody who can reach this machine can "
    "read every run of the store and run SQL here: there is no password.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=PORT_DEFAULT, show_default=True, help="0: any free one."
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Answer requests for this host name too; else for addresses and localhost only. May be repeated.",
)
def serve(store: Path, host: str, port: int, names: tuple[str, ...]) -> None:
    """Show the store in a browser: runs, their histories with SQL, what goes on now, and the stories.

    Nothing can be changed there. Ctrl-C ends it.
    """
    try:
        import uvicorn

        from nemesis.serve.application import application
    except ImportError as error:
        raise UnsupportedError(f"{error.name} is not installed: pip install 'highwater-log[serve]'") from error
    try:
        app = application(store, names=names)
    except NotADirectoryError as error:
        raise click.BadParameter(str(error), param_hint="--store") from None
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"{store} is at http://{shown}:{listening.getsockname()[1]}/")
    config = uvicorn.Config(app, log_level="warning", server_header=False, limit_concurrency=REQUESTS_MAX)
    with listening, suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise click.BadParameter(f"{host}:{port} cannot be listened on: {error}", param_hint="--host, --port") from None
