"""Every page of the reference: its place on the site, and what writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from docs.reference import commands, declarations, files, replica_settings, rpcs, settings

PAGES: Mapping[str, Callable[[], str]] = {
    "nemesis.md": partial(commands.page_of, "nemesis"),
    "replica.md": partial(commands.page_of, "replica"),
    "faults.md": declarations.faults,
    "anomalies.md": declarations.anomalies,
    "workloads.md": declarations.workloads,
    "systems.md": declarations.systems,
    "rpcs.md": rpcs.page,
    "settings.md": replica_settings.page,
    "topics.md": settings.topics,
    "metrics.md": settings.metrics,
    "files.md": files.page,
}
"""By the name of the page in ``reference/``."""
