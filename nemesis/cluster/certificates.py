"""The certificates of a cluster whose replicas and clients know each other by them, and how they are renewed.

Owns who has which files. An authority signs them as ``replica certs`` does, and each replica and the clients have
theirs in a folder of their own, as on machines of their own. They are renewed as an operator does it, and nothing is
restarted: a new authority is believed beside the old one, everybody gets a certificate of the new one, and at last the
old one is believed no more. A file is replaced at once, and a key before its certificate.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from nemesis.cluster.host import Host
from nemesis.cluster.off_loop import off_loop
from nemesis.cluster.topic_client import named
from nemesis.faults.links import CLIENTS, CONTROL
from replica.cli.certs import make_certificates
from replica.core.metadata.acls import Acl, Operation, PatternType, Permission, ResourceType
from replica.rpc.tls import TlsFiles

WORKLOAD, OPERATOR = "workload", "operator"
"""Who clients are: those of the workload may do what it needs, the harness is a super user."""
DAYS = 2
SHOWN_S_MAX = 5.0
_CA = "ca.pem"


class ReplicaCertificates:
    """The ``SystemCertificates`` of replicas on a ``host``, which is open when they are issued; or none at all."""

    def __init__(self, host: Host, *, wanted: bool) -> None:
        self._host = host
        self._wanted = wanted
        self._issued = 0

    def issue(self) -> None:
        """Make everybody's first certificates."""
        if self._wanted:
            self._distribute(self._new_authority())

    def environment(self, node: int) -> Mapping[str, str]:
        """How a replica is told of its own."""
        if not self._wanted:
            return {}
        files = _files_in(self._host.inside(node) / "tls", _named(node))
        return {
            f"REPLICA_TLS_{name.upper()}": str(getattr(files, name)) for name in ("ca_file", "cert_file", "key_file")
        }

    @property
    def arguments(self) -> Sequence[str]:
        """The options of ``replica start``: who may do nothing is refused, but for the harness."""
        return ("--authorizer", "acl", "--super-user", f"User:{OPERATOR}") if self._wanted else ()

    def client(self, name: str) -> TlsFiles | None:
        """The files of a client; absent where nobody needs any."""
        return _files_in(self._clients, name) if self._wanted else None

    async def renew(self) -> None:
        """Let everybody believe a new authority beside the old one, and then show a certificate of the new one."""
        await off_loop(self._renew)

    async def forget(self) -> None:
        await off_loop(self._believe, self._authority)

    async def shown(self, nodes: Iterable[int]) -> Mapping[int, bool]:
        """Whether each of these nodes shows its newest certificate to whoever dials it; those that answer."""
        where, asked = self._host.addresses(CONTROL), tuple(nodes)
        found = await asyncio.gather(*(self._shown(where[node]) for node in asked))
        newest = {node: _der(self._authority / f"{_named(node)}.pem") for node in asked}
        return {node: one == newest[node] for node, one in zip(asked, found, strict=True) if one is not None}

    async def _shown(self, address: str) -> bytes | None:
        """The certificate of whoever is there; absent if nobody answers."""
        files = _files_in(self._clients, OPERATOR)
        context = ssl.create_default_context()
        # It is compared with the one that should be there, whoever has signed it.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(str(files.cert_file), str(files.key_file))
        context.set_alpn_protocols(["h2"])
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(SHOWN_S_MAX):
                _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        except OSError:  # TimeoutError and SSLError among them.
            return None
        try:
            shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return shown
        finally:
            writer.transport.abort()

    # --- files --------------------------------------------------------------------------------------------------------

    @property
    def _clients(self) -> Path:
        return self._host.folder(self._host.nodes[0]).parent / "clients"

    @property
    def _authority(self) -> Path:
        """The folder of the newest one; the others have lower numbers."""
        return self._host.folder(self._host.nodes[0]).parent / f"authority-{self._issued}"

    @property
    def _holders(self) -> Mapping[str, Path]:
        """Where everybody's files are, by the name of the certificate."""
        replicas = {_named(node): self._host.folder(node) / "tls" for node in self._host.nodes}
        return {**replicas, **dict.fromkeys((WORKLOAD, OPERATOR), self._clients)}

    def _renew(self) -> None:
        old = self._authority
        new = self._new_authority()
        self._believe(new, old)
        self._distribute(new, old)

    def _new_authority(self) -> Path:
        """Make one, with certificates for everybody, which nobody has yet."""
        self._issued += 1
        addresses = [*self._host.addresses(CONTROL).values(), *self._host.addresses(CLIENTS).values()]
        addresses += [address for node in self._host.nodes for address in self._host.addresses(node).values()]
        hosts = sorted({address.rpartition(":")[0] for address in addresses})
        for _ in make_certificates(self._authority, list(self._holders), hosts, DAYS):
            pass
        return self._authority

    def _distribute(self, authority: Path, *others: Path) -> None:
        self._believe(authority, *others)
        for name, folder in self._holders.items():
            for file in (f"{name}-key.pem", f"{name}.pem"):
                _replace(folder / file, (authority / file).read_bytes())

    def _believe(self, *authorities: Path) -> None:
        believed = b"".join((authority / _CA).read_bytes() for authority in authorities)
        for folder in self._holders.values():
            folder.mkdir(exist_ok=True)
            _replace(folder / _CA, believed)


def needed_acls(topics: Iterable[str], logs: Iterable[str]) -> Iterator[Acl]:
    """What the workload's clients must be let do, with topics and with the logs of groups: to write, and to read."""
    of_groups = ((ResourceType.GROUP, named(log).topic) for log in logs)
    for resource_type, name in (*((ResourceType.TOPIC, topic) for topic in topics), *of_groups):
        for operation in (Operation.READ, Operation.WRITE):
            yield Acl(
                principal=f"User:{WORKLOAD}",
                permission=Permission.ALLOW,
                operation=operation,
                resource_type=resource_type,
                pattern_type=PatternType.LITERAL,
                name=name,
            )


def _named(node: int) -> str:
    return f"replica-{node}"


def _files_in(folder: Path, name: str) -> TlsFiles:
    return TlsFiles(ca_file=folder / _CA, cert_file=folder / f"{name}.pem", key_file=folder / f"{name}-key.pem")


def _der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text(encoding="ascii"))


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.chmod(0o600)
    os.replace(new, path)
