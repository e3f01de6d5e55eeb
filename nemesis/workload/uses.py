"""The workloads on objects by name.

Owns the table: which ``Use`` of an object each of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from nemesis.history.workloads import Workload
from nemesis.workload.bank import BankUse
from nemesis.workload.collection import SetUse
from nemesis.workload.counter import CounterUse
from nemesis.workload.lock import LockUse
from nemesis.workload.objects import Use
from nemesis.workload.register import RegisterUse

USES: Mapping[Workload, Callable[[Random], Use]] = MappingProxyType(
    {
        Workload.REGISTER: RegisterUse,
        Workload.SET: SetUse,
        Workload.COUNTER: CounterUse,
        Workload.BANK: BankUse,
        Workload.LOCK: LockUse,
    }
)
"""Each with the dice of the workload."""
