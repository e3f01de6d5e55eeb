"""Generates ``replica/v1`` and compiles what is in C whenever a wheel or an editable install is built.

Owns how protoc is called; ``make proto`` runs the same function. The compiler is pinned in ``pyproject.toml`` to an old
release on purpose: code that it generates runs on every later grpcio and protobuf, not the other way round.

Owns how the C compiler is called as well. Both libraries are optional: where there is no compiler, or it fails, or
``HIGHWATER_PURE=1`` forbids it, the wheel is one for every platform, and all works without.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATED_PACKAGE = Path("replica/v1")
ACCELERATOR = Path("nemesis/linearizability/native/register_search.so")
RECORDS_WALK = Path("replica/records/native/walk.so")
LIBRARIES = {ACCELERATOR: "The register search", RECORDS_WALK: "What walks over, encodes and decodes records"}
"""What is compiled, each from all ``.c`` beside it, and what it is called where Python has to do its work."""
PURE = "HIGHWATER_PURE"
COMPILE_TIMEOUT_S = 120
_INIT = '"""Generated from the .proto files of replica.v1: import it through ``replica.rpc.codec`` only."""\n'


def generate(root: Path) -> None:
    """Translate ``proto/replica/v1/*.proto`` below ``root`` into modules and type stubs in ``replica/v1``.

    Raises RuntimeError if protoc refuses a file; it has then said why on stderr.
    """
    from grpc_tools import protoc  # slow to import, and needed here alone

    proto = root / "proto"
    sources = sorted(str(path.relative_to(proto)) for path in (proto / GENERATED_PACKAGE).glob("*.proto"))
    if not sources:
        raise RuntimeError(f"no .proto files in {proto / GENERATED_PACKAGE}; the source tree is incomplete")
    target = root / GENERATED_PACKAGE
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob("*_pb2.py*"):
        stale.unlink()
    status = protoc.main(["protoc", f"-I{proto}", f"--python_out={root}", f"--pyi_out={root}", *sources])
    if status != 0:
        raise RuntimeError(f"protoc ended with status {status} on {', '.join(sources)}")
    (target / "__init__.py").write_text(_INIT, encoding="utf-8")


def compile_library(root: Path, library: Path, target: Path) -> str | None:
    """Compile a library of the source tree ``root`` to the file ``target``; why not, if that does not work.

    ``target`` is replaced at once, so that a process that has loaded the old one keeps it. The compiler is ``cc``, or
    what the environment variable ``CC`` names.
    """
    if os.environ.get(PURE, "0") not in {"", "0"}:
        return f"{PURE} forbids it"
    sources = sorted(map(str, (root / library).parent.glob("*.c")))
    fresh = target.with_suffix(".new.so")
    options = ["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", str(fresh), *sources]
    try:
        compiler = shlex.split(os.environ.get("CC") or "cc")
        subprocess.run([*compiler, *options], check=True, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
        fresh.replace(target)
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[0]} ended with status {error.returncode}: {error.stderr.strip()}"
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        fresh.unlink(missing_ok=True)
    return None


def platform_tag() -> str:
    """The wheel tag of what ``cc`` compiles here: for every Python 3 of this platform, as it uses no Python."""
    name = sysconfig.get_platform()
    if sys.platform == "darwin":  # a Python for several processors, and a library for this one
        name = f"{name.rsplit('-', 1)[0]}-{platform.machine()}"
    return f"py3-none-{name.replace('-', '_').replace('.', '_')}"


class SourceBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it collects the files of a wheel, standard or editable."""

    PLUGIN_NAME = "custom"
    _scratch: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate into the source tree; ``artifacts`` in pyproject.toml carries the result into the wheel.

        The libraries of an editable install stand in the source tree, where none is left that is forbidden or does not
        compile. Those of a wheel are compiled for that wheel, and the ones in the source tree stay out of it.
        """
        root = Path(self.root)
        generate(root)
        if version == "editable":
            for library in LIBRARIES:
                self._compile(root, library, root / library)
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="highwater-")
        for library in LIBRARIES:
            target = Path(self._scratch.name) / library.name
            if self._compile(root, library, target):
                build_data["force_include"][str(target)] = str(library)
                build_data["pure_python"] = False
                build_data["tag"] = platform_tag()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled for a wheel that has it now; hatchling's signature."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def _compile(self, root: Path, library: Path, target: Path) -> bool:
        refusal = compile_library(root, library, target)
        if refusal is not None:
            target.unlink(missing_ok=True)
            self.app.display_warning(f"{LIBRARIES[library]} is not compiled, Python does its work: {refusal}")
        return refusal is None


if __name__ == "__main__":
    generate(Path(__file__).resolve().parent)
