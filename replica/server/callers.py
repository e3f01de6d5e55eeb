"""Who calls: a principal, by a token or a certificate, and of a replica's certificate which replica it speaks for.

Owns how names are read. A token counts for more than a certificate, which a client may need to be let in at all; who
shows neither is ``User:ANONYMOUS``. A certificate is known by its common name; that of replica 1 is ``replica-1``.
Whether a certificate is believed gRPC has decided when it comes here. Source: Kafka's ``KafkaPrincipal``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc.aio

from replica.bounds import INT32_MAX, TEXT_BYTES_MAX
from replica.core.metadata.acls import PRINCIPAL_TYPE
from replica.ids import ReplicaId
from replica.rpc.tls import AUTHORIZATION_KEY, BEARER, TOKEN_BYTES_MAX
from replica.server.tokens import TokenClaims, TokenError

ANONYMOUS = f"{PRINCIPAL_TYPE}ANONYMOUS"
_COMMON_NAME = "x509_common_name"
_OF_REPLICA = re.compile(r"replica-(0|[1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is at the other end of a stream. A token's ``expires_at_s`` is in seconds since 1970."""

    principal: str
    address: str
    replica_id: ReplicaId | None = None
    expires_at_s: float | None = None


def caller_of(context: grpc.aio.ServicerContext[Any, Any], claims_of: Callable[[str], TokenClaims] | None) -> Caller:
    """Who has begun a stream. Raises TokenError for a token that is not believed, or that nobody here can judge."""
    address = context.peer()
    token = _token_in(context.invocation_metadata() or ())
    if token is None:
        return by_certificate(context)
    if claims_of is None:
        raise TokenError("this replica was started without a key for tokens")
    claims = claims_of(token)
    if not 0 < len(claims.subject.encode()) <= TEXT_BYTES_MAX - len(PRINCIPAL_TYPE):
        raise TokenError("the subject of the token is empty, or too long")
    principal = f"{PRINCIPAL_TYPE}{claims.subject}"
    return Caller(principal=principal, address=address, expires_at_s=claims.expires_at_s)


def _token_in(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """What the metadata of a call has of a token. Raises TokenError for what is there and is none."""
    found = [value for key, value in metadata if key == AUTHORIZATION_KEY]
    if not found:
        return None
    (first, *others) = found
    if others or not isinstance(first, str) or not first.startswith(BEARER) or len(first) > TOKEN_BYTES_MAX:
        raise TokenError(f"{AUTHORIZATION_KEY} is not one {BEARER.strip()} and one token")
    return first.removeprefix(BEARER)


def by_certificate(context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
    """Who has begun a stream, as far as certificates tell."""
    properties: Mapping[str, Iterable[bytes]] = context.auth_context()
    address, names = context.peer(), tuple(properties.get(_COMMON_NAME, ()))
    try:
        (name,) = (each.decode() for each in names)
    except ValueError:  # None, several, or no UTF-8: nobody that could be named.
        return Caller(principal=ANONYMOUS, address=address)
    if not name:
        return Caller(principal=ANONYMOUS, address=address)
    return Caller(principal=f"{PRINCIPAL_TYPE}{name}", address=address, replica_id=replica_named(name))


def replica_named(common_name: str) -> ReplicaId | None:
    """The replica that a certificate of this common name speaks for; None for that of anybody else."""
    matched = _OF_REPLICA.fullmatch(common_name)
    number = None if matched is None else int(matched[1])
    return ReplicaId(number) if number is not None and number <= INT32_MAX else None
