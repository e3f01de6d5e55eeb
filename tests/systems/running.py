"""Runs of systems that are not ours, as a user would start them, where what they need is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nemesis.cluster.netns_probe import why_no_clusters
from nemesis.systems.catalogue import missing

RUN_S_MAX = 240.0


def needs(system: str) -> pytest.MarkDecorator:
    """Skip where the system cannot be run, and say what is missing."""
    reason = missing(system)
    return pytest.mark.skipif(reason is not None, reason=str(reason))


def needs_netns() -> pytest.MarkDecorator:
    """Skip where no cluster can be had whose links can be cut, and say why."""
    reason = why_no_clusters()
    return pytest.mark.skipif(reason is not None, reason=f"no network namespaces: {reason}")


def run(store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``nemesis run`` in the folder of ``store``, judged in this process; nothing of the run is left."""
    command = (sys.executable, "-m", "nemesis.cli", "run", *words, "--store", str(store), "--engine", "local")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False, cwd=store.parent, env=None
    )
    assert left_over(store) == [], done.stderr
    return done


def left_over(store: Path) -> list[list[str]]:
    """The processes that work in a run's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        if any(str(store) in word for word in (*words, process.info["cwd"] or "")):
            found.append(words)
    return found
