"""What reading and writing topics as tables raises. Spark shows the message: it names all that is needed to act.

Every class pickles, since it is raised in one process and told in another.
"""

from __future__ import annotations

from replica.ids import TopicPartition


class TopicTableError(Exception):
    """Reading or writing a topic as a table did not do what was asked."""


class OptionError(TopicTableError):
    """An option is missing, unknown, or has a value that it may not have."""

    def __init__(self, name: str, value: str | None, allowed: str) -> None:
        super().__init__(name, value, allowed)
        self.name, self.value, self.allowed = name, value, allowed

    def __str__(self) -> str:
        given = "is missing" if self.value is None else f"is {self.value!r}"
        return f"option {self.name} {given}; {self.allowed}"


class ColumnError(TopicTableError):
    """A table has not the columns that are needed."""


class UnreachableError(TopicTableError):
    """None of the servers has said in time what the cluster looks like."""


class PartitionUnreadableError(TopicTableError):
    """A partition, or a topic as a whole, could not be read for as long as a call may take."""


class TopicTruncatedError(TopicTableError):
    """What was read or planned is not in the log any more: it was cut, and may have been written anew (KIP-320)."""

    def __init__(self, topic_partition: TopicPartition, offset: int, leader_epoch: int | None, found: str) -> None:
        super().__init__(topic_partition, offset, leader_epoch, found)
        self.topic_partition, self.offset, self.leader_epoch, self.found = topic_partition, offset, leader_epoch, found

    def __str__(self) -> str:
        epoch = "" if self.leader_epoch is None else f", written in leader epoch {self.leader_epoch}"
        return (
            f"topic {self.topic_partition.topic}, partition {self.topic_partition.partition} was truncated: the log up "
            f"to offset {self.offset}{epoch}, is not what it was; {self.found}. Rows that were made of lost records "
            "stay where they were written: judge them, and begin anew with another checkpoint"
        )


class DataLossError(TopicTableError):
    """Records that were to be read are deleted already, by retention or by request."""

    def __init__(self, topic_partition: TopicPartition, offset: int, log_start_offset: int | None) -> None:
        super().__init__(topic_partition, offset, log_start_offset)
        self.topic_partition, self.offset, self.log_start_offset = topic_partition, offset, log_start_offset

    def __str__(self) -> str:
        return (
            f"topic {self.topic_partition.topic}, partition {self.topic_partition.partition}: offset {self.offset} is "
            f"not there any more, the log starts at {self.log_start_offset}; set failOnDataLoss to false to go on "
            "with what is left"
        )
