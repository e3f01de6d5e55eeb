"""Who leads: what almost every answer says beside its error."""

from __future__ import annotations

from msgspec import Struct

from replica.bounds import Address
from replica.ids import Epoch, ReplicaId


class CurrentLeader(Struct, frozen=True, kw_only=True):
    """Who leads, as far as the answering replica knows; ``leader_id`` is absent while nobody is known to.

    ``address`` is where others reach it, as ``HOST:PORT``; empty where that is not known, or need not be said. The core
    neither gives nor reads it: it is for whoever dials (KIP-853).
    """

    leader_id: ReplicaId | None
    leader_epoch: Epoch
    address: Address = ""
