"""The feature level: raised by a decision once all know it, never lowered, and what waits for it refused.

Which levels brokers and voters know they say with each fetch of the metadata log, so a controller knows it of those
that have fetched in its epoch. That is enough: one that comes later, and knows less, stops at the record by itself.

Source: KIP-584, KIP-778; Kafka ``FeatureControlManager``, ``QuorumFeatures.reasonNotSupported``.
"""

from __future__ import annotations

from collections.abc import Mapping

from replica.core import messages as m
from replica.core.controller.state import ControllerState
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.metadata.records import FeatureLevelRecord
from replica.errors import ErrorCode
from replica.ids import ReplicaId

REQUESTS_SINCE: Mapping[type[m.ControllerRequest], int] = {m.AlterConfigsRequest: 2}
"""From which level on a kind of request may be made, as it leads to records of that level; others, always."""


def level_fault(c: ControllerState, since: int) -> str | None:
    """Say that what came with the level ``since`` has to wait for it; nothing once the cluster is there."""
    if c.rules.level_suffices(level=c.image.level, since=since):
        return None
    return (
        f"this needs feature level {since}, and the cluster is at {c.image.level}: once all replicas run a release "
        f"that knows it, `replica features upgrade --level {since}` raises it"
    )


def on_update_features(c: ControllerState, request: m.UpdateFeaturesRequest, _now_ms: int) -> m.UpdateFeaturesResponse:
    """Raise the level, if everybody knows the new one."""
    fault = _update_fault(c, request.feature_level)
    if fault is not None:
        return m.UpdateFeaturesResponse(error=ErrorCode.INVALID_UPDATE_VERSION, message=fault)
    if request.feature_level > c.image.level:
        c.append(FeatureLevelRecord(level=request.feature_level))
    return m.UpdateFeaturesResponse(error=ErrorCode.NONE)


def _update_fault(c: ControllerState, level: int) -> str | None:
    """Say why the level cannot become this one; nothing if it can, or is."""
    if level == c.image.level:
        return None
    if level < c.image.level:
        return (
            f"the cluster is at feature level {c.image.level}, which is never lowered: what was written since would be "
            "lost on a release that does not know it"
        )
    if level > NEWEST_LEVEL:
        return f"there is no feature level {level}: the controller's release knows those up to {NEWEST_LEVEL}"
    lacking = [
        f"replica {replica_id} "
        + ("has not fetched the metadata log from this controller" if known is None else f"knows {known} at the most")
        for replica_id, known in _known(c).items()
        if c.rules.lacks_level(newest_level=known, level=level)
    ]
    if not lacking:
        return None
    return (
        f"not everybody in the cluster is known to understand feature level {level}: {', '.join(lacking)}; start these "
        "with a newer release, or unregister brokers, and remove voters, that are gone for good"
    )


def on_describe_features(
    c: ControllerState, _request: m.DescribeFeaturesRequest, _now_ms: int
) -> m.DescribeFeaturesResponse:
    """Tell the level, and what everybody knows."""
    return m.DescribeFeaturesResponse(
        error=ErrorCode.NONE,
        feature_level=c.image.level,
        replicas=tuple(
            m.KnownFeatures(replica_id=replica_id, newest_feature_level=known)
            for replica_id, known in _known(c).items()
        ),
    )


def _known(c: ControllerState) -> dict[ReplicaId, int | None]:
    """The newest level that each broker and voter knows, as far as they have said so."""
    return dict(sorted(c.levels_known(c.image.brokers).items()))
