"""What a story must say of each directed variant, and which reports of the replicas it rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nemesis.history import BECAME_LEADER, LAST_KNOWN_LEADER_ELECTED, UNCLEAN_ELECTION
from nemesis.history.events import STARTED
from nemesis.report.timeline import TRUNCATED
from nemesis.report.values import Judgement

LOG = r"[\w-]+-\d+"
FOLLOWED = rf"replica \d followed replica \d in epoch \d+ and truncated {LOG} from offset \d+ to \d+\."
KEPT = rf"replica \d followed replica \d in epoch \d+ and did not truncate {LOG} to offset \d+: it kept its record"
LED = rf"replica \d became the leader of {LOG} in epoch \d+"
WITHOUT = rf"{LED}, with a log that ended at offset \d+\."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A sentence that must be told, and the events without which nobody could tell it."""

    sentence: str
    told_by: tuple[str, ...]

    def is_named(self, judgement: Judgement) -> bool:
        """Whether the story has such a sentence."""
        return any(re.search(self.sentence, told) for told in judgement.narrative)


TRUNCATION = Cause(sentence=FOLLOWED, told_by=(TRUNCATED,))
SHORT_LEADER = Cause(sentence=WITHOUT, told_by=(BECAME_LEADER,))
KEEPER = Cause(sentence=KEPT, told_by=("became-follower",))
CAUSES: Mapping[str, tuple[Cause, ...]] = {
    "truncate-to-high-watermark": (TRUNCATION, SHORT_LEADER, KEEPER),
    "read-beyond-high-watermark": (TRUNCATION, SHORT_LEADER),
    "ack-before-replication": (TRUNCATION, SHORT_LEADER),
    "append-without-reconciling": (KEEPER,),
    "vote-without-comparing-logs": (TRUNCATION, SHORT_LEADER),
    "unclean-election": (TRUNCATION, Cause(sentence=rf"{LED} by an unclean election", told_by=(UNCLEAN_ELECTION,))),
    "power-loss": (
        Cause(sentence=rf"replica \d started again with a log of {LOG} that ended at", told_by=(STARTED,)),
        Cause(sentence=rf"{LED} by an election of the last known", told_by=(LAST_KNOWN_LEADER_ELECTED,)),
    ),
    "lease-without-time": (Cause(sentence=rf"{LED}\.", told_by=(BECAME_LEADER,)),),
}
"""Of each directed variant, and of the schedules under which the right protocol may break a promise."""
