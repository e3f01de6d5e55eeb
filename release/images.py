"""Builds both container images where an engine answers, names them by the version, and lists what is in them."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

from release.commands import ReleaseError, run
from release.sbom import SBOM_SUFFIX, add_debian_packages, write_sbom
from release.source import Source

IMAGES = ("replica", "nemesis")
"""The targets of the Dockerfile."""
DESCRIPTIONS = "cd /opt/highwater/lib/python3.*/site-packages && tar --create --gzip *.dist-info | base64"
"""What is run in an image: its Python packages' descriptions, packed, as text."""
DPKG_FORMAT = "${Package}\t${Version}\t${Architecture}\n"
IN_IMAGE = ("docker", "run", "--rm", "--network", "none", "--entrypoint")
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
        said = run(*IN_IMAGE, name, image, "--version").strip()
        if said != f"{name}, version {source.version}":
            raise ReleaseError(f"the image {image} says {said!r}")
        target = made / f"{image}-{source.version}{SBOM_SUFFIX}"
        count = list_image(image, tree, scratch / f"of-{name}", target)
        say(f"image {image}:{source.version}: {count} packages of Debian and those of Python in {target.name}")


def list_image(image: str, tree: Path, scratch: Path, target: Path) -> int:
    """List what is in an image, and tell how many packages of Debian.

    Its Python packages are described in an environment of this machine, where they are read and nothing of them is run.
    """
    scratch.mkdir()
    packed = scratch / "packed.tar.gz"
    packed.write_bytes(b64decode(run(*IN_IMAGE, "sh", image, "-c", DESCRIPTIONS)))
    run(sys.executable, "-m", "venv", "--without-pip", scratch / "environment")
    (packages,) = (scratch / "environment").glob("lib/python3.*/site-packages")
    run("tar", "--extract", "--no-same-owner", f"--file={packed}", f"--directory={packages}")
    write_sbom(scratch / "environment", tree, target)
    return add_debian_packages(target, run(*IN_IMAGE, "dpkg-query", image, "--show", f"--showformat={DPKG_FORMAT}"))
