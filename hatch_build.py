"""Generates ``replica/v1`` from the ``.proto`` files whenever a wheel or an editable install is built.

Owns how protoc is called; ``make proto`` runs the same function. The compiler is pinned in ``pyproject.toml`` to an old
release on purpose: code that it generates runs on every later grpcio and protobuf, not the other way round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATED_PACKAGE = Path("replica/v1")
_INIT = '"""Generated from the .proto files of replica.v1: import it through ``replica.server.codec`` only."""\n'


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


class ProtobufBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it collects the files of a wheel, standard or editable."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Generate into the source tree; ``artifacts`` in pyproject.toml carries the result into the wheel."""
        generate(Path(self.root))


if __name__ == "__main__":
    generate(Path(__file__).resolve().parent)
