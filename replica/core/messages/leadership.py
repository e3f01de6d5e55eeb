"""Who leads: what almost every answer says beside its error."""

from __future__ import annotations

from dataclasses import dataclass

from replica.bounds import Address
from replica.ids import Epoch, ReplicaId


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentLeader:
    """Who leads, as far as the answering replica knows; ``leader_id`` is absent while nobody is known to.

    ``address`` is where others reach it, as ``HOST:PORT``; empty where that is not known, or need not be said. The core
    neither gives nor reads it: it is for whoever dials (KIP-853).
    """

    leader_id: ReplicaId | None
    leader_epoch: Epoch
    address: Address = ""
