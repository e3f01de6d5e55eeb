"""The fixture ``cluster``: real replicas that a test writes to, and breaks by hand.

Owns the handle: it talks to the process that owns the cluster, and ends it. Plain calls without an event loop, so that
tests of any kind can use it; clients are those of ``replica.client`` and are imported when one is made.
"""

from __future__ import annotations

import itertools
import json
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nemesis.ci.command import end, start

if TYPE_CHECKING:
    from replica.client import Admin, Consumer, ConsumerConfig, Producer, ProducerConfig

HOST = ("-m", "nemesis.plugin.host")
STARTED_S_MAX = 180.0
ANSWERED_S_MAX = 60.0
WAITED_S_DEFAULT = 30.0
_LOOK_S = 0.05


class ClusterError(Exception):
    """The cluster does not start, does not do what it is told, or does not become what was waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What is decided about one partition; ``leader`` is absent while it is offline."""

    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as the replica knows it that knows most; ``active`` replicas may be in sync and lead."""

    controller: int | None
    active: tuple[int, ...]
    partitions: Mapping[str, PartitionView]


class Cluster:
    """Replicas in ``folder``, one process each, ready when this is made. Close it; ``with`` does that."""

    def __init__(self, folder: Path, words: Sequence[str] = (), *, host: Sequence[str] = HOST) -> None:
        """Start a cluster; ``words`` are options of ``nemesis run`` that say what of. Raises ClusterError.

        ``host`` is the process that owns it, as arguments of Python: a port, for tests without a cluster.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._cuts = itertools.count()
        command = (*host, "--folder", str(folder), *words)
        with (folder / "host.log").open("ab") as log:
            self._host = start(command, stdin=subprocess.PIPE, stderr=log)
        try:
            said = _without_error(self._answer(STARTED_S_MAX))
        except BaseException:
            self.close()
            raise
        self.addresses: Mapping[int, str] = {int(node): address for node, address in said["addresses"].items()}
        """Where clients reach each replica: the address stays the same while the replica is down or moves."""
        self.topic_partitions: tuple[str, ...] = tuple(said["topic_partitions"])
        """The partitions of the topics that are there from the start."""

    def close(self) -> None:
        """End every process of the cluster. Closing again does nothing."""
        end(self._host)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- clients ------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the replicas, from 1."""
        return tuple(self.addresses)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """The addresses that a client begins with."""
        return tuple(self.addresses.values())

    def producer(self, config: ProducerConfig | None = None) -> Producer:
        """A producer; it belongs to the event loop in which it is used, and is closed by whoever asked for it."""
        from replica.client import Producer

        return Producer(self.bootstrap) if config is None else Producer(self.bootstrap, config)

    def consumer(self, config: ConsumerConfig | None = None) -> Consumer:
        """A consumer, as above."""
        from replica.client import Consumer

        return Consumer(self.bootstrap) if config is None else Consumer(self.bootstrap, config)

    def admin(self) -> Admin:
        """An admin client, as above."""
        from replica.client import Admin

        return Admin(self.bootstrap)

    # --- faults -------------------------------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        """Start a replica on the data that it has, and wait until it serves; nothing if it runs.

        Raises ClusterError, as the next ones do, for a replica that does not exist.
        """
        self._call_node("start", node)

    def stop(self, node: int) -> bool:
        """Let a replica stop gracefully; whether there was something to stop."""
        return bool(self._call_node("stop", node))

    def kill(self, node: int) -> bool:
        """SIGKILL a replica; whether there was something to kill."""
        return bool(self._call_node("kill", node))

    def pause(self, node: int) -> bool:
        """SIGSTOP a replica; whether it was running."""
        return bool(self._call_node("pause", node))

    def resume(self, node: int) -> bool:
        """SIGCONT a replica; whether it was paused."""
        return bool(self._call_node("resume", node))

    def isolate(self, *nodes: int) -> None:
        """Part these replicas, together, from the other replicas; clients still reach all of them."""
        others = [node for node in self.nodes if node not in nodes]
        self.cut([(a, b) for one in nodes for other in others for a, b in ((one, other), (other, one))])

    def cut(self, links: Sequence[tuple[int, int]], *, mode: str = "blackhole") -> None:
        """Break directed links, each of a source and a destination: ``blackhole`` or ``reset``."""
        self._call("cut", key=f"cut {next(self._cuts)}", links=[list(link) for link in links], mode=mode)

    def heal(self) -> None:
        """Let all links pass again. Who was killed or paused stays so."""
        self._call("heal")

    # --- looking ------------------------------------------------------------------------------------------------------

    def view(self) -> ClusterView | None:
        """What is decided now, by links that no fault touches; absent if nobody answers at once."""
        state = self._call("state")
        if state is None:
            return None
        partitions = {
            name: PartitionView(
                leader=of["leader"], epoch=of["epoch"], replicas=tuple(of["replicas"]), in_sync=tuple(of["in_sync"])
            )
            for name, of in state["partitions"].items()
        }
        return ClusterView(controller=state["controller"], active=tuple(state["active"]), partitions=partitions)

    def wait(self, holds: Callable[[ClusterView], bool], *, at_most_s: float = WAITED_S_DEFAULT) -> ClusterView:
        """Look at the cluster until it is as wanted. Raises ClusterError when the time is up, and says how it is."""
        deadline = time.monotonic() + at_most_s
        while True:
            view = self.view()
            if view is not None and holds(view):
                return view
            if time.monotonic() > deadline:
                raise ClusterError(f"the cluster did not become what was waited for in {at_most_s:g} s: {view}")
            time.sleep(_LOOK_S)

    def wait_leader(
        self, topic_partition: str, *, other_than: int | None = None, at_most_s: float = WAITED_S_DEFAULT
    ) -> int:
        """Wait until somebody leads, other than this one if one is named, and return who. Raises ClusterError."""

        def led(view: ClusterView) -> bool:
            of = view.partitions.get(topic_partition)
            return of is not None and of.leader not in (None, other_than)

        leader = self.wait(led, at_most_s=at_most_s).partitions[topic_partition].leader
        assert leader is not None, topic_partition
        return leader

    def wait_in_sync(self, *, at_most_s: float = WAITED_S_DEFAULT) -> None:
        """Wait until all replicas of every partition are in sync. Raises ClusterError."""
        self.wait(
            lambda view: all(set(of.in_sync) == set(of.replicas) for of in view.partitions.values()),
            at_most_s=at_most_s,
        )

    # --- the process that owns it -------------------------------------------------------------------------------------

    def _call_node(self, name: str, node: int) -> Any:
        if node not in self.addresses:
            raise ClusterError(f"there is no replica {node}: give one of {', '.join(map(str, self.nodes))}")
        return self._call(name, node=node)

    def _call(self, name: str, **named: Any) -> Any:
        request = json.dumps({"do": name, **named})
        try:
            said = self._asked(request)
        except BaseException:
            # An answer that nobody has read would be taken for that to the next call.
            self.close()
            raise
        return _without_error(said).get("done")

    def _asked(self, request: str) -> dict[str, Any]:
        assert self._host.stdin is not None
        try:
            self._host.stdin.write(request + "\n")
            self._host.stdin.flush()
        except (OSError, ValueError):
            raise ClusterError(f"the cluster is gone: see {self.folder / 'host.log'}") from None
        return self._answer(ANSWERED_S_MAX)

    def _answer(self, at_most_s: float) -> dict[str, Any]:
        assert self._host.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._host.stdout, selectors.EVENT_READ)
            if not selector.select(at_most_s):
                raise ClusterError(f"the cluster did not answer within {at_most_s:g} s: see {self.folder / 'host.log'}")
        line = self._host.stdout.readline()
        if not line:
            raise ClusterError(f"the cluster ended: {self._last_words()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def _last_words(self) -> str:
        lines = (self.folder / "host.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _without_error(said: dict[str, Any]) -> dict[str, Any]:
    if "error" in said:
        raise ClusterError(said["error"])
    return said
