"""The commands of README.md: each is one that there is, and those that run a cluster do what they are said to do."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest

from nemesis.cli.__main__ import cli as nemesis
from replica.cli.__main__ import main as replica

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"\.venv/bin/(nemesis|replica) ((?:(?! 2>)[^#|&>);\n])*)")
WAIT_ACTIVE = """for turn in $(seq 100); do
    test "$(.venv/bin/replica cluster describe --format json | grep -c '"state": "active"')" = 3 && break
    sleep 0.2
done"""
WAIT_MOVED = """for turn in $(seq 150); do
    .venv/bin/replica topic describe orders | grep -Eq '^ +2 +[12] ' && break
    sleep 0.2
done"""


def section(heading: str) -> str:
    """The text below a heading."""
    return README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def blocks(heading: str) -> str:
    """The commands below a heading, as a script."""
    return "\n".join(line[4:] for line in section(heading).splitlines() if line.startswith("    "))


@pytest.mark.parametrize(("name", "words"), sorted(set(COMMAND.findall(README))))
def test_the_readme_calls_what_there_is(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command with its options and arguments is understood."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPLICA_BOOTSTRAP", "127.0.0.1:9001")
    for folder in ("store/append/latest/history", "data/1/orders-0", "FOLDER"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("history.edn", "jepsen-kafka.edn", "data/1/orders-0/00000000000000000000.log", "nightly.toml"):
        (tmp_path / file).touch()
    given = shlex.split(words.replace("$id", "1").replace("$voters", "1=127.0.0.1:9001=AAAAAAAAAAAAAAAAAAAAAA"))
    command: click.Command = nemesis if name == "nemesis" else replica
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group):
        found = command.get_command(context, given[0])
        assert found is not None, given
        command, given = found, given[1:]
    command.make_context(name, given).close()


def free_ports() -> str:
    """What the numbers of three free ports begin with; they end with 1, 2 and 3."""
    for begin in range(2100, 3200):
        try:
            for end in (1, 2, 3):
                with closing(socket.create_server(("127.0.0.1", int(f"{begin}{end}")))):
                    pass
        except OSError:
            continue
        return f"{begin}"
    raise AssertionError("there are no free ports")


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_cluster_of_the_readme_runs(tmp_path: Path) -> None:
    """Three replicas are formatted and started, written and read, one is killed, and keys are put, got and watched."""
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("replica", "nemesis"):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {name}.cli "$@"\n')
        (bin_folder / name).chmod(0o755)
    lines = [line for line in blocks("A replicated state machine").splitlines() if "/nemesis run" not in line]
    script = "\n".join(["set -m", blocks("Run it"), *lines, "wait"]).replace(
        "127.0.0.1:900", f"127.0.0.1:{free_ports()}"
    )
    script = re.sub(r"^sleep 8\b.*$", f"export {bootstrap(script)}\n{WAIT_ACTIVE}", script, flags=re.MULTILINE)
    script = re.sub(r"sleep 15\b.*$", WAIT_MOVED, script, flags=re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=240)
        finally:
            end_replicas(tmp_path)

    assert "created orders" in said, said
    assert "0\t0\talice\tapples" in said or "\talice\tapples" in said, said
    before, after = re.findall(r"^ +2 +(\d) +\d+ +3,1,2 +(\S+)", said, re.MULTILINE)
    assert (before, after[0] in "12", after[1]) == (("3", "3,1,2"), True, "1,2"), said
    assert "put at revision 2\nred\nput at revision 3\n2\tput\tcolor\tred\n3\tput\tcolor\tblue\nleader " in said, said
    assert "Error" not in said


def bootstrap(script: str) -> str:
    """The line that says whom to ask."""
    (found,) = re.findall(r"^export (REPLICA_BOOTSTRAP=\S+)$", script, re.MULTILINE)
    return str(found)


def end_replicas(folder: Path) -> None:
    """End what is left of the replicas: those whose data lie below this folder."""
    import psutil

    for process in psutil.process_iter(["cwd", "cmdline"]):
        if process.info["cwd"] == str(folder) and "--data-dir" in (process.info["cmdline"] or ()):
            process.send_signal(signal.SIGKILL)
