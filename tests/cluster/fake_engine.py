"""A container engine that is a script: it has what is in its folder, and says what it was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.cluster.containers_engine import ENGINE_VARIABLE

FAKE = """#!/bin/sh
# Has the containers and networks that are files, and the image "there"; makes one network for each run, not two;
# a container is a client that sleeps, and pauses when it may go on.
cd "$(dirname "$0")"
echo "$*" >> told
case "$*" in
    info) test ! -e refuses || { echo "the engine is ill" >&2; exit 1; } ;;
    "image inspect"*) for last; do :; done; test "$last" = there ;;
    "ps "*) ls containers ;;
    "network ls"*) ls networks ;;
    "run "*) exec sleep 60 ;;
    "inspect "*) echo true ;;
    "pause "*|"unpause "*) touch asked; while ! test -e go; do sleep 0.05; done ;;
    "network create"*-control) echo "no more networks" >&2; exit 1 ;;
    "network create"*) for last; do :; done; touch "networks/$last" ;;
    "rm "*) shift 3; cd containers && rm -- "$@" ;;
    "network rm"*) shift 2; cd networks && rm -- "$@" ;;
esac
"""


class Fake:
    """An engine that is a script; ``told`` is what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "docker"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)
        for name in ("containers", "networks"):
            (folder / name).mkdir()

    @property
    def told(self) -> list[str]:
        return (self.folder / "told").read_text().splitlines()

    def make(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()

    @property
    def left(self) -> list[str]:
        return [path.name for name in ("containers", "networks") for path in sorted((self.folder / name).iterdir())]


def fake_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Make it the only engine of this machine, also for processes that are started."""
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv(ENGINE_VARIABLE, str(folder / "docker"))
    return Fake(folder)
