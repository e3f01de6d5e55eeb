"""What administrators ask about the cluster's feature level: they raise it, and look at who knows which.

The active controller answers; a change, once it is committed. Source: Kafka's ``UpdateFeaturesRequest.json``; KIP-584.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from replica.bounds import BROKERS_MAX, Entries, Message
from replica.core.messages.leadership import CurrentLeader
from replica.errors import ErrorCode
from replica.ids import ReplicaId


class UpdateFeaturesRequest(Struct, frozen=True, kw_only=True):
    """Raise the feature level of the cluster to this one; where it is there already, nothing happens."""

    feature_level: int
    cluster_id: str | None = None


class UpdateFeaturesResponse(Struct, frozen=True, kw_only=True):
    """INVALID_UPDATE_VERSION: it is higher already, or somebody in the cluster does not know this level."""

    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class DescribeFeaturesRequest(Struct, frozen=True, kw_only=True):
    """Ask for the feature level, and for those that the brokers and voters know."""

    cluster_id: str | None = None


class KnownFeatures(Struct, frozen=True, kw_only=True):
    """The newest feature level that a broker or voter knows; absent while this controller has not heard from it."""

    replica_id: ReplicaId
    newest_feature_level: int | None = None


class DescribeFeaturesResponse(Struct, frozen=True, kw_only=True):
    """The level of the cluster, and who knows which, by their ids."""

    error: ErrorCode
    message: Message = ""
    feature_level: int = 0
    replicas: Annotated[tuple[KnownFeatures, ...], Entries(2 * BROKERS_MAX)] = ()
    current_leader: CurrentLeader | None = None
