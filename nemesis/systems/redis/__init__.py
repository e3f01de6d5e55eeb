"""Redis with sentinels.

The way through: ``client`` (keys and numbers, of the master of the day) -> ``system`` (servers and their sentinels).
"""

from __future__ import annotations
