"""The programs that set up networks, run in a namespace of the harness: ``ip``, ``nft``, ``tc``, ``ss``, ``nsenter``.

Owns how they are found and called. A namespace is an open file of the harness, absent for the harness's own.

The words in which the kernel is told what to do with packets: rules of ``nft``, classes of ``tc``, kills of ``ss``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nemesis.errors import NodeFailedError

CALL_S_MAX = 10.0
SYSTEM_PATH = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/bin", "/bin"))
"""Where these are, also where the path of an ordinary user does not lead."""
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "nft": "nftables", "nsenter": "util-linux"}


class ToolError(NodeFailedError):
    """A program is not there, or has refused; the message has its words."""


def tool(name: str) -> str:
    """The path of a program. Raises ToolError, which says what to install."""
    found = shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise ToolError(f"the program {name} is not there: install {PACKAGES[name]}")
    return found


def inside_of(namespace: int | None) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words before a command that is to run in a namespace, and the open files that they need."""
    if namespace is None:
        return (), ()
    return (tool("nsenter"), f"--net=/proc/self/fd/{namespace}", "--"), (namespace,)


def run_tool(words: Sequence[str], script: str = "", *, namespace: int | None = None, files: Sequence[int] = ()) -> str:
    """Run a program to its end; what it printed. Raises ToolError if it does not end well."""
    before, needed = inside_of(namespace)
    command = [*before, tool(words[0]), *words[1:]]
    try:
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            timeout=CALL_S_MAX,
            pass_fds=(*needed, *files),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        raise ToolError(f"{' '.join(words)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


TABLE = "inet nemesis"
DIALLED_PORT_MAX = 32_767
"""Below the ports that the kernel gives to those who dial: what goes there was dialled by whoever sends it."""
UNSHAPED_BITS_PER_S = 100_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """How what goes to one address is shaped: no faster than this, and so much later; absent is no limit."""

    destination: str
    rate_bytes_per_s: int | None = None
    latency_ms: int = 0
    jitter_ms: int = 0


def drop_rule(source: str, destination: str) -> str:
    """A rule that loses everything."""
    return f"ip saddr {source} ip daddr {destination} drop"


def loss_rule(source: str, destination: str, percent: int) -> str:
    """A rule that loses a packet now and then, by the kernel's dice, which know no 100 of 100."""
    if percent >= 100:
        return drop_rule(source, destination)
    return f"ip saddr {source} ip daddr {destination} numgen random mod 100 < {percent} drop"


def reset_rules(source: str, destination: str) -> Iterable[str]:
    """Rules that reset what the source dials, as long as they last.

    A reset passes: by it the destination learns as well that the connection is no more.
    """
    from_source = f"ip saddr {source} ip daddr {destination}"
    yield f"{from_source} tcp flags & rst == rst accept"
    yield f"{from_source} tcp dport 1-{DIALLED_PORT_MAX} reject with tcp reset"


def filter_script(rules: Iterable[str], *, hook: str = "input") -> str:
    """All of our rules in a namespace, in place of those before; the filter reads a script as a whole or not at all.

    Each hook, of what comes in and of what goes out, has a table of its own.
    """
    table = TABLE if hook == "input" else f"{TABLE}-{hook}"
    body = "".join(f"\n    {rule}" for rule in rules)
    chain = f"  chain {hook} {{\n    type filter hook {hook} priority 0; policy accept;{body}\n  }}\n"
    return f"table {table}\ndelete table {table}\ntable {table} {{\n{chain}}}\n"


def shape_script(device: str, shaped: Iterable[Shaped]) -> str:
    """A class of its own for each address, of which nothing is there yet; what goes elsewhere is left alone."""
    lines = [f"qdisc add dev {device} root handle 1: htb default 0"]
    for number, to in enumerate(shaped, 2):
        bits = UNSHAPED_BITS_PER_S if to.rate_bytes_per_s is None else 8 * to.rate_bytes_per_s
        lines.append(f"class add dev {device} parent 1: classid 1:{number} htb rate {bits}bit burst 2k quantum 1600")
        if to.latency_ms or to.jitter_ms:
            late = f"netem delay {to.latency_ms}ms {to.jitter_ms}ms limit 100000"
            lines.append(f"qdisc add dev {device} parent 1:{number} handle {number}: {late}")
        wanted = f"match ip dst {to.destination}/32 flowid 1:{number}"
        lines.append(f"filter add dev {device} parent 1: protocol ip prio 1 u32 {wanted}")
    return "\n".join(lines) + "\n"


def unshape_words(device: str) -> tuple[str, ...]:
    """The command that takes all classes of a device away."""
    return ("tc", "qdisc", "del", "dev", device, "root")


def reset_words(destination: str) -> tuple[str, ...]:
    """The command that resets what is dialled to an address, and prints a line for each connection."""
    return ("ss", "-H", "-t", "-K", "dst", destination, "dport", "le", f":{DIALLED_PORT_MAX}")
