"""The authorizer: what it lets pass, what it says to whom it does not, and what it writes down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from replica.core import messages as m
from replica.core.messages import Request, Response
from replica.core.metadata.acls import AclTable, Operation, ResourceType
from replica.core.metadata.image import MetadataImage, TopicImage
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicId, TopicPartition
from replica.rpc.transport import DeniedError
from replica.server.authorizer import REMEMBERED_MAX, RESOURCES_BYTES_MAX, Authorizer
from replica.server.callers import ANONYMOUS, Caller, replica_named
from replica.server.refusal_lines import LINES_PER_SECOND_MAX
from tests.core.metadata.test_acls import entry
from tests.rpc.certificates import files_of
from tests.server.authorizing import (
    GROUP,
    TOPIC,
    answer_ok,
    authorizer_of,
    calling,
    image_of,
    serving,
    token_files,
    token_key,
    token_of,
)

ONE = ReplicaId(1)
ORDERS, OTHER = TopicPartition(TOPIC, 0), TopicPartition("other", 0)
WRITE = m.ProduceRequest(topic_partition=ORDERS, acks=-1, timeout_ms=1, records=b"x")
SHOP = Caller(principal="User:shop", address="ipv4:10.0.0.1:5")


class Image:
    """An image that tests replace."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    def __call__(self) -> MetadataImage:
        return self.image


def fetch_of(*logs: TopicPartition) -> m.FetchRequest:
    parts = tuple(m.FetchPartition(topic_partition=log, fetch_offset=Offset(0), max_bytes=1) for log in logs)
    return m.FetchRequest(partitions=parts, max_wait_ms=500)


async def error_of(authorizer: Authorizer, request: Request, caller: Caller = SHOP) -> ErrorCode:
    """What a caller is answered."""
    return (await authorizer.answer(request, caller, answer_ok)).error


async def test_entries_count_from_the_next_call_on() -> None:
    """An entry that comes allows, one that goes does so no more, and one that denies counts for more."""
    image = Image(image_of())
    authorizer = authorizer_of(image)
    allowed, denied = entry("allow User:shop write topic orders"), entry("deny User:shop write topic *")
    found = []
    for acls in ((), (allowed,), (allowed, denied), (denied,), (allowed,)):
        image.image = replace(image.image, acls=frozenset(acls))
        found.append(await error_of(authorizer, WRITE))
    failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert found == [failed, ErrorCode.NONE, failed, failed, ErrorCode.NONE]


async def test_what_was_decided_is_not_decided_again() -> None:
    """Other calls of a kind look into no entry, also when the cluster changes otherwise; what is kept is bounded."""
    image = Image(image_of(entry("allow User:shop write topic orders")))
    decided: list[str] = []

    class Counted(AclTable):
        def allows(self, principal: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
            decided.append(name)
            return super().allows(principal, operation, resource_type, name)

    authorizer = authorizer_of(image, make_table=Counted)
    for number in range(3):
        image.image = replace(image.image, next_producer_id=number)
        assert await error_of(authorizer, WRITE) is ErrorCode.NONE
    assert decided == [TOPIC]
    image.image = replace(image.image, acls=frozenset())
    assert await error_of(authorizer, WRITE) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert decided == [TOPIC, TOPIC]
    for number in range(REMEMBERED_MAX + 10):
        assert not authorizer.allows("User:shop", Operation.READ, ResourceType.TOPIC, f"topic-{number}")
        assert len(authorizer._remembered) <= REMEMBERED_MAX


async def test_a_replica_that_knows_no_list_yet_denies_nothing_for_good() -> None:
    """A client asks another one, or again, instead of telling its user that it may not."""
    is_current = False
    authorizer = authorizer_of(image_of, is_current=lambda: is_current)
    described = m.DescribeClusterRequest(topics=(TOPIC,))
    for request in (WRITE, described):
        assert await error_of(authorizer, request) is ErrorCode.BROKER_NOT_AVAILABLE
    refused = await authorizer.answer(WRITE, SHOP, answer_ok)
    assert isinstance(refused, m.ProduceResponse)
    assert refused.not_appended
    is_current = True
    assert await error_of(authorizer, WRITE) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_super_users_may_do_everything_but_speak_for_a_replica() -> None:
    """No entry is needed, and none takes it away."""
    admin = Caller(principal="User:admin", address="a:1")
    authorizer = authorizer_of(lambda: image_of(entry("deny User:* all topic *")), super_users=("User:admin",))
    assert await error_of(authorizer, WRITE, admin) is ErrorCode.NONE
    assert await error_of(authorizer, m.CreateAclsRequest(acls=()), admin) is ErrorCode.NONE
    assert await error_of(authorizer, WRITE) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    question = m.ReadIndexRequest(topic_partition=METADATA_LOG, replica_id=ONE, current_leader_epoch=Epoch(1))
    assert authorizer.why_not_replica(question, admin) is not None


@pytest.mark.parametrize(
    ("log", "right"),
    [
        (TopicPartition(TOPIC, 0), "topic orders"),
        (TopicPartition(GROUP, 0), "group kv"),
        (METADATA_LOG, "cluster cluster"),
        (TopicPartition("nowhere", 0), "group nowhere"),
    ],
)
async def test_a_log_is_what_has_its_name(log: TopicPartition, right: str) -> None:
    """Whoever may look into topics does not by that look into the cluster's metadata, or into groups."""
    kind = right.partition(" ")[0]
    dump = m.DumpLogRequest(topic_partition=log, offset=Offset(0), max_bytes=1)
    for allowed in ("topic *", "group *", "cluster cluster"):
        acl = entry(f"allow User:shop read {allowed}")
        expected = ErrorCode.NONE if allowed.startswith(kind) else ErrorCode(f"{kind.upper()}_AUTHORIZATION_FAILED")
        assert await error_of(authorizer_of(lambda acl=acl: image_of(acl)), dump) is expected  # type: ignore[misc]


async def test_of_a_fetch_what_may_be_read_is_read() -> None:
    """At once, and in the order of the request, with an error for each log that may not be."""
    asked: list[Request] = []

    async def read(request: Request) -> Response:
        assert isinstance(request, m.FetchRequest)
        asked.append(request)
        names = [part.topic_partition for part in request.partitions]
        return m.FetchResponse(
            partitions=tuple(m.FetchedPartition(topic_partition=name, error=ErrorCode.NONE) for name in names)
        )

    authorizer = authorizer_of(lambda: image_of(entry("allow User:shop read topic orders")))
    second = TopicPartition(TOPIC, 1)
    response = await authorizer.answer(fetch_of(ORDERS, OTHER, second), SHOP, read)
    assert isinstance(response, m.FetchResponse)
    assert [(part.topic_partition, part.error) for part in response.partitions] == [
        (ORDERS, ErrorCode.NONE),
        (OTHER, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (second, ErrorCode.NONE),
    ]
    assert asked == [replace(fetch_of(ORDERS, second), max_wait_ms=0)]
    assert await authorizer.answer(fetch_of(OTHER), SHOP, read) == m.FetchResponse(
        partitions=(m.FetchedPartition(topic_partition=OTHER, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),)
    )
    assert len(asked) == 1


async def test_topics_that_may_not_be_described_are_left_out() -> None:
    """Those that were named are told as such, whether they exist or not; brokers are told to everybody."""

    async def describe(request: Request) -> Response:
        names = (TOPIC, "secret")
        topics = tuple(TopicImage(name=name, topic_id=TopicId(number)) for number, name in enumerate(names))
        return m.DescribeClusterResponse(error=ErrorCode.NONE, cluster_id="c", topics=topics)

    authorizer = authorizer_of(lambda: image_of(entry("allow User:shop read topic orders")))
    found = []
    for topics in (None, ("secret", "nowhere", TOPIC, "secret")):
        response = await authorizer.answer(m.DescribeClusterRequest(topics=topics), SHOP, describe)
        assert isinstance(response, m.DescribeClusterResponse)
        found.append(([topic.name for topic in response.topics], response.unauthorized_topics))
    assert found == [([TOPIC], ()), ([TOPIC], ("secret", "nowhere"))]


async def test_a_refusal_says_who_may_not_do_what() -> None:
    """Where the answer has room for a sentence."""
    authorizer = authorizer_of(image_of)
    refused = await authorizer.answer(m.DeleteTopicRequest(name=TOPIC), SHOP, answer_ok)
    assert isinstance(refused, m.DeleteTopicResponse)
    assert refused.message == "User:shop may not delete topic orders"


async def test_refusals_and_administration_are_audited() -> None:
    """A line for each, with who, from where, what and on what; other calls that are allowed have none."""
    image = image_of(entry("allow User:shop alter topic orders"), entry("allow User:shop read topic orders"))
    authorizer = authorizer_of(lambda: image)
    with capture_logs() as lines:
        await authorizer.answer(fetch_of(ORDERS), SHOP, answer_ok)
        await authorizer.answer(m.AlterTopicRequest(name=TOPIC, configs={}), SHOP, answer_ok)
        await authorizer.answer(m.DeleteTopicRequest(name=TOPIC), SHOP, answer_ok)
    said = {"event": "audit", "principal": "User:shop", "address": "ipv4:10.0.0.1:5", "resource": "topic orders"}
    assert lines == [
        {**said, "log_level": "info", "outcome": "allowed", "rpc": "AlterTopic"},
        {**said, "log_level": "warning", "outcome": "denied", "rpc": "DeleteTopic", "reason": ""},
    ]


async def test_who_is_refused_again_and_again_fills_no_disk() -> None:
    """So many lines a second, each of bounded length; the next one tells how many there would have been."""
    now_s = 0.0
    authorizer = authorizer_of(image_of, seconds=lambda: now_s)
    many = fetch_of(*(TopicPartition(f"topic-{number}", 0) for number in range(3000)))
    with capture_logs() as lines:
        for _ in range(3 * LINES_PER_SECOND_MAX):
            await authorizer.answer(m.DeleteTopicRequest(name=TOPIC), SHOP, answer_ok)
        now_s = 1.0
        await authorizer.answer(many, SHOP, answer_ok)
    assert len(lines) == LINES_PER_SECOND_MAX + 1
    assert sum(1 + line.get("unsaid_before", 0) for line in lines) == 3 * LINES_PER_SECOND_MAX + 1
    assert all(len(line["resource"]) <= RESOURCES_BYTES_MAX for line in lines)


@pytest.mark.parametrize(
    ("name", "replica_id"),
    [
        ("replica-1", 1),
        ("replica-0", 0),
        ("replica-2147483647", 2147483647),
        ("replica-2147483648", None),
        ("replica-01", None),
        ("replica-", None),
        ("replica-1 ", None),
        ("replica-1\n", None),
        ("replica-\u0661", None),
        ("Replica-1", None),
        ("xreplica-1", None),
        ("client", None),
    ],
)
def test_which_replica_a_certificate_speaks_for(name: str, replica_id: int | None) -> None:
    """One name for each replica, and each name for one."""
    assert replica_named(name) == replica_id


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """All log lines of a test."""
    with capture_logs() as captured:
        yield captured


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"subject": "shop", "expires_in_s": -60}, "the token has expired"),
        ({"subject": "shop", "key": "another-secret-of-32-bytes-or-more"}, "the token is not signed with the key"),
        ({"subject": None}, "the token lacks exp or sub"),
        ({"subject": "shop", "exp": None}, "the token lacks exp or sub"),
        ({"subject": "shop", "aud": "somebody else"}, "the token is for somebody else"),
        ({"subject": "x" * 300}, "the subject of the token is empty, or too long"),
    ],
)
async def test_a_token_that_is_not_believed_ends_the_call(
    told: dict[str, Any], reason: str, tmp_path: Path, lines: list[Any]
) -> None:
    """Also where a certificate would do. Neither the answer nor any line has the token."""
    files_of(tmp_path, "client")
    token = token_of(**told)
    authorizer = authorizer_of(lambda: image_of(entry("allow User:* all topic *")), tokens=token_key(tmp_path))
    async with serving(tmp_path, authorizer) as address, calling(address, token_files(tmp_path, token)) as ask:
        with pytest.raises(DeniedError, match="UNAUTHENTICATED") as refused:
            await ask(WRITE)
    assert reason in str(refused.value)
    assert [(line["event"], line["outcome"], line["principal"]) for line in lines] == [("audit", "denied", "")]
    assert reason in lines[0]["reason"]
    assert token not in str(refused.value) + str(lines)
    assert not any(part in str(refused.value) + str(lines) for part in token.split("."))


async def test_a_stream_outlives_no_token(tmp_path: Path) -> None:
    """What was believed when a stream began is not for ever; a new token in the file lets the client in again."""
    now_s = 0.0
    image = image_of(entry("allow User:shop write topic orders"))
    files_of(tmp_path, "client")
    authorizer = authorizer_of(lambda: image, tokens=token_key(tmp_path), unix_s=lambda: now_s)
    tls = token_files(tmp_path, token_of("shop"))
    async with serving(tmp_path, authorizer) as address, calling(address, tls) as ask:
        assert (await ask(WRITE)).error is ErrorCode.NONE
        now_s = 1e12
        with pytest.raises(DeniedError, match="the token has expired"):
            await ask(WRITE)
        now_s = 0.0
        assert (await ask(WRITE)).error is ErrorCode.NONE


async def test_who_shows_nothing_is_anonymous(tmp_path: Path) -> None:
    """Where clients need no certificate, everybody's rights are theirs, and no others."""
    image = image_of(entry("allow User:* write topic orders"), entry("allow User:shop read topic orders"))
    authorizer = authorizer_of(lambda: image)
    async with serving(tmp_path, authorizer, with_client_auth=False) as address:
        async with calling(address, files_of(tmp_path, None)) as ask:
            assert (await ask(WRITE)).error is ErrorCode.NONE
            refused = await ask(m.DeleteTopicRequest(name=TOPIC))
            assert isinstance(refused, m.DeleteTopicResponse)
            assert refused.message == f"{ANONYMOUS} may not delete topic orders"
        async with calling(address, token_files(tmp_path, token_of("shop"))) as ask:
            with pytest.raises(DeniedError, match="started without a key for tokens"):
                await ask(WRITE)


async def test_a_replica_speaks_for_itself_alone(tmp_path: Path) -> None:
    """Its certificate lets it ask in its own name, and as a client only what the list allows."""
    authorizer = authorizer_of(image_of)
    async with serving(tmp_path, authorizer) as address, calling(address, files_of(tmp_path, "replica-1")) as ask:
        for replica_id, is_served in ((1, True), (2, False), (9, False)):
            question = m.ListOffsetsRequest(topic_partition=ORDERS, latest=True, replica_id=ReplicaId(replica_id))
            if is_served:
                assert (await ask(question)).error is ErrorCode.NONE
            else:
                with pytest.raises(DeniedError, match=f"takes the certificate of replica-{replica_id}"):
                    await ask(question)
        as_client = m.ListOffsetsRequest(topic_partition=ORDERS, latest=True)
        assert (await ask(as_client)).error is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_each_of_several_writes_is_judged_for_itself(tmp_path: Path) -> None:
    """What travels together shares no right."""
    image = image_of(entry("allow User:client write topic orders"))
    files = files_of(tmp_path, "client")
    async with serving(tmp_path, authorizer_of(lambda: image)) as address, calling(address, files) as ask:
        answers = await asyncio.gather(ask(WRITE), ask(replace(WRITE, topic_partition=OTHER)), ask(WRITE))
    errors = [answer.error for answer in answers if isinstance(answer, m.ProduceResponse)]
    assert errors == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE]
