"""One run of ``nemesis run`` in a process of its own, to its verdict, for whoever needs many: a test, or a suite.

Owns how it is told from a harness that has failed: by the exit code, and by what the run's folder says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemesis.ci.command import Execute
from nemesis.ci.judged import VERDICTS, JudgedRun, NotJudgedError, judged_run
from nemesis.cli.exit import VERDICT_EXITS
from nemesis.cli.settings import at_most_s, words_of

RUN_LINE = "run: "
ERROR_LINES_MAX = 12


def record_and_judge(settings: Mapping[str, Any], *, store: Path, execute: Execute, engine: str = "local") -> JudgedRun:
    """Run ``nemesis run`` with these settings to its verdict. Raises NotJudgedError when it comes to none."""
    words = (*words_of(settings), "--engine", engine, "--store", str(store))
    try:
        finished = execute(("run", *words), at_most_s(settings))
    except TimeoutError as error:
        raise NotJudgedError(str(error)) from None
    told = [line.removeprefix(RUN_LINE) for line in finished.out.splitlines() if line.startswith(RUN_LINE)]
    if finished.exit_code not in range(len(VERDICTS)) or not told:
        last = "\n".join(finished.err.rstrip().splitlines()[-ERROR_LINES_MAX:])
        raise NotJudgedError(f"nemesis run ended with {finished.exit_code} and without a verdict:\n{last}")
    run = judged_run(Path(told[-1]))
    if VERDICT_EXITS.get(run.verdict) != finished.exit_code:
        raise NotJudgedError(f"nemesis run ended with {finished.exit_code}, and {run.folder} says {run.verdict}")
    return run
