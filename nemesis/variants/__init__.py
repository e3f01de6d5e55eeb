"""Protocols with a wrong rule each, by which the harness shows that it would notice.

``mutant`` is what is known of one. The wrong rules of quorum logs are in ``votes``, ``durability``, ``fetching``,
``high_watermark`` and ``leadership``, those of partitions (``partitions_only``) in ``reconciling``, ``isr``,
``log_start``, ``producing`` and ``controller``, those of state machines in ``groups`` and ``snapshots``, those
of voters that change in ``voters``. ``built_on_quorum_logs``, ``built_on_clusters``, ``built_on_groups``,
``built_on_voters`` and ``equivalent`` are the tables of those that can be run and of those that cannot, ``catalogue``
has all of them by name, ``server`` starts a replica with one of them; ``standstill`` and ``clocks`` are a replica's
disk and clocks with the harness's hands on them. The replica package knows nothing of any of this, and no option of
``replica start`` leads here.
"""

from __future__ import annotations
