"""What answers may hold of this process, those of one connection and those of all together, in bytes.

Owns the account of answers. gRPC keeps an answer until the connection has taken it, and a client that reads nothing
takes none. So a Fetch sets aside what its answer may have, before it reads: of what is left to its connection and to
all a fraction, so that nobody takes all, and at least ``PLACE_BYTES``, which bounds how many wait. Once the answer is
made, its real size counts, until the call has ended: the connection has all of it, or is gone. A batch is never cut, so
that an answer of one batch may be larger than what was set aside. How large a request may be its fields' bounds say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from replica.bounds import PLACE_BYTES

_CONNECTION_FRACTION = 2
_ALL_FRACTION = 256


class OverBudgetError(Exception):
    """A request or its answer would be more than there is room for; the message says of what, and what to do."""

    def __init__(self, budget: str, reason: str) -> None:
        super().__init__(reason)
        self.budget = budget


@dataclass(slots=True, kw_only=True)
class Place:
    """What one call holds of the budget of answers."""

    connection: str
    size_bytes: int = 0


class AnswerBudget:
    """The account of answers that were not taken yet, by connection (gRPC's name for the peer)."""

    def __init__(self, *, connection_bytes_max: int, all_bytes_max: int) -> None:
        self.connection_bytes_max = connection_bytes_max
        self.all_bytes_max = all_bytes_max
        self._held: defaultdict[str, int] = defaultdict(int)
        self.held_bytes = 0
        """What is set aside or not taken in all."""

    def admit(self, connection: str, *, wants_bytes: int) -> Place:
        """Set aside for one answer up to ``wants_bytes``, or nothing if it wants nothing; raises OverBudgetError.

        What wants nothing, because its answer is small, only its own connection can be too full for.
        """
        left = self.connection_bytes_max - self._held.get(connection, 0)
        if left < PLACE_BYTES:
            raise OverBudgetError(
                "connection_answer_bytes_max",
                f"answers of {self.connection_bytes_max} bytes wait for this connection, the most there may be; "
                "read them, or have fewer fetches wait at once",
            )
        all_left = self.all_bytes_max - self.held_bytes
        if wants_bytes > 0 and all_left < PLACE_BYTES:
            raise OverBudgetError(
                "answer_bytes_max",
                f"answers of {self.all_bytes_max} bytes wait for all connections, the most this replica holds; "
                "try again later",
            )
        place = Place(connection=connection)
        if wants_bytes > 0:
            share = min(wants_bytes, left // _CONNECTION_FRACTION, all_left // _ALL_FRACTION)
            self.resize(place, max(PLACE_BYTES, share))
        return place

    def give_back(self, place: Place, _context: object = None) -> None:
        """Let others have what the place held: its answer was taken, or nobody waits for it any more."""
        self.resize(place, 0)

    def resize(self, place: Place, size_bytes: int) -> None:
        """Let the place be as large as its answer has turned out."""
        more = size_bytes - place.size_bytes
        place.size_bytes = size_bytes
        self.held_bytes += more
        self._held[place.connection] += more
        if not self._held[place.connection]:
            del self._held[place.connection]
