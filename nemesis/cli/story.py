"""``nemesis story``: replay a scripted scenario step by step.

Owns the command's options and what goes where: the steps on standard output, the page into a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemesis.cli.exit import UnsupportedError
from replica.cli.help import example, meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nemesis.scenarios.play import Played


@click.command("story", epilog=example("nemesis story figure-8 --html figure-8.html"))
@click.argument("name", required=False)
@click.option("--list", "only_list", is_flag=True, help="List the stories, in the order in which to read them.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the story as one page with a picture for each step, here; then nothing is printed.",
)
def story(name: str | None, only_list: bool, html: Path | None) -> None:
    """Replay the story NAME: what is done, and after each step how every replica is."""
    from nemesis.scenarios.collection import story_names, story_text
    from nemesis.scenarios.play import play
    from nemesis.simulator.scenario_files import parse_scenario, render_scenario

    if only_list or name is None:
        _list_stories()
        return
    if name not in story_names():
        likely = meant(name, story_names())
        raise click.BadParameter(
            f"there is no {name!r}{likely}: give one of {', '.join(story_names())}", param_hint="NAME"
        )
    played = play(parse_scenario(story_text(name)))
    if html is None:
        click.echo(render_scenario(step.directive for step in played), nl=False)
    else:
        _write_page(name, played, html)


def _list_stories() -> None:
    from nemesis.scenarios.collection import story_names, story_text, title_of

    width = max(map(len, story_names()))
    for name in story_names():
        click.echo(f"{name.ljust(width)}  {title_of(story_text(name))}")


def _write_page(name: str, played: Sequence[Played], path: Path) -> None:
    try:
        from nemesis.scenarios.page import render_story
    except ImportError as error:
        raise UnsupportedError(f"{error.name} is not installed: pip install 'highwater-log[report]'") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_story(name, played), encoding="utf-8")
    click.echo(f"page: {path}")
