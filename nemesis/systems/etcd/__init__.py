"""etcd: ``client`` (keys and numbers over its JSON gateway, honest outcomes) -> ``system`` (members as processes)."""

from __future__ import annotations
