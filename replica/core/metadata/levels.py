"""Feature levels: which kinds of records the metadata log may hold, so that two releases can run beside each other.

A cluster has one level, a record of its metadata log. Whatever is new to that log, or to what a record says, comes with
a level of its own, and is written only once the cluster is at it; a replica that reads a level above those that it
knows stops. Who may raise it is the controller's business (``controller.features``).

To add a kind of record: its tag in ``encoding``, and one line here. The requests that lead to one have their line in
``controller.features``. Source: KIP-584, KIP-778 (``metadata.version``).
"""

from __future__ import annotations

from collections.abc import Mapping

from replica.core.metadata.records import FeatureLevelRecord, MetadataRecord, ResourceConfigRecord

FIRST_LEVEL = 1
"""Of a log that says nothing about its level."""

LEVELS: Mapping[int, str] = {
    1: "all that releases without levels know",
    2: "the level itself, settings of brokers, quotas of users",
}
"""What each level brings; those that no release had may still get more."""

NEWEST_LEVEL = max(LEVELS)
"""The highest that this release knows."""

RECORDS_SINCE: Mapping[type[MetadataRecord], int] = {
    FeatureLevelRecord: 2,
    ResourceConfigRecord: 2,
}
"""From which level on a kind of record may be written; those that are not here, always."""


def level_of(record: MetadataRecord) -> int:
    """The lowest level at which a record may stand in the log."""
    return RECORDS_SINCE.get(type(record), FIRST_LEVEL)
