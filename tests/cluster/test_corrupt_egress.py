"""Bits that are flipped on their way out of a replica: in batches only, counted, noticed, and nothing of it is kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from nemesis.cli.exit import Exit
from nemesis.cluster.holds import hold_of
from nemesis.faults.impairments import Between, CorruptEgress
from nemesis.faults.links import CLIENTS
from nemesis.faults.targets import Role
from nemesis.history.reader import read_history
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from replica.records import CorruptRecordError, parse_batches
from tests.records.odd_batches import batch_of
from tests.systems.running import run

CORRUPT = CorruptEgress(target=Role.ALL, between=Between.ALL, percent=50)
BATCH = batch_of(b"a value", 1).data
BEFORE, BEHIND = b"\x00headers of a stream\x02", b"trailers"
NAME = "network-egress-corrupt-all"


def test_one_bit_of_a_batch_is_flipped_and_its_crc_tells() -> None:
    """Whatever the dice say, what surrounds a batch stays as it was, and the batch is no batch any more."""
    batch = BATCH
    for seed in range(50):
        tally = Counter[str]()
        hold = hold_of(CorruptEgress(target=Role.ALL), Random(seed), tally)
        passed = hold.passed(BEFORE + batch + BEHIND)

        changed = bytes(a ^ b for a, b in zip(passed, BEFORE + batch + BEHIND, strict=True))
        assert sum(byte.bit_count() for byte in changed) == 1
        assert passed.startswith(BEFORE)
        assert passed.endswith(BEHIND)
        with pytest.raises(CorruptRecordError, match="CRC"):
            parse_batches(passed[len(BEFORE) : -len(BEHIND)])
        assert tally == {"segments": 1, "flipped": 1}


def test_what_has_no_whole_batch_passes() -> None:
    """Of anything else nobody could notice it, so that it is left as it is."""
    tally = Counter[str]()
    hold = hold_of(CorruptEgress(target=Role.ALL), Random(1), tally)

    for chunk in (BEFORE, BEHIND, BATCH[:-1], b"", bytes(200)):
        assert hold.passed(chunk) == chunk
    assert tally["flipped"] == 0


def test_only_what_leaves_the_target_is_touched() -> None:
    """Its requests and its answers, to replicas, to clients, or to both."""
    nodes = (1, 2, 3)
    fault = CorruptEgress(target=Role.LEADER, between=Between.ALL)
    all_ways = {(a, b) for a in nodes for b in (*nodes, CLIENTS) if a != b}

    assert fault.links(nodes, (1,), Random(1)) == {(1, 2), (1, 3), (1, CLIENTS)}
    assert CORRUPT.links(nodes, nodes, Random(1)) == all_ways
    assert CorruptEgress(target=Role.LEADER).links(nodes, (1,), Random(1)) == {(1, 2), (1, 3)}
    only_clients = CorruptEgress(target=Role.LEADER, between=Between.CLIENTS)
    assert only_clients.links(nodes, (1,), Random(1)) == {(1, CLIENTS)}


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_nothing_that_was_corrupted_is_acknowledged_stored_or_read(tmp_path: Path) -> None:
    """Half of all segments with batches are corrupted, between all: the run is valid, and batches were flipped."""
    steps = (
        Step(at_s=1, action=Inject(fault_id=0, fault=CORRUPT)),
        Step(at_s=5, action=Heal(fault_id=0)),
    )
    schedule = Schedule(name="corrupt", time_limit_s=6, steps=steps)
    (tmp_path / "corrupt.json").write_text(schedule.to_json(), encoding="utf-8")

    done = run(tmp_path / "store", "--schedule", str(tmp_path / "corrupt.json"), "--rate", "50", "--seed", "1")

    assert done.returncode == Exit.VALID, done.stdout + done.stderr
    rows = read_history(tmp_path / "store" / "append" / "latest").to_pylist()
    (mended,) = (json.loads(row["detail"]) for row in rows if (row["f"], row["type"]) == (f"mend-{NAME}", "info"))
    assert mended["done"]["flipped"] > 20
    assert mended["done"]["segments"] > mended["done"]["flipped"]
