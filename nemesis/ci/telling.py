"""Everything that is told to continuous integration about a number of cases, in one call.

Owns what is told where: the JUnit file that was asked for, and GitHub's annotations and summary where it runs there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from nemesis.ci.cases import Case, case_of_folder
from nemesis.ci.github import annotated, append_summary
from nemesis.ci.junit import write_junit


def tell_ci(
    cases: Sequence[Case],
    *,
    junit: Path | None = None,
    name: str = "nemesis",
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Write the JUnit file if one is wanted; annotate and summarise where GitHub runs this."""
    if junit is not None:
        write_junit(junit, cases, name=name)
    for line in annotated(cases, environment):
        click.echo(line, err=True)
    append_summary(cases, environment, name=name)


def tell_ci_of_runs(folders: Sequence[Path], *, junit: Path | None = None) -> None:
    """Tell of runs that were judged: each has its ``results.json``. Raises NotJudgedError for one that has not."""
    tell_ci([case_of_folder(folder) for folder in folders], junit=junit)
