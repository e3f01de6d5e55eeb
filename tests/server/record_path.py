"""Follows one record through three brokers in this process: which functions of the package it passes, in which order.

Run as a program, so that nothing else runs in it: ``python -m tests.server.record_path FILE`` writes JSON, for each
call of a function of ``replica`` between ``send`` and its outcome the functions of ``replica`` on its stack, outermost
first.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import replica
from benchmarks.brokers import free_ports
from replica.client.admin import Admin
from replica.client.producer import Producer
from replica.client.producer_config import ProducerConfig
from replica.core.metadata.replay import METADATA_LOG
from replica.core.rules import Rules
from replica.ids import TopicPartition
from replica.server.clocks import monotonic_ms
from replica.server.main import ReplicaProcess
from replica.server.options import ServerOptions
from replica.storage import LogTable, open_directory
from replica.storage.meta_properties import random_directory_id

PACKAGE = Path(replica.__file__).parent
TOPIC = "way"
TOPIC_PARTITION = TopicPartition(TOPIC, 0)
FOR_A_WHILE_MS = 250
WARM_UPS = 20
"""So many records before it: connections are there, and followers wait for the next."""


class Tracer:
    """Notes the stack of every call of a function of the package, in all threads."""

    def __init__(self) -> None:
        self.is_on = False
        self.stacks: list[Sequence[str]] = []

    def begin(self) -> None:
        """Watch this thread, and those that begin from now on."""
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Hear of one call."""
        if self.is_on and event == "call" and _is_ours(frame):
            self.stacks.append(tuple(_names(frame))[::-1])


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(PACKAGE))


def _names(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        if _is_ours(frame):
            yield frame.f_code.co_qualname
        frame = frame.f_back


def brokers(folder: Path) -> list[ReplicaProcess]:
    """Three brokers of a new cluster, each a voter."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    voters = ",".join(f"{number}={at}={random_directory_id()}" for number, at in enumerate(addresses, 1))
    made = []
    for number, address in enumerate(addresses, 1):
        where = folder / str(number)
        identity = ["--cluster-id", "way", "--replica-id", str(number), "--initial-voters", voters]
        command = [sys.executable, "-m", "replica.cli", "format", "--data-dir", str(where), *identity]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        options = ServerOptions(
            data_dir=where, listen=address, voters={}, advertised_address=address, log_level="critical"
        )
        storage = LogTable.open(open_directory(where), (METADATA_LOG,))
        made.append(ReplicaProcess(options=options, rules=Rules(), storage=storage, groups={}))
    return made


def is_waited_at(process: ReplicaProcess) -> bool:
    """Whether this broker leads, and both followers will wait for a record for a while."""
    broker = process._core.broker
    if broker is None or TOPIC_PARTITION not in broker.partitions or not broker.partitions[TOPIC_PARTITION].is_leader:
        return False
    waiting = list(broker.server._parked_sessions)
    return len(waiting) == 2 and all(each.deadline_ms > monotonic_ms() + FOR_A_WHILE_MS for each in waiting)


async def follow(folder: Path, tracer: Tracer) -> None:
    """Bring the brokers up, write, and watch one record more."""
    processes = brokers(folder)
    for process in processes:
        await process.bind()
    running = [asyncio.create_task(process.run()) for process in processes]
    address = processes[0]._address
    async with Admin(address) as admin:
        while sum(not broker.fenced for broker in (await admin.describe_cluster()).brokers) < len(processes):
            await asyncio.sleep(0.1)
        await admin.create_topic(TOPIC, partition_count=1, replication_factor=len(processes))
        async with Producer(address, ProducerConfig(linger_ms=0)) as producer:
            for _ in range(WARM_UPS):
                await producer.send(TOPIC, b"v")
            while not any(map(is_waited_at, processes)):
                await asyncio.sleep(0.01)
            tracer.is_on = True
            await producer.send(TOPIC, b"v")
            tracer.is_on = False
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def main(output: Path) -> None:
    """Follow a record, and write what was seen."""
    tracer = Tracer()
    tracer.begin()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow(Path(folder), tracer))
    output.write_text(json.dumps(tracer.stacks))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
