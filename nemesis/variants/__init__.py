"""Protocols with one wrong rule each, by which the harness shows that it would notice.

``mutant`` is what is known of one, ``votes``, ``durability``, ``fetching``, ``high_watermark`` and ``leadership`` have
the wrong rules, ``built`` and ``pending`` the tables of those that can be run and of those that cannot, ``catalogue``
all of them by name, ``server`` starts a replica with one of them. The replica package knows nothing of any of this, and
no option of ``replica start`` leads here.
"""

from __future__ import annotations
