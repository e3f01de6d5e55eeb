"""Whether Spark can run is found out from the machine and said in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.pipeline import java_available
from nemesis.pipeline.session import java_major


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("bash: java: not found", None),
    ],
)
def test_versions(text: str, major: int | None) -> None:
    """Old and new ways of telling the version are understood, anything else is no version."""
    assert java_major(text) == major


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("""echo 'openjdk version "17.0.1"' >&2""", "Java 17 at"),
        ("""echo 'openjdk version "11.0.1"' >&2""", "is Java 11, too old"),
        ("echo what", "does not tell its version"),
    ],
)
def test_java_under_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str) -> None:
    """The Java under JAVA_HOME is asked, and what is wrong with it comes with what to install."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    available, reason = java_available()
    assert said in reason
    assert available or "install Java 17 or later" in reason
    assert available == reason.startswith("Java 17")


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java gets the sentence that says what to install."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    available, reason = java_available()
    assert not available
    assert "install Java 17 or later" in reason
