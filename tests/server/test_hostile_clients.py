"""A sample of what ``python -m benchmarks.hostile_clients`` does, and that without limits its promises are broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.attacks import ATTACKS, MIB
from benchmarks.hostile_clients import MEMORY_BYTES_MAX, Plan, broken_promises, run

PLAN = Plan(brokers=1, before_s=0.5, attack_s=3, after_s=0.5, nice=0)


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout(300)
def test_hostile_clients_harm_nobody() -> None:
    """Under limits, in each way: the replica stays up and below its bound, and silent connections keep nobody out."""
    rows = run(PLAN, with_limits=True)
    assert [row["attack"] for row in rows] == list(ATTACKS)
    assert [broken_promises(row, in_time=False) for row in rows] == [[]] * len(ATTACKS)
    assert [row["newcomer_is_served"] for row in rows if row["attack"] == "half_open"] == [True]


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout(300)
def test_what_limits_are_for() -> None:
    """Nothing else keeps silent connections from taking all there are; uploads that never end take little by itself."""
    attacks = ("unfinished_uploads", "half_open")
    plan = replace(PLAN, attacks=attacks, attack_s=12)
    uploads, silent = run(plan, with_limits=False)
    assert all(uploads["alive"])
    assert uploads["mebibytes_at_most"] < MEMORY_BYTES_MAX // MIB
    assert not silent["newcomer_is_served"]
