"""What administrators ask about settings of brokers and quotas of users; those of topics are asked by topic.

As with all changes, the active controller answers, once they are committed. Source: Kafka's
``IncrementalAlterConfigsRequest.json``, ``DescribeConfigsRequest.json``, ``AlterClientQuotasRequest.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from replica.bounds import ALL_CONFIG_RESOURCES, OF_A_RESOURCE, Message
from replica.core.messages.leadership import CurrentLeader
from replica.core.metadata.resources import ConfigResource, ConfigResourceType
from replica.errors import ErrorCode


class AlterConfigsRequest(Struct, frozen=True, kw_only=True):
    """Change settings of a broker, of all brokers, of a user or of all users; an absent value takes one away."""

    resource: ConfigResource
    configs: Annotated[Mapping[str, str | None], OF_A_RESOURCE]
    cluster_id: str | None = None


class AlterConfigsResponse(Struct, frozen=True, kw_only=True):
    """INVALID_CONFIG: nothing is changed, and the message says why."""

    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class DescribeConfigsRequest(Struct, frozen=True, kw_only=True):
    """Ask for what was set of all brokers, or of all users."""

    resource_type: ConfigResourceType
    cluster_id: str | None = None


class ResourceConfigs(Struct, frozen=True, kw_only=True):
    """What was set of one broker or user, or of all."""

    resource: ConfigResource
    configs: Annotated[Mapping[str, str], OF_A_RESOURCE]


class DescribeConfigsResponse(Struct, frozen=True, kw_only=True):
    """In the order of their names; what holds for all comes first."""

    error: ErrorCode
    message: Message = ""
    resources: Annotated[tuple[ResourceConfigs, ...], ALL_CONFIG_RESOURCES] = ()
    current_leader: CurrentLeader | None = None
