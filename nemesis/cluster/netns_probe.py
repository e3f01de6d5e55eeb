"""What this machine's kernel and programs can do for clusters in network namespaces: tried, not guessed.

Owns the trials. Each is made in a process of its own, in a network that is gone with it; the answers are JSON, one
object, in which an absent reason says that it works. Run as ``python -m nemesis.cluster.netns_probe``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache

from nemesis.cluster.netns_enter import enter
from nemesis.cluster.netns_tools import (
    Shaped,
    ToolError,
    drop_rule,
    filter_script,
    loss_rule,
    reset_rules,
    run_tool,
    shape_script,
    tool,
    unshape_words,
)
from nemesis.errors import UnsupportedError

PROBED_S_MAX = 60.0
_HERE, _THERE, _LOOPBACK = "10.0.0.1", "10.0.0.2", "127.0.0.1"
_DEVICE = "trial"


def _network() -> None:
    tool("nsenter")
    lines = [f"link add {_DEVICE} type bridge", "link add here type veth peer name there", "link set here up"]
    run_tool(("ip", "-batch", "-"), "\n".join(lines) + "\n")


def _filter() -> None:
    run_tool(("nft", "-f", "-"), filter_script([*reset_rules(_HERE, _THERE), drop_rule(_HERE, _THERE)]))


def _dice() -> None:
    run_tool(("nft", "-f", "-"), filter_script([loss_rule(_HERE, _THERE, 40)]))


def _throttle() -> None:
    _shape(Shaped(destination=_THERE, rate_bytes_per_s=1000))


def _netem() -> None:
    try:
        _shape(Shaped(destination=_THERE, latency_ms=10, jitter_ms=1))
    except ToolError as error:
        raise ToolError(f"this kernel has no netem, or may not load it ({error})") from error


def _shape(shaped: Shaped) -> None:
    with suppress(ToolError):
        run_tool(unshape_words(_DEVICE))
    run_tool(("tc", "-batch", "-"), shape_script(_DEVICE, [shaped]))


def _reset() -> None:
    """A kernel that cannot do it says nothing: only the connection shows it."""
    with socket.create_server((_LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((_LOOPBACK, port), timeout=1) as client, server.accept()[0]:
            run_tool(("ss", "-H", "-t", "-K", "dst", _LOOPBACK, "dport", "=", f":{port}"))
            try:
                client.recv(1)
            except ConnectionError:
                return
            except TimeoutError:
                pass
    raise ToolError("this kernel resets no connections for ss: it has no CONFIG_INET_DIAG_DESTROY")


TRIALS: Mapping[str, Callable[[], None]] = {
    "network": _network,
    "filter": _filter,
    "dice": _dice,
    "throttle": _throttle,
    "netem": _netem,
    "reset": _reset,
}
"""Bridges and pairs of interfaces; rules that drop and reset; rules that drop by chance; ``htb`` with filters by
address; ``netem``; ``ss -K``."""


def main() -> None:
    """Try everything and print what came of it."""
    try:
        enter()
    except UnsupportedError as error:
        sys.stdout.write(json.dumps(dict.fromkeys(TRIALS, str(error))))
        return
    sys.stdout.write(json.dumps({name: _why_not(trial) for name, trial in TRIALS.items()}))


def _why_not(trial: Callable[[], None]) -> str | None:
    try:
        trial()
    except ToolError as error:
        return str(error)
    return None


@cache
def probed() -> Mapping[str, str | None]:
    """For each trial why it fails; absent if it works."""
    command = (sys.executable, "-m", "nemesis.cluster.netns_probe")
    # What lies in the working directory must not be imported instead of what is installed.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBED_S_MAX, env=environment, check=True
        )
        answers: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return dict.fromkeys(TRIALS, f"the trial itself has failed: {error}")
    return answers


def why_no_clusters() -> str | None:
    """Why there can be no cluster in network namespaces here; absent if there can."""
    return probed()["network"] or probed()["filter"]


if __name__ == "__main__":
    main()
