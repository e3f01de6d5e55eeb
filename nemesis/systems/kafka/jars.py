"""The jars of a broker: those of a Kafka that is there already, or what Maven resolves from a ``pom.xml``, once.

Owns the folder where they are kept. ``HIGHWATER_KAFKA_LIBS`` names the ``libs`` folder of an unpacked Kafka instead.
"""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from nemesis.errors import UnsupportedError
from nemesis.systems.programs import full_path

LIBS_VARIABLE = "HIGHWATER_KAFKA_LIBS"
POM = Path(__file__).with_name("pom.xml")
RESOLVED_S_MAX = 600.0
_SAID_MAX = 400


def jars_folder(pom: Path = POM) -> Path:
    """Where the jars that ``pom`` names are, or will be."""
    given = os.environ.get(LIBS_VARIABLE)
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "highwater" / f"kafka-{sha256(pom.read_bytes()).hexdigest()[:12]}"


def check_resolvable(pom: Path = POM) -> None:
    """Look whether the jars are there, or Maven is. Raises UnsupportedError."""
    if any(jars_folder(pom).glob("*.jar")):
        return
    if os.environ.get(LIBS_VARIABLE):
        raise UnsupportedError(f"{LIBS_VARIABLE}: there are no jars in {jars_folder(pom)}")
    full_path("mvn")


def resolve_jars(pom: Path = POM) -> Path:
    """The folder of the jars; Maven is asked for them where there are none. Raises UnsupportedError.

    To be called where the network is that leads to a Maven repository: a cluster of the kind netns has none.
    """
    folder = jars_folder(pom)
    if any(folder.glob("*.jar")):
        return folder
    check_resolvable(pom)
    maven = full_path("mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=".kafka-", dir=folder.parent))
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={unfinished}", "-DincludeScope=runtime")
    command = (maven, "--quiet", "--batch-mode", f"--file={pom}", *goal)
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=RESOLVED_S_MAX, check=True)
        unfinished.rename(folder)
    except subprocess.CalledProcessError as error:
        raise UnsupportedError(f"Maven cannot resolve {pom}: {(error.stdout + error.stderr)[:_SAID_MAX]}") from error
    except subprocess.TimeoutExpired as error:
        raise UnsupportedError(f"Maven has not resolved {pom} within {RESOLVED_S_MAX} s") from error
    except OSError:
        if not folder.is_dir():  # Another run was faster.
            raise
    finally:
        rmtree(unfinished, ignore_errors=True)
    return folder
