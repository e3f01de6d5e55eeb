"""The options of topics as tables: what they mean, and that a wrong one is named with what is allowed."""

from __future__ import annotations

import pickle

import pytest

from replica.ids import TopicPartition
from replica.records import Compression
from replica.spark.errors import DataLossError, OptionError, TopicTruncatedError
from replica.spark.options import batch_read_options, stream_read_options, write_options
from replica.spark.values import Bound

SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}
READ = SERVERS | {"subscribe": "orders"}


def test_a_batch_reads_all_by_default() -> None:
    """Without more than servers and a topic, a batch is all that is committed, and lost data is an error."""
    options = batch_read_options(READ)
    assert (options.topics, options.partitions, options.starting, options.ending) == (
        ("orders",),
        None,
        Bound.EARLIEST,
        Bound.LATEST,
    )
    assert options.fail_on_data_loss
    assert (options.min_partitions, options.max_offsets_per_trigger) == (None, None)
    assert options.connection.servers == "127.0.0.1:9092"


def test_a_stream_reads_what_is_new_by_default() -> None:
    """A stream begins at the end, and has no limit."""
    options = stream_read_options(READ)
    assert (options.starting, options.max_offsets_per_trigger) == (Bound.LATEST, None)


def test_options_are_read_without_regard_to_case() -> None:
    """Names come in any case, as Spark keeps them in lower case; values are trimmed where they are words or numbers."""
    options = stream_read_options(
        {
            "BOOTSTRAP.SERVERS": "a:1, b:2",
            "Subscribe": "payments, orders,orders",
            "startingoffsets": '{"orders": {"0": 23, "1": -2}, "payments": {"0": -1}}',
            "FAILONDATALOSS": " False ",
            "maxoffsetspertrigger": "1000",
            "minpartitions": "8",
            "client.rack": "r1",
        }
    )
    assert options.topics == ("orders", "payments")
    assert options.starting == {
        TopicPartition("orders", 0): 23,
        TopicPartition("orders", 1): Bound.EARLIEST,
        TopicPartition("payments", 0): Bound.LATEST,
    }
    assert not options.fail_on_data_loss
    assert (options.max_offsets_per_trigger, options.min_partitions, options.client_rack) == (1000, 8, "r1")


def test_partitions_can_be_assigned() -> None:
    """``assign`` names the partitions, and by them the topics."""
    options = batch_read_options(SERVERS | {"assign": '{"b": [1, 0], "a": [3]}'})
    assert options.topics == ("a", "b")
    assert options.partitions is not None
    assert sorted(options.partitions) == [("a", 3), ("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"bootstrap.servers": ""}, "option bootstrap.servers is ''; give a value, or leave"),
        ({"bootstrap.servers": "here"}, "option bootstrap.servers is 'here'; .*HOST:PORT"),
        ({"bootstrap.servers": "a:1,,b:2"}, "option bootstrap.servers is 'a:1,,b:2'; .*HOST:PORT"),
        ({"subscribe": "orders,"}, "option subscribe is 'orders,'; allowed are topics with commas"),
        ({"assign": '{"a": [0]}'}, "option subscribe is 'orders'; give either subscribe .* or assign"),
        ({"startingOffset": "earliest"}, "option startingoffset is 'earliest'; there is none .* startingOffsets"),
        ({"startingOffsets": "begin"}, "option startingOffsets is 'begin'; allowed are earliest, latest, or JSON"),
        ({"startingOffsets": "latest"}, "option startingOffsets is 'latest'; a batch that begins there is empty"),
        ({"endingOffsets": "earliest"}, "option endingOffsets is 'earliest'; allowed are latest, or JSON without -2"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "option endingOffsets is .*without -2"),
        ({"endingOffsets": '{"orders": {"0": '}, "option endingOffsets is .*allowed is JSON like"),
        ({"endingOffsets": '{"orders": [3]}'}, "allowed is JSON like"),
        ({"endingOffsets": '{"orders": {"zero": 3}}'}, "allowed is JSON like"),
        ({"endingOffsets": '{"orders": {"0": -3}}'}, "allowed is JSON like"),
        ({"endingOffsets": '{"orders": {"0": 1.5}}'}, "allowed is JSON like"),
        ({"endingOffsets": '{"orders": {"0": true}}'}, "allowed is JSON like"),
        ({"endingOffsets": '{"orders": {"0": 9223372036854775808}}'}, "allowed is JSON like"),
        ({"endingOffsets": '{"orders": {"99999999999": 1}}'}, "allowed is JSON like"),
        ({"endingOffsets": "{" * 100_000}, "allowed is JSON like"),
        ({"failOnDataLoss": "perhaps"}, "option failOnDataLoss is 'perhaps'; allowed are true or false"),
        ({"minPartitions": "0"}, "option minPartitions is '0'; allowed are whole numbers from 1 to 100000"),
        ({"minPartitions": "many"}, "option minPartitions is 'many'; allowed are whole numbers"),
        ({"maxOffsetsPerTrigger": "5"}, "option maxoffsetspertrigger is '5'; there is none of that name here"),
        ({"default.api.timeout.ms": "0"}, "option default.api.timeout.ms is '0'; allowed are whole numbers from 1"),
    ],
)
def test_wrong_options_of_a_batch_are_named(changes: dict[str, str], complaint: str) -> None:
    """An option that cannot be followed is told by its name, its value, and what is allowed."""
    with pytest.raises(OptionError, match=complaint):
        batch_read_options(READ | changes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"endingOffsets": "latest"}, "option endingoffsets is 'latest'; there is none of that name here"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is '0'; allowed are whole numbers from 1"),
    ],
)
def test_wrong_options_of_a_stream_are_named(changes: dict[str, str], complaint: str) -> None:
    """What only a batch has is refused in a stream."""
    with pytest.raises(OptionError, match=complaint):
        stream_read_options(READ | changes)


@pytest.mark.parametrize("missing", ["bootstrap.servers", "subscribe"])
def test_what_is_missing_is_named(missing: str) -> None:
    """Servers and topics have no default."""
    with pytest.raises(OptionError, match=f"option {missing} is missing; "):
        batch_read_options({name: value for name, value in READ.items() if name != missing})


def test_options_of_a_sink() -> None:
    """A sink has a topic of its own or none, and accepts what Spark hands over besides."""
    options = write_options(SERVERS | {"checkpointlocation": "/tmp/x", "compression.type": "ZSTD", "linger.ms": "0"})
    assert (options.topic, options.query, options.batch) == (None, None, None)
    assert (options.compression, options.linger_ms) == (Compression.ZSTD, 0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"subscribe": "orders"}, "option subscribe is 'orders'; there is none of that name here; .* topic"),
        ({"compression.type": "gzip"}, "option compression.type is 'gzip'; allowed are none, lz4 or zstd"),
        ({"batch": "-1"}, "option batch is '-1'; allowed are whole numbers from 0"),
        ({"topic": " "}, "option topic is ' '; give a value"),
    ],
)
def test_wrong_options_of_a_sink_are_named(changes: dict[str, str], complaint: str) -> None:
    """The same for what is written."""
    with pytest.raises(OptionError, match=complaint):
        write_options(SERVERS | changes)


@pytest.mark.parametrize(
    "value",
    [
        batch_read_options(READ),
        write_options(SERVERS),
        OptionError("topic", "", "give a value"),
        TopicTruncatedError(TopicPartition("orders", 3), 17, 4, "the leader's log leaves it at 12"),
        DataLossError(TopicPartition("orders", 3), 17, 40),
    ],
)
def test_what_goes_between_processes_pickles(value: object) -> None:
    """Options and errors arrive in another process as they were sent."""
    arrived = pickle.loads(pickle.dumps(value))
    assert (type(arrived), str(arrived)) == (type(value), str(value))


def test_a_truncation_names_everything() -> None:
    """Topic, partition, offset and epochs stand in the message: it is all that Spark shows."""
    error = TopicTruncatedError(
        TopicPartition("orders", 3), 17, 4, "the leader's log leaves it at offset 12 of epoch 3"
    )
    for word in ("topic orders", "partition 3", "offset 17", "epoch 4", "offset 12", "epoch 3"):
        assert word in str(error)
