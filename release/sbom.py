"""Lists what an installation consists of, as CycloneDX JSON: of an environment, or of an image.

Owns how cyclonedx-py is called, and what it does not know: the packages of Debian in an image.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from release.commands import ReleaseError, run
from release.source import PROJECT_FILE

SBOM_SUFFIX = ".cdx.json"
SPEC_VERSION = "1.6"


def write_sbom(environment: Path, tree: Path, target: Path) -> None:
    """List the packages of a virtual environment; the project of the source tree is what needs them."""
    run(
        *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--spec-version", SPEC_VERSION),
        *("--pyproject", tree / PROJECT_FILE, "--mc-type", "application", "--output-format", "JSON"),
        *("--output-file", target, environment / "bin" / "python"),
    )


def add_debian_packages(target: Path, listed: str) -> int:
    """Add to a list what dpkg-query has printed: name, version, architecture, with tabs between them; tell how many.

    Raises ReleaseError if what results is not what CycloneDX's schema asks for.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    described: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    packages = list(debian_components(listed.splitlines()))
    described["components"] = [*described.get("components", []), *packages]
    text = json.dumps(described, indent=2, sort_keys=True) + "\n"
    fault = JsonStrictValidator(SchemaVersion.from_version(SPEC_VERSION)).validate_str(text)
    if fault is not None:
        raise ReleaseError(f"{target.name} is not as CycloneDX wants it: {fault}")
    target.write_text(text, encoding="utf-8")
    return len(packages)


def debian_components(lines: Iterable[str]) -> Iterable[dict[str, str]]:
    """The components for lines of dpkg-query."""
    for line in lines:
        name, version, architecture = line.split("\t")
        purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={architecture}"
        yield {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
