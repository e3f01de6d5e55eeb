"""What Spark calls on a stream's source, called by hand on real replicas: no JVM is needed for that."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from replica.ids import TopicPartition
from replica.spark.options import stream_read_options
from tests.spark.live import Live

pytestmark = pytest.mark.cluster


def test_a_stream_from_the_end_reads_what_comes(live: Live) -> None:
    """Spark asks again and again where a query begins, and hears the same; batches go on from there over a kill."""
    pytest.importorskip("pyspark")
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from replica.spark.stream import StreamReader

    live.create("orders")
    live.write("orders", [b"old"])
    options = {"bootstrap.servers": live.servers, "subscribe": "orders", "maxOffsetsPerTrigger": "2"}
    reader = StreamReader(stream_read_options(options))
    worker: StreamReader = pickle.loads(pickle.dumps(reader))

    def batch(start: dict[str, Any], limit: Any) -> tuple[list[bytes], dict[str, Any]]:
        end = json.loads(json.dumps(reader.latestOffset(start, limit)))
        pieces = pickle.loads(pickle.dumps(reader.partitions(start, end)))
        tables = [table for piece in pieces for table in worker.read(piece)]
        return [value for table in tables for value in table.column("value").to_pylist()], end

    try:
        first = json.loads(json.dumps(reader.initialOffset()))
        live.write("orders", [b"0", b"1", b"2"])
        assert reader.initialOffset() == first
        values, end = batch(first, reader.getDefaultReadLimit())
        assert (values, reader.getDefaultReadLimit()) == ([b"0", b"1"], ReadMaxRows(2))
        live.kill_leader(TopicPartition("orders", 0))
        live.write("orders", [b"3"])
        values, end = batch(end, ReadAllAvailable())
        assert values == [b"2", b"3"]
        assert batch(end, ReadAllAvailable()) == ([], end)
        reader.prepareForTriggerAvailableNow()
        live.write("orders", [b"4"])
        assert batch(end, ReadAllAvailable()) == ([], end)
    finally:
        reader.stop()
