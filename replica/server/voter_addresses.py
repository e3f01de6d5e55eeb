"""Where the voters of the quorum logs are reached, by those logs.

Owns which set of which log counts for more, and that the sets are looked through again only when one of them changes:
every dial of a replica that no option names asks here. Knows nothing of options, registrations and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import is_

from replica.core.quorum.voter_history import VoterHistory
from replica.ids import ReplicaId
from replica.rpc.addresses import addresses_of


class VoterAddresses:
    """Replica id -> ``HOST:PORT`` of those who vote, and of those who did. ``histories`` are asked anew every time.

    Of two logs that say it of the same replica, the later one counts.
    """

    def __init__(self, histories: Callable[[], Iterable[VoterHistory]]) -> None:
        self._histories = histories
        self._seen: tuple[VoterHistory, ...] = ()
        self._latest: dict[ReplicaId, str] = {}
        self._former: dict[ReplicaId, str] = {}

    def latest(self) -> Mapping[ReplicaId, str]:
        """Find those of the last set of each log, committed or not."""
        self._look()
        return self._latest

    def former(self) -> Mapping[ReplicaId, str]:
        """Find those of every set that a log still knows, later sets counting for more.

        1. A leader appends the record that removes itself. 2. A follower takes it, and the leader is in its last set
        no more. 3. The follower must fetch again to say that it has it: without that nothing is committed, neither
        the removal nor what stands behind. As long as the record can be truncated, the set before is in the history.
        """
        self._look()
        return self._former

    def _look(self) -> None:
        """Histories are values: a log whose history is the same object has nothing new to say."""
        histories = tuple(self._histories())
        if len(histories) == len(self._seen) and all(map(is_, histories, self._seen)):
            return
        self._seen = histories
        self._latest, self._former = {}, {}
        for history in histories:
            self._latest |= addresses_of(history.latest)
            for voters in (history.base, *(entry.voters for entry in history.entries)):
                self._former |= addresses_of(voters)
