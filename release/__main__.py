"""``python -m release``: builds, tries, lists and signs, in this order. One folder gets the result, at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from shutil import move, rmtree
from tempfile import TemporaryDirectory

import click

from release.archives import is_sdist
from release.build import NO_COMPILER, build, has_compiler
from release.commands import ReleaseError
from release.contents import check_contents
from release.images import build_images, engine_answers
from release.installing import install, remove_installers, try_out
from release.interpreters import find_interpreters
from release.sbom import SBOM_SUFFIX, write_sbom
from release.source import Source, check_tag, read_source, uncommitted
from release.sums import SUMS, released_in, sign, write_sums

ROOT = Path(__file__).parents[1]
SHOWN_MAX = 5
"""How many files that are not committed are named."""
NO_ENGINE = "both images and the lists of what is in them: no container engine answers"
NO_KEY = f"the signature of {SUMS}: no key was given"


@click.command()
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=Path("dist"), show_default=True)
@click.option("--tag", default="", help="Check that this tag is of this version and commit, and in the changelog.")
@click.option("--sign-key", type=click.Path(path_type=Path, dir_okay=False), help="A private key of OpenSSH.")
@click.option("--dry-run", is_flag=True, help="Say what would be released, tried and left out, and do nothing.")
def main(output: Path, tag: str, sign_key: Path | None, dry_run: bool) -> None:
    """Build the sdist, the wheels and the images of the commit that is checked out, and try each of them."""
    try:
        source = read_source(ROOT)
        if tag:
            check_tag(source, tag)
        if sign_key is not None and not sign_key.is_file():
            raise ReleaseError(f"there is no key {sign_key}")
        stale = released_in(output)
        has_engine = engine_answers()
        interpreters = begin(source, has_engine=has_engine, has_key=sign_key is not None)
        if dry_run:
            return
        with TemporaryDirectory(prefix="highwater-release-") as scratch:
            made = release(source, Path(scratch), interpreters, has_engine=has_engine)
            if sign_key is not None:
                sign(made, sign_key)
            put(made, output, stale)
    except ReleaseError as error:
        click.echo(f"release: {error}", err=True)
        sys.exit(1)


def say(text: str) -> None:
    """One line of what is done."""
    click.echo(text)


def leave_out(what: str) -> None:
    """One line of what is not done, and why."""
    click.echo(f"left out: {what}")


def begin(source: Source, *, has_engine: bool, has_key: bool) -> dict[int, Path]:
    """Say what is released and what is left out here; return the Pythons to try it on. Raises ReleaseError for none."""
    say(f"{source.name} {source.version}, commit {source.commit[:12]}")
    if changed := uncommitted(source):
        more = f" and {len(changed) - SHOWN_MAX} more" if len(changed) > SHOWN_MAX else ""
        leave_out(f"what is not committed: {', '.join(changed[:SHOWN_MAX])}{more}")
    found = find_interpreters()
    for minor in (minor for minor, path in found.items() if path is None):
        leave_out(f"trying it on Python 3.{minor}: there is none here")
    for is_there, what in ((has_compiler(), NO_COMPILER), (has_engine, NO_ENGINE), (has_key, NO_KEY)):
        if not is_there:
            leave_out(what)
    there = {minor: path for minor, path in found.items() if path is not None}
    if not there:
        raise ReleaseError("there is no Python here to try a release on")
    say(f"tried on Python {', '.join(f'3.{minor}' for minor in there)}")
    return there


def release(source: Source, scratch: Path, interpreters: Mapping[int, Path], *, has_engine: bool) -> Path:
    """Make all of it in a folder of its own, and return that. Raises ReleaseError where anything is not as it must."""
    tree, made = scratch / "commit", scratch / "made"
    made.mkdir()
    files = [path.rename(made / path.name) for path in build(source, scratch)]
    for path in files:
        check_contents(source, path)
        say(f"built twice, the same bytes: {path.name}, {path.stat().st_size // 1024} KiB")
    described = next(path for path in files if not is_sdist(path))
    for path in files:
        for minor, interpreter in interpreters.items():
            environment = scratch / "environment"
            install(path, interpreter, environment)
            try_out(path, environment, source)
            say(f"installed and tried on Python 3.{minor}: {path.name}")
            if path == described and minor == max(interpreters):
                remove_installers(environment)
                write_sbom(environment, tree, made / f"{source.name}-{source.version}{SBOM_SUFFIX}")
                say(f"listed what it needs on Python 3.{minor}: {source.name}-{source.version}{SBOM_SUFFIX}")
            rmtree(environment)
    if has_engine:
        build_images(source, tree, made, scratch, say)
    write_sums(made)
    return made


def put(made: Path, output: Path, stale: Iterable[Path]) -> None:
    """Put what was made in place of an earlier release."""
    output.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.unlink()
    for path in sorted(made.iterdir()):
        move(path, output / path.name)
        say(f"{output / path.name}")


if __name__ == "__main__":
    main()
