"""A service with an authorizer over TLS, on loopback, and those who call it: by certificates and by tokens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import jwt
import structlog

from replica.core.messages import Request, Response
from replica.core.metadata.acls import Acl, AclTable
from replica.core.metadata.image import MetadataImage, TopicImage
from replica.core.refusals import RESPONSES
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicId
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import GrpcTransport
from replica.server.audit import Audit
from replica.server.authorizer import Authorizer
from replica.server.service import ReplicaService
from replica.server.tokens import TokenFiles, TokenKey
from tests.rpc.certificates import files_of
from tests.server.served import served

ONE = ReplicaId(1)
SECRET = "0123456789abcdef0123456789abcdef"
GROUP, TOPIC = "kv", "orders"


def image_of(*acls: Acl) -> MetadataImage:
    """A cluster with one topic and this access control list."""
    topic = TopicImage(name=TOPIC, topic_id=TopicId(1))
    return MetadataImage(topics={TOPIC: topic}, topic_names={TopicId(1): TOPIC}, acls=frozenset(acls))


def token_of(subject: object, *, expires_in_s: float = 60, key: str = SECRET, **claims: object) -> str:
    """A token that says who somebody is."""
    said = {"sub": subject, "exp": int(time.time() + expires_in_s), **claims}
    return jwt.encode({name: value for name, value in said.items() if value is not None}, key, algorithm="HS256")


def token_files(folder: Path, token: str) -> TlsFiles:
    """Those of a client that has a certificate of its own, and shows a token."""
    path = folder / "token"
    path.write_text(token)
    return replace(files_of(folder, "client"), token_file=path)


def authorizer_of(
    image: Callable[[], MetadataImage],
    *,
    tokens: TokenKey | None = None,
    is_current: Callable[[], bool] = lambda: True,
    super_users: Iterable[str] = (),
    make_table: Callable[[Iterable[Acl]], AclTable] = AclTable,
    seconds: Callable[[], float] = time.monotonic,
    unix_s: Callable[[], float] = time.time,
) -> Authorizer:
    """An authorizer by this image, on a replica that hosts the group."""
    return Authorizer(
        image=image,
        is_current=is_current,
        groups=(GROUP,),
        super_users=tuple(super_users),
        tokens=tokens,
        audit=Audit(structlog.get_logger(), seconds),
        make_table=make_table,
        unix_s=unix_s,
    )


def token_key(folder: Path) -> TokenKey:
    """The key of the tokens."""
    path = folder / "secret"
    path.write_text(SECRET)
    return TokenKey(TokenFiles(secret_file=path))


async def answer_ok(request: Request) -> Response:
    """Answer everything as if it were done."""
    return RESPONSES[type(request)](error=ErrorCode.NONE)


def serving(
    folder: Path,
    authorizer: Authorizer,
    call: Callable[[Request], Awaitable[Response]] = answer_ok,
    *,
    with_client_auth: bool = True,
) -> AbstractAsyncContextManager[str]:
    """Serve as replica 9 does, with its certificate."""
    service = ReplicaService(call=call, addresses={}, logger=structlog.get_logger(), authorizer=authorizer)
    credentials = files_of(folder, "replica-9").server_credentials(with_client_auth=with_client_auth)
    return served(service, credentials=credentials)


@asynccontextmanager
async def calling(address: str, tls: TlsFiles | None) -> AsyncIterator[Callable[[Request], Awaitable[Response]]]:
    """A way to call, on a connection of its own."""
    transport = GrpcTransport(lambda _: address, tls=tls)

    async def call(request: Request) -> Response:
        return await transport.call(ONE, request, 5000)

    try:
        yield call
    finally:
        await transport.close()
