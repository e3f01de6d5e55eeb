"""Each case of a replaced disk again and again: ``python -m tests.cluster.soak_replaced_disks``.

Owns the sweep and its document. Ends with 1 if records were lost or the wrong replica led, with 2 if a case did not
come to its end, and with 0 otherwise; the folder of whatever was not as it should be is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.cluster.replaced_disks import CASES, Case, Order, play, why_wrong

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"
EXITS = {RIGHT: 0, UNKNOWN: 2, WRONG: 1}
"""The exit code of each outcome, the worse ones later."""


def played(case: Case, order: Order) -> dict[str, Any]:
    """Play a case once, and say what became of it."""
    folder = Path(tempfile.mkdtemp(prefix="replaced-disk-"))
    told: dict[str, Any] = {"case": case.name, "order": order.value}
    try:
        seen = asyncio.run(play(folder, case, order))
    except Exception as error:  # Whatever kept it from its end is told, and the others are played.
        return {**told, "outcome": UNKNOWN, "why": f"{type(error).__name__}: {error}", "folder": str(folder)}
    why = why_wrong(case, seen)
    if why is not None:
        return {**told, "outcome": WRONG, "why": why, "folder": str(folder), "seen": seen.to_json()}
    shutil.rmtree(folder)
    return {**told, "outcome": RIGHT, "waited": seen.waited}


def document(times: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What is written: of each case how its runs ended, and all of those that were not right."""
    cases = {
        case.name: {
            outcome: sum(run["case"] == case.name and run["outcome"] == outcome for run in runs) for outcome in EXITS
        }
        for case in CASES
    }
    waited = {case.name: sum(run["case"] == case.name and run.get("waited", False) for run in runs) for case in CASES}
    return {
        "times": times,
        "runs": len(runs),
        "cases": {name: {**counts, "waited_for_an_operator": waited[name]} for name, counts in cases.items()},
        "not_right": [run for run in runs if run["outcome"] != RIGHT],
    }


def main() -> int:
    """Play each case so many times, with the empty disk first, last or together with the others by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("store/soak-replaced-disks.json"))
    given = parser.parse_args()
    given.output.parent.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    for number, order in zip(range(given.times), cycle(Order)):
        for case in CASES:
            runs.append(played(case, order))
            line = f"{number + 1}/{given.times} {case.name} ({order}): {runs[-1]['outcome']}"
            sys.stderr.write(f"{line}\n")
        given.output.write_text(json.dumps(document(given.times, runs), indent=2) + "\n", encoding="utf-8")
    return EXITS[max((run["outcome"] for run in runs), key=list(EXITS).index, default=RIGHT)]


if __name__ == "__main__":
    sys.exit(main())
