"""The process that owns a test's cluster: replicas, links and ports live and die with it.

Run as ``python -m nemesis.plugin.host --folder FOLDER OPTION...``, with the options of ``nemesis run`` that say what a
cluster is made of. Reads requests and writes answers, one JSON object a line, on standard input and output; the end of
its input, SIGTERM, or the end of whoever started it ends the cluster. Owns the calls and their form. A process of its
own, so that neither an event loop nor gRPC is in the process that runs the tests.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nemesis.cli.cluster import cluster_options, replica_options
from nemesis.cluster.closing import closed_by, notes_of, told
from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.links import CLIENTS, LinkMode
from nemesis.runner import variant_server


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), required=True)
@click.option("--variant")
@cluster_options
def main(folder: Path, variant: str | None, **given: Any) -> None:
    """Start a cluster in a folder and do with it what standard input says."""
    options = replica_options(given)
    if variant is not None:
        options = replace(options, server=variant_server(variant))
    kind = ClusterKind(given["cluster"])
    try:
        if kind is ClusterKind.NETNS:
            raise UnsupportedError("the clients of a test are outside of the network of a cluster of the kind netns")
        cluster = ReplicaCluster(new_host(kind, folder, options.nodes), options)
    except UnsupportedError as error:
        answer({"error": str(error)})
        return
    asyncio.run(_serve(cluster))


async def _serve(cluster: ReplicaCluster) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    calls = Calls(cluster)
    try:
        async with closed_by(cluster.close):
            answer(await calls.open())
            async for line in await _lines():
                answer(await calls.answer_to(json.loads(line)))
    except NodeFailedError as error:
        answer({"error": told(error)})
    except asyncio.CancelledError as error:
        for note in notes_of(error):
            click.echo(note, err=True)


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def answer(document: Mapping[str, Any]) -> None:
    """Write one answer."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


class Calls:
    """What can be asked of a cluster, by name."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self._cluster = cluster

    async def open(self) -> dict[str, Any]:
        """Start everything, wait until it can be used, and say how to reach it. Raises NodeFailedError."""
        await self._cluster.open()
        await self._cluster.create_logs()
        return {
            "addresses": self._cluster.addresses(CLIENTS),
            "topic_partitions": self._cluster.topic_partitions,
        }

    async def answer_to(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked: ``{"do": name, ...}`` becomes ``{"done": result}``, or ``{"error": why}``."""
        named = dict(request)
        try:
            return {"done": await getattr(self, f"do_{named.pop('do')}")(**named)}
        except (NodeFailedError, ValueError) as error:
            return {"error": str(error)}
        except Exception as error:
            # One call that goes wrong is no reason to take the cluster from the test; host.log has the way to it.
            traceback.print_exc()
            return {"error": f"{request.get('do')} went wrong: {error!r}"}

    async def do_start(self, node: int) -> None:
        """Start a replica and wait until it serves."""
        await self._cluster.start(node)

    async def do_stop(self, node: int) -> bool:
        """SIGTERM, and wait."""
        return await self._cluster.stop(node)

    async def do_kill(self, node: int) -> bool:
        """SIGKILL."""
        return await self._cluster.kill(node)

    async def do_pause(self, node: int) -> bool:
        """SIGSTOP."""
        return await self._cluster.pause(node)

    async def do_resume(self, node: int) -> bool:
        """SIGCONT."""
        return await self._cluster.resume(node)

    async def do_cut(self, key: str, links: list[list[int]], mode: str) -> None:
        """Break directed links until they are healed by the key."""
        directed = frozenset((source, destination) for source, destination in links)
        await self._cluster.links.cut(key, directed, LinkMode(mode))

    async def do_heal(self) -> None:
        """Let all links pass again."""
        await self._cluster.links.heal_all()

    async def do_state(self) -> dict[str, Any] | None:
        """Who controls, who is active, and of each partition its leader, its epoch, and who is in sync."""
        state = await self._cluster.cluster_state()
        if state is None:
            return None
        partitions = {
            name: {"leader": of.leader, "epoch": of.leader_epoch, "replicas": of.replicas, "in_sync": of.isr}
            for name, of in state.partitions.items()
        }
        return {"controller": state.controller, "active": sorted(state.active), "partitions": partitions}


if __name__ == "__main__":
    main()
