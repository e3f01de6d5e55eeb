"""The model that the objects of a workload are judged by.

Owns the table. Knows nothing of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nemesis.history.workloads import Workload
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.counter import Counter
from nemesis.linearizability.models.grow_set import GrowSet
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.run_objects.bank import Bank
from nemesis.pipeline.run_objects.leased_lock import LeasedLock

MODELS: Mapping[Workload, Model] = MappingProxyType(
    {
        Workload.REGISTER: CasRegister(),
        Workload.SET: GrowSet(),
        Workload.COUNTER: Counter(),
        Workload.BANK: Bank(),
        Workload.LOCK: LeasedLock(),
    }
)
"""Each is the specification of one object."""
