"""What to do about rows that the sink has written more than once, and how to write under a name of one's own."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from replica.spark.errors import OptionError
from replica.spark.options import WRITE_OPTIONS
from replica.spark.record_writer import ORIGIN_HEADERS
from replica.spark.source import FORMAT

_PLACE = "__place"


def without_repeats(records: DataFrame) -> DataFrame:
    """Drop repeats: records of the sink that are equal in topic, key, value and all headers."""
    place = F.when(~_is_of_the_sink(), F.struct("partition", "offset"))
    equal = ["topic", "key", "value", "headers", _PLACE]
    return records.withColumn(_PLACE, place).dropDuplicates(equal).drop(_PLACE)


def _is_of_the_sink() -> Column:
    """Whether a record says which row it is."""
    names = F.transform("headers", lambda header: header["key"])
    told = F.size(F.array_intersect(names, F.array(*map(F.lit, ORIGIN_HEADERS)))) == len(ORIGIN_HEADERS)
    return F.coalesce(told, F.lit(False))


def write_named_batch(rows: DataFrame, batch_id: int, *, query: str, options: Mapping[str, str]) -> None:
    """Write one micro-batch of a query that is named by the caller."""
    own = {"query", "batch"}.intersection(options)
    if own:
        raise OptionError(min(own), options[min(own)], "give it as an argument of its own")
    names = {name.replace(".", "_"): name for name in WRITE_OPTIONS}
    named = {names.get(name, name): value for name, value in options.items()}
    rows.write.format(FORMAT).mode("append").options(**named).options(query=query, batch=batch_id).save()
