"""How many descriptors this process has, and what they are for: connections, logs, and everything else.

Owns the division. gRPC accepts no more connections than are said here, and storage closes files to stay within its
part, so that neither leaves the other without; what this replica opens besides comes out of the reserve.
Source: PostgreSQL's ``fd.c`` (``max_safe_fds``). Go's runtime raises the soft limit at every start as well.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass

from replica.core.config import InvalidConfigError

LIMIT_LEAST = 128
LIMIT_MOST = 1 << 20
"""What a limit counts for that is higher, or none."""
RESERVE_LEAST = 64
"""Event loop, gRPC, standing dials of other replicas, the page of metrics: about 40 in a cluster of three."""
_RESERVE_FRACTION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorBudget:
    """How many ``connections`` there may be to each listener, and how many ``files`` may be open."""

    connections: int
    files: int


def descriptor_budget(limit: int, *, connections_max: int, listeners: int) -> DescriptorBudget:
    """Divide ``limit``: an eighth and 64 in reserve, up to half of the rest for connections, what is left for files.

    There are never more than ``connections_max`` to one of the ``listeners``. InvalidConfigError below ``LIMIT_LEAST``.
    """
    if limit < LIMIT_LEAST:
        raise InvalidConfigError(
            f"this process may open {limit} files; a replica needs {LIMIT_LEAST} at least (ulimit -n, LimitNOFILE)"
        )
    shared = limit - RESERVE_LEAST - limit // _RESERVE_FRACTION
    connections = min(connections_max, shared // 2 // listeners)
    return DescriptorBudget(connections=connections, files=shared - connections * listeners)


def raise_descriptor_limit() -> int:
    """Let this process have as many descriptors as it may, and return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _counted(hard)
    if _counted(soft) < wanted:
        with suppress(ValueError, OSError):  # Some systems have a lower bound than they say.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return _counted(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _counted(limit: int) -> int:
    return LIMIT_MOST if limit == resource.RLIM_INFINITY else min(limit, LIMIT_MOST)
