"""Certificates for tests, made by ``replica certs`` as they are needed, and what tells clients and replicas of them."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from replica.cli.certs import certs
from replica.rpc.tls import TlsFiles


def files_of(folder: Path, name: str | None, *, ca: Path | None = None) -> TlsFiles:
    """The files of a name, or of nobody; made if need be."""
    if name is not None and not (folder / f"{name}.pem").exists():
        made = CliRunner().invoke(certs, ["--dir", str(folder), name])
        assert made.exit_code == 0, made.output
    ca_file = ca or folder / "ca.pem"
    if name is None:
        return TlsFiles(ca_file=ca_file)
    return TlsFiles(ca_file=ca_file, cert_file=folder / f"{name}.pem", key_file=folder / f"{name}-key.pem")
