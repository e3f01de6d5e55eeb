"""Builds both container images where an engine answers, names them by the version, and lists what is in them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from release.commands import ReleaseError, run
from release.sbom import SBOM_SUFFIX, add_debian_packages, write_sbom
from release.source import Source

IMAGES = ("replica", "nemesis")
"""The targets of the Dockerfile."""
PACKAGES_IN_IMAGE = "/opt/highwater/lib"
DPKG_FORMAT = "${Package}\t${Version}\t${Architecture}\n"
ENGINE_TIMEOUT_S = 30


def engine_answers() -> bool:
    """Whether containers can be had here."""
    try:
        subprocess.run(["docker", "info"], capture_output=True, check=True, timeout=ENGINE_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def build_images(source: Source, tree: Path, made: Path, scratch: Path, say: Callable[[str], None]) -> None:
    """Build the images of the source tree, and put the list of what is in each into ``made``."""
    run(tree / ".ci" / "images", "build", cwd=tree)
    if not os.environ.get("BASE"):
        say("the images are for this machine: with BASE=IMAGE they are for others")
    for name in IMAGES:
        image = f"highwater-{name}"
        run("docker", "tag", image, f"{image}:{source.version}")
        said = run("docker", "run", "--rm", "--entrypoint", name, image, "--version").strip()
        if said != f"{name}, version {source.version}":
            raise ReleaseError(f"the image {image} says {said!r}")
        target = made / f"{image}-{source.version}{SBOM_SUFFIX}"
        count = list_image(image, tree, scratch / f"of-{name}", target)
        say(f"image {image}:{source.version}: {count} packages of Debian and those of Python in {target.name}")


def list_image(image: str, tree: Path, scratch: Path, target: Path) -> int:
    """List what is in an image, and tell how many packages of Debian. Its Python packages are read here, not run."""
    scratch.mkdir()
    container = run("docker", "create", image).strip()
    try:
        run("docker", "cp", f"{container}:{PACKAGES_IN_IMAGE}", scratch / "copied")
    finally:
        run("docker", "rm", container)
    run(sys.executable, "-m", "venv", "--without-pip", scratch / "environment")
    (own,) = (scratch / "environment").glob("lib/python3.*/site-packages")
    (copied,) = (scratch / "copied").glob("python3.*/site-packages")
    own.rmdir()
    copied.rename(own)
    write_sbom(scratch / "environment", tree, target)
    query = run("docker", "run", "--rm", "--entrypoint", "dpkg-query", image, "--show", f"--showformat={DPKG_FORMAT}")
    return add_debian_packages(target, query)
