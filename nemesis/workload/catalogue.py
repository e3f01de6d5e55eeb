"""Every workload that there is, and the tables that follow from what each says of itself.

Owns the list. Nothing else lists workloads: not the command line, nor the judges, the systems or the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nemesis.history.document import TEST_NAME, workload_named
from nemesis.history.errors import HistoryError
from nemesis.workload.append import AppendWorkload
from nemesis.workload.bank import BankWorkload
from nemesis.workload.collection import SetWorkload
from nemesis.workload.counter import CounterWorkload
from nemesis.workload.lock import LockWorkload
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.queue import QueueWorkload
from nemesis.workload.register import RegisterWorkload
from nemesis.workload.workload import Workload

USUAL = AppendWorkload
"""What is run where nothing is asked for."""
WORKLOADS: Mapping[str, type[Workload]] = {
    workload.name: workload
    for workload in (
        AppendWorkload,
        RegisterWorkload,
        SetWorkload,
        CounterWorkload,
        BankWorkload,
        LockWorkload,
        QueueWorkload,
    )
}
"""Every workload by its name."""
ON_OBJECTS: Mapping[str, type[ObjectWorkload]] = {
    name: workload for name, workload in WORKLOADS.items() if issubclass(workload, ObjectWorkload)
}
"""Those of which each object is judged by itself."""


def workload_of(folder: Path) -> type[Workload]:
    """The workload of a run, as its ``test.json`` names it; the usual one where that is absent or cannot be read.

    Raises HistoryError for a name that is none: nobody here knows how to judge that.
    """
    name = workload_named(folder, USUAL.name)
    if not isinstance(name, str) or name not in WORKLOADS:
        raise HistoryError(f"{folder / TEST_NAME} is of the workload {name!r}; known are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
