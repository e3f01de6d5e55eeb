"""How large what replicas and clients say to each other may be: a bound for each kind of value, and those by name.

Every field of a message has the bound of its kind, which is small, unless its annotation names a larger one that is
honest: ``address: Address``. The codec reads bounds off the annotations and refuses what is above them before the core
has seen it. Sizes of text and data are bytes on the wire. Knows no message.

Source: Kafka's limits where there are such (249 characters of a topic's name, 2000 partitions in an answer, KIP-966).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

MESSAGE_BYTES_MAX = 32 << 20
"""The largest message that either side of a connection takes."""

REQUEST_BYTES_MAX = 4 << 20
"""The largest request that a server takes unless it is told otherwise: four times the largest batch by default. gRPC
collects a whole message before anybody may judge it, so that this times the calls of a connection is what uploads that
never end may hold."""

PLACE_BYTES = 256 << 10
"""What a call that waits for records sets aside of the room for answers at the least."""

RECORDS_BYTES_MAX = MESSAGE_BYTES_MAX // 4
"""Records of one log that one request or answer may carry. A follower whose fetch is answered with more gets nothing,
for ever."""

ANSWER_BYTES_MAX = MESSAGE_BYTES_MAX // 2
"""Records of all partitions that one answer may carry; a single batch may come on top."""

BATCH_BYTES_MAX = ANSWER_BYTES_MAX + RECORDS_BYTES_MAX
"""The largest batch of a replica's own: a fetch is answered with one whole batch at least, and a message carries it."""

TEXT_BYTES_MAX = 249
"""A topic's name with a dash and a partition number behind it still fits a file system."""

ADDRESS_BYTES_MAX = 262
"""A host name of 255 characters, brackets and colons included, and a port."""

DIRECTORY_ID_BYTES_MAX = 64
"""More than any directory id has. It bounds what is remembered of whoever names one."""

PARTITIONS_MAX = 10_000
"""Partitions of a cluster, and hence topics, and partitions that one request may name."""

BROKERS_MAX = 1000

ACLS_MAX = 2000
"""Entries of the access control list: one answer tells them all."""

CONFIG_RESOURCES_MAX = 2000
"""Brokers and users that have settings of their own: one answer tells them all."""

CONFIGS_MAX = 100
"""Settings of one of them, more than there are."""

REPLICAS_MAX = 16
"""Replicas of a partition. While it is reassigned it has those that come and those that go."""

PROPOSALS_MAX = 500
"""Partitions for which a leader asks for another ISR at once, so that to read them holds nobody up."""

PAGE_PARTITIONS_MAX = 2000
"""Partitions that one answer tells of; what follows is asked for with the cursor that it ends with (KIP-966). And those
that one request may move."""

FETCH_PARTITIONS_MAX = 3000
"""Partitions that one Fetch may name. Whoever wants more asks in turns: to read, look at and answer ten thousand held
everybody up for 140 ms."""

PRODUCED_AT_ONCE_MAX = 1000
"""Record batches that one Produce may carry: each is a step of its own."""

ENTRIES_MAX = 2000
"""Entries for a group's log that one request may carry: they are applied in one go, which nothing else interrupts."""

EPOCHS_MAX = 100_000
"""Epochs of a log that one answer tells of: the newest."""


class Number(Struct, frozen=True):
    """From ``least`` to ``most``, both included."""

    least: int = 0
    most: int = INT32_MAX


class Text(Struct, frozen=True):
    """At most so many bytes of UTF-8. Text ``for_people`` is cut by who says it, so that nobody misses the rest."""

    bytes_max: int = TEXT_BYTES_MAX
    for_people: bool = False


class Data(Struct, frozen=True):
    """At most so many bytes."""

    bytes_max: int = RECORDS_BYTES_MAX


class Entries(Struct, frozen=True):
    """At most so many elements of a list or a map, each of which has a bound of its own."""

    count_max: int = 1000


Bound = Number | Text | Data | Entries

LONG = Number(most=INT64_MAX)
"""Offsets, and what is made of them: topic ids and broker epochs."""

Long = Annotated[int, LONG]
Timestamp = Annotated[int, Number(least=-1, most=INT64_MAX)]
TimeOfDay = Annotated[int, Number(most=253_402_300_799_999)]
"""What a machine's clock may show, in milliseconds since 1970: up to the end of 9999, so that there is room to add."""
Address = Annotated[str, Text(ADDRESS_BYTES_MAX)]
DirectoryId = Annotated[str, Text(DIRECTORY_ID_BYTES_MAX)]
Message = Annotated[str, Text(1000, for_people=True)]
Carried = Annotated[bytes, Data(BATCH_BYTES_MAX)]
"""As much as a message can carry beside the rest; whoever is asked has a smaller limit of his own, with an error."""
ALL_PARTITIONS = Entries(PARTITIONS_MAX)
FETCHED_AT_ONCE = Entries(FETCH_PARTITIONS_MAX)
PRODUCED_AT_ONCE = Entries(PRODUCED_AT_ONCE_MAX)
OF_A_PAGE = Entries(PAGE_PARTITIONS_MAX)
ALL_ACLS = Entries(ACLS_MAX)
ALL_CONFIG_RESOURCES = Entries(CONFIG_RESOURCES_MAX)
OF_A_RESOURCE = Entries(CONFIGS_MAX)
REPLICAS = Entries(REPLICAS_MAX)
MOVING_REPLICAS = Entries(2 * REPLICAS_MAX)
