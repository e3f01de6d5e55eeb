"""Judge a run while it goes on.

The way of the data: ``growth`` (which shards there are by now, in order and without gaps) -> ``on_spark`` (a stream
over them; what is new says which topic-partitions are judged again) or ``follow`` (the same without Java), both
with the checks of the judgement that follows at the end -> ``finality`` (what of it no later operation can take back)
-> each anomaly is told once, as it appears.

What is told here is no verdict. The verdict on a run is that of its whole history, and what was told while it went on
must stand in it.
"""

from __future__ import annotations

from nemesis.pipeline.streaming.finality import Told, final
from nemesis.pipeline.streaming.follow import Follower, check_can_follow, following
from nemesis.pipeline.streaming.growth import FollowError, Growth, TooLongError
