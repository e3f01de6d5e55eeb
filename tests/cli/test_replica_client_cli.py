"""The commands that ask brokers, without a cluster: what they refuse, how they align, and what they say of a doubt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
import grpc
import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.cli.client import as_table
from replica.core.messages import DescribeClusterResponse, ProduceResponse, ProduceResponses
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId
from replica.rpc.codec import DESCRIBE_CLUSTER, PRODUCE

ONE = ReplicaId(1)
TOO_LARGE = "10000000000000000000"
NOBODY = "127.0.0.1:1"
"""Nobody listens on the port of tcpmux."""


def replica(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topic", "list"], "Missing option '--bootstrap'"),
        (["topic", "list", "--bootstrap", "nonsense"], "'nonsense' is not HOST:PORT"),
        (["topic", "create", "t", "--config", "nonsense"], "--config 'nonsense' is not NAME=VALUE"),
        (["topic", "create", "t", "--assignment", "1,x"], "--assignment '1,x' is not a list of broker ids"),
        (["topic", "alter", "t"], "nothing to change"),
        (["consume", "t", "--from", "yesterday"], "--from 'yesterday' is neither beginning, end, an offset nor a time"),
        (["consume", "t", "--from", TOO_LARGE], f"--from {TOO_LARGE} is above 9223372036854775807"),
        (["topic", "delete-records", "t", "--partition", "0", "--before-offset", TOO_LARGE], f"{TOO_LARGE} is not in"),
        (["produce", "t", "--acks", "1", "--idempotence"], "idempotence needs acks ALL"),
        (["partition", "elect-leader", "t", "0", "--type", "any"], "'any' is not one of"),
    ],
)
def test_a_wrong_usage_is_named(arguments: list[str], complaint: str) -> None:
    """What cannot be meant exits with 2 and names the argument, before anybody is asked."""
    bootstrap = [] if "--bootstrap" in arguments or arguments == ["topic", "list"] else ["--bootstrap", NOBODY]
    result = replica(*arguments, *bootstrap)
    assert result.exit_code == 2
    assert complaint in result.output


@pytest.mark.parametrize(
    "command",
    [
        *(["topic", "list"], ["topic", "create", "t"], ["cluster", "describe"], ["offsets", "t"], ["produce", "t"]),
        ["topic", "delete-records", "t", "--partition", "0", "--before-offset", "1"],
    ],
)
def test_nobody_there_is_one_sentence(command: list[str]) -> None:
    """With no broker there a command exits with 1 and says what to check."""
    result = replica(*command, "--bootstrap", NOBODY, "--timeout-ms", 300, stdin="a\n")
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert f"{NOBODY} refuses connections" in result.output


def test_a_deletion_that_reaches_nobody_says_what_to_check() -> None:
    """As every other command does, and without any doubt."""
    arguments = ("topic", "delete-records", "t", "--partition", 0, "--before-offset", 1)
    result = replica(*arguments, "--bootstrap", NOBODY, "--timeout-ms", 300)
    assert result.output.endswith("; check --bootstrap, and that the brokers run\n")
    assert "may be done" not in result.output


def test_a_table_is_aligned() -> None:
    """Columns are as wide as they must be, numbers stand to the right, and nothing is cut off."""
    rows: list[dict[str, Any]] = [
        {"name": "a", "topic_id": 5, "replicas": [1, 2], "leader_id": None, "configs": {}},
        {"name": "long-name", "topic_id": 1234567890, "replicas": [], "leader_id": 3, "configs": {"k": "v"}},
    ]
    assert click.unstyle(as_table(rows)).splitlines() == [
        "NAME         TOPIC-ID  REPLICAS  LEADER-ID  CONFIGS",
        "a                   5  1,2               -  -",
        "long-name  1234567890  -                 3  k=v",
    ]
    assert as_table([]) == "nothing to show"


class FakeBroker:
    """A broker in this process that leads ``orders-0`` and answers every Produce the same way."""

    def __init__(self, answer: ProduceResponse) -> None:
        self._answer = answer
        self._threads = ThreadPoolExecutor(1)
        self._server = grpc.server(self._threads)
        for method, handle in ((PRODUCE, self._produce), (DESCRIBE_CLUSTER, self._describe)):
            handlers: dict[str, Any] = {method.rpc: grpc.unary_unary_rpc_method_handler(handle)}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(method.service, handlers),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.stop(None).wait()
        self._threads.shutdown()

    def _produce(self, request: bytes, context: object) -> bytes:
        return PRODUCE.response.encode(ProduceResponses(responses=(self._answer,)))

    def _describe(self, request: bytes, context: object) -> bytes:
        partition = PartitionRegistration(
            replicas=(ONE,), isr=(ONE,), leader_id=ONE, leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
        )
        broker = BrokerRegistration(
            broker_id=ONE,
            broker_epoch=BrokerEpoch(1),
            incarnation_id="i",
            directory_id="d",
            flushes=True,
            address=self.address,
            rack=None,
            fenced=False,
            in_controlled_shutdown=False,
        )
        return DESCRIBE_CLUSTER.response.encode(
            DescribeClusterResponse(
                error=ErrorCode.NONE,
                metadata_offset=Offset(5),
                brokers=(broker,),
                topics=(TopicImage(name="orders", topic_id=TopicId(1), partitions={0: partition}),),
            )
        )


@pytest.mark.parametrize(
    ("answer", "exit_code", "told"),
    [
        (
            ProduceResponse(error=ErrorCode.UNKNOWN_SERVER_ERROR),
            3,
            "line 1: orders-0: the write may have been applied: UNKNOWN_SERVER_ERROR",
        ),
        (
            ProduceResponse(error=ErrorCode.MESSAGE_TOO_LARGE, not_appended=True),
            1,
            "line 1: orders-0: not written: MESSAGE_TOO_LARGE",
        ),
    ],
)
def test_the_exit_code_tells_a_doubt_from_a_refusal(answer: ProduceResponse, exit_code: int, told: str) -> None:
    """produce exits with 3 where a record may have been written, with 1 where it certainly was not."""
    broker = FakeBroker(answer)
    try:
        result = replica(
            "produce", "orders", "--no-idempotence", "--bootstrap", broker.address, "--timeout-ms", 2000, stdin="a\n"
        )
    finally:
        broker.close()
    assert result.exit_code == exit_code
    assert result.output.startswith(told)
