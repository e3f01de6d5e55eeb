"""Runs that nobody has run: folders as a judged run leaves them, and a command that makes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemesis.ci.command import Finished
from nemesis.ci.judged import JudgedRun, judged_run

LOST = {
    "anomaly": "lost-write",
    "severity": "violation",
    "topic_partition": "topic1-0",
    "offsets": [17],
    "op_indexes": [4],
    "replicas": [1],
    "detail": "value 23 was acknowledged at offset 17 and replica 1 does not have it",
    "evidence": {"value": 23},
    "run_id": "run",
}
DIVERGED = LOST | {"anomaly": "diverged-log", "detail": "replicas 1 and 2 differ at offset 17"}
MORE = LOST | {"offsets": [], "detail": "105 more: an acknowledged value is missing", "evidence": {"more": 105}}
ALLOWED = LOST | {"anomaly": "int-send-skip", "severity": "allowed", "detail": "fine"}
EXITS = {"valid": 0, "invalid": 1, "unknown": 2}
REASONS = {
    "valid": ["566 acknowledged writes and 20545 read values keep every promise"],
    "invalid": ["lost-write: 3", "diverged-log: 1"],
    "unknown": ["the history has no end: the run was cut off"],
}
ANOMALIES: dict[str, list[dict[str, Any]]] = {
    "valid": [],
    "unknown": [],
    "invalid": [ALLOWED, DIVERGED, MORE, LOST, LOST],
}


def write_run(folder: Path, verdict: str, *, seed: int = 7, argv: Sequence[str] = ("nemesis", "run")) -> Path:
    """Make the folder of a run that was judged like this."""
    (folder / "nodes" / "1").mkdir(parents=True)
    (folder / "nodes" / "1" / "replica.log").write_text("{}\n")
    (folder / "report.html").write_text("<html></html>")
    results = {
        "verdict": verdict,
        "reasons": REASONS[verdict],
        "warnings": [] if verdict == "invalid" else ["3 writes asked for less"],
        "anomalies": ANOMALIES[verdict],
        "stats": {"acked_checked": 566},
        "faults_bit": True,
    }
    options = {"schedule": "random", "variant": None}
    test = {"workload": "append", "seed": seed, "options": options, "argv": list(argv)}
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "test.json").write_text(json.dumps(test))
    return folder


def fake_run(folder: Path, verdict: str, *, seed: int = 7) -> JudgedRun:
    """A run that was judged like this."""
    return judged_run(write_run(folder, verdict, seed=seed))


class FakeRuns:
    """``Execute``: each call makes the folder of a run in the store it names, with the next verdict.

    The last verdict goes on for ever. ``calls`` are the words of all calls.
    """

    def __init__(self, *verdicts: str) -> None:
        self._verdicts = list(verdicts)
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, words: Sequence[str], at_most_s: float) -> Finished:
        """Pretend to run."""
        self.calls.append(tuple(words))
        verdict = self._verdicts.pop(0) if len(self._verdicts) > 1 else self._verdicts[0]
        if verdict == "broken":
            return Finished(exit_code=255, out="", err="Error: replica 1 does not serve after 20.0 s\n")
        if verdict == "endless":
            raise TimeoutError(f"nemesis run had not ended after {at_most_s:g} s")
        store, seed = (words[words.index(name) + 1] for name in ("--store", "--seed"))
        folder = Path(store) / "append" / f"run-{len(self.calls)}"
        write_run(folder, verdict, seed=int(seed), argv=("nemesis", *words))
        return Finished(exit_code=EXITS[verdict], out=f"verdict: {verdict}\nrun: {folder}\n", err="")
