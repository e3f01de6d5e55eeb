"""Tokens: which are believed, by which key, and that nothing of them is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from replica.server.tokens import TokenError, TokenFiles, TokenKey
from tests.server.authorizing import SECRET, token_key, token_of


def public_pem(key: Any) -> bytes:
    """The public half of a key, as PEM."""
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def claims_in(seconds: float = 60) -> dict[str, object]:
    return {"sub": "shop", "exp": time.time() + seconds}


@pytest.mark.parametrize(
    ("make", "algorithm"),
    [
        pytest.param(lambda: rsa.generate_private_key(65537, 2048), "RS256", id="RSA"),
        pytest.param(lambda: ec.generate_private_key(ec.SECP256R1()), "ES256", id="P-256"),
        pytest.param(ed25519.Ed25519PrivateKey.generate, "EdDSA", id="Ed25519"),
    ],
)
def test_who_has_the_private_key_is_believed(make: Callable[[], Any], algorithm: str, tmp_path: Path) -> None:
    """And nobody else of the same kind."""
    key, path = make(), tmp_path / "key.pem"
    path.write_bytes(public_pem(key))
    believed = TokenKey(TokenFiles(public_key_file=path))
    assert believed.claims(jwt.encode(claims_in(), key, algorithm=algorithm)).subject == "shop"
    with pytest.raises(TokenError, match="is not signed with the key"):
        believed.claims(jwt.encode(claims_in(), make(), algorithm=algorithm))


def test_a_public_key_is_no_secret(tmp_path: Path) -> None:
    """Everybody knows it: whoever signs with its text by HMAC, or not at all, is not believed (RFC 8725, 2.1)."""
    path = tmp_path / "key.pem"
    path.write_bytes(public_pem(rsa.generate_private_key(65537, 2048)))
    believed = TokenKey(TokenFiles(public_key_file=path))

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    unsigned = f"{part({'alg': 'none'})}.{part(claims_in())}."
    said = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims_in())}"
    signature = hmac.new(path.read_bytes(), said.encode(), hashlib.sha256).digest()
    forged = f"{said}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    for token in (unsigned, forged):
        with pytest.raises(TokenError, match="another algorithm"):
            believed.claims(token)


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_one_key_has_one_algorithm(algorithm: str, tmp_path: Path) -> None:
    """What a token names does not count."""
    believed = token_key(tmp_path)
    with pytest.raises(TokenError, match="another algorithm"):
        believed.claims(jwt.encode(claims_in(), SECRET * 2, algorithm=algorithm))


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "." * 10, "\u00e9.\u00e9.\u00e9", "a" * 4096])
def test_what_is_no_token_is_not_believed(token: str, tmp_path: Path) -> None:
    """Whatever it is, there is one error, and it says nothing of what was read."""
    with pytest.raises(TokenError) as told:
        token_key(tmp_path).claims(token)
    assert str(told.value) == "the token cannot be read"


@pytest.mark.parametrize("subject", [7, ["shop"], {"a": 1}, True])
def test_a_subject_is_text(subject: object, tmp_path: Path) -> None:
    """Nothing else can be the name of a principal."""
    said = base64.urlsafe_b64encode(json.dumps({"sub": subject, "exp": time.time() + 60}).encode()).rstrip(b"=")
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
    signed = jwt.get_algorithm_by_name("HS256").sign(head + b"." + said, SECRET.encode())
    token = b".".join((head, said, base64.urlsafe_b64encode(signed).rstrip(b"="))).decode()
    with pytest.raises(TokenError):
        token_key(tmp_path).claims(token)


@pytest.mark.parametrize(("audience", "is_believed"), [("highwater", True), ("other", False), (None, False)])
def test_an_audience_is_demanded_where_it_is_named(audience: str | None, is_believed: bool, tmp_path: Path) -> None:
    """A token for another service of the same authority is none for this one."""
    path = tmp_path / "secret"
    path.write_text(SECRET)
    believed = TokenKey(TokenFiles(secret_file=path, audience="highwater"))
    token = token_of("shop", aud=audience)
    if is_believed:
        assert believed.claims(token).subject == "shop"
    else:
        with pytest.raises(TokenError, match=r"the token (is for somebody else|lacks)"):
            believed.claims(token)


def test_a_key_is_renewed_by_replacing_its_file(tmp_path: Path) -> None:
    """A file that is half written, or gone, changes nothing."""
    believed, path = token_key(tmp_path), tmp_path / "secret"
    other = "another-secret-of-32-bytes-or-more"

    def write(content: str) -> None:
        changed_ns = path.stat().st_mtime_ns + 1_000_000
        path.write_text(content)
        os.utime(path, ns=(changed_ns, changed_ns))

    write("short")
    assert believed.claims(token_of("shop")).subject == "shop"
    write(other)
    assert believed.claims(token_of("shop", key=other)).subject == "shop"
    with pytest.raises(TokenError, match="not signed"):
        believed.claims(token_of("shop"))
    path.unlink()
    assert believed.claims(token_of("shop", key=other)).subject == "shop"


def secret_in(path: Path) -> TokenFiles:
    return TokenFiles(secret_file=path)


def public_key_in(path: Path) -> TokenFiles:
    return TokenFiles(public_key_file=path)


@pytest.mark.parametrize(
    ("content", "files_of", "told"),
    [
        (b"short", secret_in, "has 5 bytes; a secret has 32 at least"),
        (b"-----BEGIN PUBLIC KEY-----\ngarbled\n-----END PUBLIC KEY-----", public_key_in, "no public key as PEM"),
        (SECRET.encode(), public_key_in, "no public key as PEM"),
        (public_pem(ec.generate_private_key(ec.SECP384R1())), public_key_in, "is none of"),
        (public_pem(rsa.generate_private_key(65537, 1024)), public_key_in, "is none of"),
        (None, secret_in, "cannot be read"),
    ],
    ids=["a short secret", "a garbled key", "a secret as a key", "P-384", "a short RSA key", "no file"],
)
def test_a_key_that_cannot_be_used_is_named_by_its_file(
    content: bytes | None, files_of: Callable[[Path], TokenFiles], told: str, tmp_path: Path
) -> None:
    """Nothing of what it holds is said."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenError, match=told) as refused:
        TokenKey(files_of(path))
    assert str(path) in str(refused.value)
    assert content is None or content.decode() not in str(refused.value)
