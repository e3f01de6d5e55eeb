"""Tokens of clients: JSON Web Tokens, signed with a secret that both sides know, or by who has a private key.

Owns which tokens are believed: those that are signed with the one algorithm that fits the key (never the one that the
token names), have a subject, and have not expired. Says why another is not without repeating anything of it. The key is
read again when its file changes; one that cannot be used then changes nothing. Source: RFC 7519, RFC 8725, ``PyJWT``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SECRET_BYTES_MIN = 32
"""As many as the hash has (RFC 7518, section 3.2)."""
LEEWAY_S = 5
"""By how much clocks may differ."""


class TokenError(Exception):
    """A token that is not believed, or a key that cannot be used; the message says why, and nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    """Who somebody is by a token, and until when, in seconds since 1970."""

    subject: str
    expires_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles:
    """One of the two: a secret, or a public key as PEM. ``audience`` is whom tokens must be for, where it is given."""

    secret_file: Path | None = None
    public_key_file: Path | None = None
    audience: str | None = None


class TokenKey:
    """The key of a file. Raises TokenError where there is none to begin with."""

    def __init__(self, files: TokenFiles) -> None:
        path = files.secret_file or files.public_key_file
        assert path is not None, files
        self._path = path
        self._files = files
        if find_spec("jwt") is None:
            raise TokenError("tokens are read by a library that is not installed: pip install 'highwater-log[tokens]'")
        try:
            self._changed_at_ns = path.stat().st_mtime_ns
            self._key, self._algorithm = _key_of(files)
        except OSError as error:
            raise TokenError(f"{path} cannot be read: {error.strerror}") from None

    def claims(self, token: str) -> TokenClaims:
        """What a token says of its bearer. Raises TokenError."""
        import jwt

        self._renew()
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[self._algorithm],
                audience=self._files.audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise TokenError(_told(error)) from None
        return TokenClaims(subject=claims["sub"], expires_at_s=float(claims["exp"]) + LEEWAY_S)

    def _renew(self) -> None:
        try:
            changed_at_ns = self._path.stat().st_mtime_ns
            if changed_at_ns != self._changed_at_ns:
                self._key, self._algorithm = _key_of(self._files)
                self._changed_at_ns = changed_at_ns
        except (OSError, TokenError):
            pass  # It is being replaced; the next token looks again.


def _told(error: Exception) -> str:
    """Why a token is not believed: what kind of error it is. Its text may quote the token."""
    import jwt

    sentences: dict[type[Exception], str] = {
        jwt.ExpiredSignatureError: "the token has expired",
        jwt.ImmatureSignatureError: "the token is not valid yet",
        jwt.InvalidAudienceError: "the token is for somebody else",
        jwt.MissingRequiredClaimError: "the token lacks exp or sub, or aud where --token-audience wants it",
        jwt.InvalidAlgorithmError: "the token is signed with another algorithm than the key's",
        jwt.InvalidSignatureError: "the token is not signed with the key",
    }
    return sentences.get(type(error), "the token cannot be read")


def _key_of(files: TokenFiles) -> tuple[Any, str]:
    """The key, and the algorithm of its signatures. Raises TokenError, OSError."""
    if files.secret_file is not None:
        secret = files.secret_file.read_bytes().strip()
        if len(secret) < SECRET_BYTES_MIN:
            raise TokenError(f"{files.secret_file} has {len(secret)} bytes; a secret has {SECRET_BYTES_MIN} at least")
        return secret, "HS256"
    assert files.public_key_file is not None, files
    return _public_key_of(files.public_key_file)


def _public_key_of(path: Path) -> tuple[Any, str]:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except ValueError:
        raise TokenError(f"{path} is no public key as PEM") from None
    match key:
        case RSAPublicKey() if key.key_size >= 2048:
            return key, "RS256"
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return key, "ES256"
        case Ed25519PublicKey():
            return key, "EdDSA"
        case _:
            raise TokenError(f"{path} is none of an RSA key of 2048 bits or more, a P-256 key and an Ed25519 key")
