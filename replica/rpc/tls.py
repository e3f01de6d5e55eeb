"""TLS: who one side of a connection is, and whom it believes to be the other.

Owns the files and when they are read: a server looks at them for each connection that comes in, and whoever dials for
each dial, so that a certificate is renewed by replacing files. Connections that there are go on. Files that a server
cannot read any more, or that do not fit together, change nothing: those that it had stay. A token, which a client may
show besides, is looked at for each call. Knows nothing of who may do what. Source: gRPC's authentication guide; RFC
6750, RFC 8446.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

AUTHORIZATION_KEY = "authorization"
"""The metadata of a call that holds a token, behind ``BEARER``."""
BEARER = "Bearer "
TOKEN_BYTES_MAX = 4096
"""gRPC takes 8 KiB of metadata with a call."""


class TlsError(Exception):
    """The files cannot be used; the message names the file and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. ``ca_file`` holds the certificates of those whose signature is believed.

    ``cert_file`` and ``key_file`` say who this side is: a server must, a client where the server asks for it. The token
    in ``token_file`` says who a client is in their place; there is none without TLS, for whoever reads it can be him.
    """

    ca_file: Path
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None

    def check(self) -> None:
        """Raise TlsError unless all files can be read, and the key is the certificate's."""
        if self.token_file is not None:
            Token(self.token_file)
        if (self.cert_file is None) != (self.key_file is None):
            raise TlsError("a certificate and its key go together: give both files, or neither")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"{self.ca_file} has no certificates that can be read: {error}") from error
        if self.cert_file is None or self.key_file is None:
            return
        try:
            context.load_cert_chain(self.cert_file, self.key_file, password=_refuse_password)
        except (OSError, ssl.SSLError) as error:
            why = f"{self.cert_file} and {self.key_file} are not a certificate and its key"
            raise TlsError(f"{why}, each as PEM, the key not encrypted: {error}") from error

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """What to dial with, as the files are now; raises TlsError."""
        self.check()
        return grpc.ssl_channel_credentials(self.ca_file.read_bytes(), *self._key_and_cert())

    def server_credentials(self, *, with_client_auth: bool) -> grpc.ServerCredentials:
        """What to serve with; ``with_client_auth`` lets only those in who have a certificate that is believed.

        Raises TlsError.
        """
        fetch: Any = _Renewed(self).fetch  # Its stub does not know that None is an answer.
        return grpc.dynamic_ssl_server_credentials(
            self.server_configuration(), fetch, require_client_authentication=with_client_auth
        )

    def changed_at_ns(self) -> tuple[int, ...]:
        """When each of them was last written."""
        return tuple(path.stat().st_mtime_ns for path in (self.ca_file, self.cert_file, self.key_file) if path)

    def server_configuration(self) -> grpc.ServerCertificateConfiguration:
        """What the files say now; raises TlsError."""
        self.check()
        key, certificate = self._key_and_cert()
        if key is None or certificate is None:
            raise TlsError("a replica must say who it is: give --tls-cert-file and --tls-key-file")
        return grpc.ssl_server_certificate_configuration([(key, certificate)], self.ca_file.read_bytes())

    def _key_and_cert(self) -> tuple[bytes | None, bytes | None]:
        if self.key_file is None or self.cert_file is None:
            return None, None
        return self.key_file.read_bytes(), self.cert_file.read_bytes()


class _Renewed:
    """Tells gRPC, before each handshake, of files that have changed since."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._known = files.changed_at_ns()

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """The files if they are others than before; None leaves it at those that there are."""
        try:
            found = self._files.changed_at_ns()
            if found == self._known:
                return None
            configuration = self._files.server_configuration()
        except (OSError, TlsError):  # They are being replaced; the next connection looks again.
            return None
        self._known = found
        return configuration


class Token:
    """What a file says of who a client is, and says anew when it is replaced. It is never told in an error.

    A file that cannot be read any more changes nothing. Raises TlsError where there is no token to begin with.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._changed_at_ns = path.stat().st_mtime_ns
            self._token = _token_of(path)
        except (OSError, ValueError) as error:
            raise TlsError(f"{path} has no token that can be read: {_why(error)}") from None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call says of its caller, as the file is now."""
        try:
            changed_at_ns = self._path.stat().st_mtime_ns
            if changed_at_ns != self._changed_at_ns:
                self._token, self._changed_at_ns = _token_of(self._path), changed_at_ns
        except (OSError, ValueError):
            pass  # It is being replaced; the next call looks again.
        return ((AUTHORIZATION_KEY, f"{BEARER}{self._token}"),)


def _token_of(path: Path) -> str:
    token = path.read_text(encoding="ascii").strip()
    if not 0 < len(token) <= TOKEN_BYTES_MAX or not token.isprintable() or " " in token:
        raise ValueError(f"a token has 1 to {TOKEN_BYTES_MAX} characters, and no blanks in it")
    return token


def _why(error: Exception) -> str:
    """What is wrong, without anything of what was read: an error of an encoding would quote it."""
    return "it is not ASCII" if isinstance(error, UnicodeDecodeError) else str(error)


def _refuse_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise TlsError("the key is encrypted, and nobody is there to give its password")
