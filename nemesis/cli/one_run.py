"""One run of ``nemesis run`` in a process of its own, to its verdict, for whoever needs many: a test, or a sweep.

Owns how it is told from a harness that has failed: by the exit code, and by what the run's folder says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemesis.ci.command import Execute, Finished
from nemesis.ci.judged import JudgedRun, NotJudgedError, judged_run
from nemesis.cli.exit import VERDICT_EXITS, Exit
from nemesis.cli.settings import OVERHEAD_S_MAX, at_most_s, words_of

RUN_LINE = "run: "
RECORDING = re.compile("^recording (.+): schedule ", re.MULTILINE)
LOCALLY = ("--engine", "local")
ERROR_LINES_MAX = 12


def record_and_judge(
    settings: Mapping[str, Any], *, store: Path, execute: Execute, judge: Sequence[str] = LOCALLY
) -> JudgedRun:
    """Run ``nemesis run`` with these settings to its verdict; ``judge`` are the options that say what judges.

    What was recorded of a run that broke down can convict, and no more. Raises NotJudgedError when there is no verdict.
    """
    words = (*words_of(settings), *judge, "--store", str(store))
    try:
        finished = execute(("run", *words), at_most_s(settings))
        if _has_verdict(finished):
            return _judged(finished)
        recorded = RECORDING.search(finished.err)
        checked = execute(("check", recorded[1], *judge), OVERHEAD_S_MAX) if recorded else finished
    except TimeoutError as error:
        raise NotJudgedError(str(error)) from None
    if checked.exit_code == Exit.INVALID and _has_verdict(checked):
        return _judged(checked)
    last = "\n".join(finished.err.rstrip().splitlines()[-ERROR_LINES_MAX:])
    raise NotJudgedError(f"nemesis run ended with {finished.exit_code} and without a verdict:\n{last}")


def _has_verdict(finished: Finished) -> bool:
    return finished.exit_code in VERDICT_EXITS.values() and bool(_folders(finished))


def _folders(finished: Finished) -> list[str]:
    return [line.removeprefix(RUN_LINE) for line in finished.out.splitlines() if line.startswith(RUN_LINE)]


def _judged(finished: Finished) -> JudgedRun:
    run = judged_run(Path(_folders(finished)[-1]))
    if VERDICT_EXITS.get(run.verdict) != finished.exit_code:
        raise NotJudgedError(f"nemesis ended with {finished.exit_code}, and {run.folder} says {run.verdict}")
    return run
