"""A sample of what ``python -m benchmarks.hostile_clients`` does, and that without limits its promises are broken."""

from __future__ import annotations

import pytest

from benchmarks.attacks import ATTACKS
from benchmarks.hostile_clients import MEMORY_BYTES_MAX, MIB, Plan, broken_promises, run

PLAN = Plan(brokers=1, before_s=1, attack_s=3, after_s=1)


@pytest.mark.cluster
@pytest.mark.long
def test_hostile_clients_harm_nobody() -> None:
    """Under limits, in each way: the replica stays up and below its bound, and who comes or writes is served."""
    rows = run(PLAN, with_limits=True)
    assert [row["attack"] for row in rows] == list(ATTACKS)
    assert [broken_promises(row, in_time=False) for row in rows] == [[]] * len(ATTACKS)
    assert all(row["writes_per_second_during"] > 0 for row in rows)


@pytest.mark.cluster
@pytest.mark.long
def test_without_limits_they_do() -> None:
    """Nothing else keeps uploads that never end from taking memory, or silent connections from taking them all."""
    attacks = ("unfinished_uploads", "half_open")
    plan = Plan(attacks=attacks, brokers=1, before_s=1, attack_s=6, after_s=1)
    uploads, silent = run(plan, with_limits=False)
    assert all(uploads["alive"])
    assert uploads["mebibytes_at_most"] > MEMORY_BYTES_MAX // MIB
    assert not silent["newcomer_is_served"]
