"""How patient the harness is where it asks our replicas what operators ask, and changes what operators change."""

from __future__ import annotations

from collections.abc import Mapping

from replica.client.cluster_view import ViewConfig
from replica.ids import ReplicaId
from replica.rpc.tls import TlsFiles

CHANGE_MS_MAX = 5000
"""How long a change is tried."""
LOOK_MS_MAX = 800
"""How long a question is tried."""
RETRY_MS, RETRY_MS_MAX = 50, 200


def looking(cluster_id: str, dial: Mapping[ReplicaId, str], tls: TlsFiles | None) -> ViewConfig:
    """For a question; ``dial`` is where each replica is dialled."""
    return _view(cluster_id, dial, tls, api_ms=LOOK_MS_MAX, request_ms=LOOK_MS_MAX)


def changing(cluster_id: str, dial: Mapping[ReplicaId, str], tls: TlsFiles | None, *, request_ms: int) -> ViewConfig:
    """For a change, of which one attempt takes ``request_ms`` at most."""
    return _view(cluster_id, dial, tls, api_ms=CHANGE_MS_MAX, request_ms=request_ms)


def _view(
    cluster_id: str, dial: Mapping[ReplicaId, str], tls: TlsFiles | None, *, api_ms: int, request_ms: int
) -> ViewConfig:
    return ViewConfig(
        cluster_id=cluster_id,
        dial=dial,
        tls=tls,
        request_timeout_ms=request_ms,
        api_timeout_ms=api_ms,
        metadata_timeout_ms=LOOK_MS_MAX // 2,
        retry_backoff_ms=RETRY_MS,
        retry_backoff_max_ms=RETRY_MS_MAX,
    )
