"""The names of directed links: who sends to whom.

Owns the numbers of those ends of links that are not replicas. A link is directed, since networks fail in one direction.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

CLIENTS = -1
"""All clients of the workload, as one end of their links."""
CONTROL = -2
"""The harness itself: it looks at replicas through links that no fault touches."""

Link = tuple[int, int]
"""(source, destination): the bytes that flow from the first to the second; replicas by their ids."""


class LinkMode(StrEnum):
    """How a link is broken."""

    BLACKHOLE = "blackhole"
    """Bytes stop, connections stay open, new ones hang: what a lost network does."""
    RESET = "reset"
    """Connections that the source dials to the destination are reset, now and as long as it lasts."""


def client_links(nodes: Iterable[int]) -> frozenset[Link]:
    """The links between clients and these nodes, both ways."""
    return frozenset(link for node in nodes for link in ((CLIENTS, node), (node, CLIENTS)))
