"""The wrong protocols are wrong in one rule each, and nobody can switch them on by accident."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nemesis.checks.schemas import AnomalyName
from nemesis.faults.directed import DIRECTED
from nemesis.variants.registry import VARIANTS, Variant
from replica.cli_start import start_command
from replica.core.rules import Rules
from replica.ids import Epoch, Offset

RULE_NAMES = {name for name in vars(Rules) if not name.startswith("_")}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_variant_overrides_one_rule(variant: Variant) -> None:
    """Each variant derives from the right rules and replaces exactly one of them by its name."""
    assert variant.rules.__bases__ == (Rules,)
    assert variant.overrides in RULE_NAMES
    assert AnomalyName(variant.convicted_of)
    assert DIRECTED[variant.schedule.name] is variant.schedule


def test_the_wrong_decisions() -> None:
    """Where the right protocol says no, or less, each variant says otherwise."""
    rules = {name: variant.rules() for name, variant in VARIANTS.items()}
    right, zero = Rules(), Offset(0)

    assert not right.produce_is_committed(end_offset=Offset(5), high_watermark=None)
    assert rules["ack-before-replication"].produce_is_committed(end_offset=Offset(5), high_watermark=None)
    assert right.consumer_read_bound(high_watermark=zero, log_end_offset=Offset(5)) == 0
    beyond = rules["read-beyond-high-watermark"]
    assert beyond.consumer_read_bound(high_watermark=zero, log_end_offset=Offset(5)) == 5
    assert right.last_fetched_epoch(last_epoch=Epoch(1), leader_epoch=Epoch(4)) == 1
    assert rules["append-without-reconciling"].last_fetched_epoch(last_epoch=Epoch(1), leader_epoch=Epoch(4)) == 4
    shorter = {"candidate_epoch": 1, "candidate_end": 2, "own_epoch": 1, "own_end": 9}
    assert not right.candidate_log_is_up_to_date(**shorter)
    assert rules["vote-without-comparing-logs"].candidate_log_is_up_to_date(**shorter)


def test_replica_start_knows_no_variant() -> None:
    """No option of ``replica start`` names a variant, and its process imports nothing of this package."""
    names = {option for parameter in start_command().params for option in parameter.opts}
    program = "import sys, replica.cli, replica.server.main; print([m for m in sys.modules if m.startswith('nemesis')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not {name for name in names if "variant" in name or "rule" in name}
    assert done.stdout.strip() == "[]"


def test_an_unknown_variant_is_refused() -> None:
    """The variants' own entry point names those that there are."""
    done = subprocess.run(
        [sys.executable, "-m", "nemesis.variants.server", "--variant", "perfect", "--data-dir", "x"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert all(name in done.stderr for name in VARIANTS)
