"""The file of figures that a measurement leaves behind, with what was measured and on what machine."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import click
import psutil

from nemesis.runner import versions


def write_result(output: Path, **figures: object) -> None:
    """Write figures as JSON, each under its name, and say where they are."""
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    found = {"versions": versions(), "machine": machine, **figures}
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    click.echo(f"result: {output}")
