"""``replica certs``: an authority of one's own, and certificates that it signs, to try TLS with.

Owns the files' names and what the certificates say. Where certificates matter, an authority that is kept elsewhere
signs them: whoever reads ``ca-key.pem`` can be anybody. Source: RFC 5280, by ``cryptography``.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replica.cli.help import example

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_CA = "ca"
_CLOCKS_DIFFER = datetime.timedelta(minutes=5)


@click.command(epilog=example("replica certs --dir tls replica-1 replica-2 replica-3 client"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--dir", "folder", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where to.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1"),
    show_default=True,
    help="A name or IP address by which they are dialled; several.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="How long they are valid.")
def certs(names: tuple[str, ...], folder: Path, hosts: tuple[str, ...], days: int) -> None:
    """Make NAME.pem and NAME-key.pem for each NAME, signed by ca.pem, for development.

    The authority is made where there is none. What there is of a NAME is replaced: so it is renewed, and replicas and
    clients take it up with their next connections.

    Where replicas run with --authorizer acl, the NAME of the certificate of replica 1 is replica-1, and whoever has it
    can speak for that replica and no other. Any other NAME is a client's, User:NAME in `replica acl`.
    """
    for path in make_certificates(folder, names, hosts, days):
        click.echo(path)


def make_certificates(folder: Path, names: Sequence[str], hosts: Sequence[str], days: int) -> Iterator[Path]:
    """Make or replace the certificate and the key of each name, one after the other; the path of each certificate.

    Raises ClickException.
    """
    try:
        from cryptography import x509
    except ImportError as error:
        raise click.ClickException("certificates are made by a library that is not installed: cryptography") from error

    if unfit := [name for name in names if _is_unfit(name)]:
        raise click.UsageError(f"{unfit[0]!r} cannot be the name of a certificate's file, as one folder holds them all")
    folder.mkdir(parents=True, exist_ok=True)
    authority = _authority(folder, days)
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    for name in names:
        certificate, key = _signed(name, days, authority, alternatives)
        _store(folder, name, certificate, key)
        yield folder / f"{name}.pem"


def _is_unfit(name: str) -> bool:
    """Whether the files of this name are the authority's, another name's key, or not in the folder at all."""
    return name == _CA or name.endswith("-key") or name.startswith(".") or Path(name).name != name


def _authority(folder: Path, days: int) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """The one of this folder, made if need be."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificate_file, key_file = folder / f"{_CA}.pem", folder / f"{_CA}-key.pem"
    if not certificate_file.exists() and not key_file.exists():
        made = _signed("Highwater development authority", max(days, 3650), None, None)
        _store(folder, _CA, *made)
        return made
    try:
        key = load_pem_private_key(key_file.read_bytes(), password=None)
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise click.ClickException(
            f"{folder} has no authority that can be used ({error}); name another --dir"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise click.ClickException(f"{key_file} was not made by this command; name another --dir")
    return certificate, key


def _signed(
    name: str,
    days: int,
    authority: tuple[x509.Certificate, EllipticCurvePrivateKey] | None,
    alternatives: x509.SubjectAlternativeName | None,
) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """A certificate with a new key; an authority signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    unsigned = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
    )
    signer = key if authority is None else authority[1]
    # By these one authority is told from the next of the same name, while both are believed.
    for identifier in (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    ):
        unsigned = unsigned.add_extension(identifier, critical=False)
    if alternatives is not None:
        unsigned = unsigned.add_extension(alternatives, critical=False)
    return unsigned.sign(signer, SHA256()), key


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _store(folder: Path, name: str, certificate: x509.Certificate, key: EllipticCurvePrivateKey) -> None:
    """Replace both files, each at once; only their owner may read the key."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, content in (
        (folder / f"{name}-key.pem", key_pem),
        (folder / f"{name}.pem", certificate.public_bytes(Encoding.PEM)),
    ):
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        os.replace(new, path)
