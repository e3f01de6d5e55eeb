"""The clients for scripts and notebooks: the same calls, each of which waits for its answer.

Owns one event loop in a thread of its own, in which all clients of this module work: gRPC wants one loop for a process,
and a notebook's own is taken. Arguments, results and errors are those of the calls that are named here. May be used by
several threads, but not within ``on_delivery``, which that loop calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import cache, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from replica.client import admin, consumer, producer
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Closing
from replica.client.consumer_config import ConsumerConfig
from replica.client.producer_config import ProducerConfig

ClientT = TypeVar("ClientT", bound=Closing)
ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")


class _Worker:
    """The loop, and the thread in which it runs as long as the process."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="highwater-clients", daemon=True)
        self.thread.start()


@cache
def _worker() -> _Worker:
    """The one of this process, begun with the first client."""
    return _Worker()


def _run(call: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Make a call in the loop, and wait for its end. Who is interrupted takes back what can be."""
    worker = _worker()
    if threading.current_thread() is worker.thread:
        raise RuntimeError("this thread works for all clients and cannot wait; use the asyncio clients in a callback")

    async def awaited() -> ResultT:
        return await call()

    future = asyncio.run_coroutine_threadsafe(awaited(), worker.loop)
    try:
        return future.result()
    finally:
        future.cancel()


class Front(Generic[ClientT]):
    """A client that was made in the loop, and is closed there: by ``close``, or at the end of a ``with``.

    ``options`` of its kinds are those of the asyncio client of the same name.
    """

    def __init__(self, make: Callable[[], ClientT]) -> None:
        async def made() -> ClientT:
            return make()

        self._client: ClientT | None = _run(made)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give back what is held; a second time nothing is."""
        client, self._client = self._client, None
        if client is not None:
            _run(client.close)

    def _open(self) -> ClientT:
        if self._client is None:
            raise RuntimeError(f"the {type(self).__name__.lower()} is closed; make another one")
        return self._client


def _waits(
    method: Callable[Concatenate[ClientT, ArgumentsT], Awaitable[ResultT]],
) -> Callable[Concatenate[Front[ClientT], ArgumentsT], ResultT]:
    """The same call, which waits for what it gives."""

    @wraps(method)
    def call(self: Front[ClientT], /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ResultT:
        client = self._open()
        return _run(lambda: method(client, *args, **kwargs))

    return call


def _at_once(
    method: Callable[Concatenate[ClientT, ArgumentsT], ResultT],
) -> Callable[Concatenate[Front[ClientT], ArgumentsT], ResultT]:
    """The same call, made in the loop."""

    @wraps(method)
    def call(self: Front[ClientT], /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ResultT:
        client = self._open()

        async def made() -> ResultT:
            return method(client, *args, **kwargs)

        return _run(made)

    return call


class Producer(Front[producer.Producer]):
    """Writes records, and waits until they are written: ``send`` for one, ``send_many`` for thousands."""

    def __init__(self, bootstrap: str | Iterable[str], config: ProducerConfig | None = None, **options: Any) -> None:
        super().__init__(lambda: producer.Producer(bootstrap, config, **options))

    send = _waits(producer.Producer.send)
    send_and_wait = _waits(producer.Producer.send_and_wait)
    send_many = _waits(producer.Producer.send_many)


class Consumer(Front[consumer.Consumer]):
    """Reads records: ``poll`` as objects, ``poll_batches`` and ``poll_arrow`` as columns."""

    def __init__(self, bootstrap: str | Iterable[str], config: ConsumerConfig | None = None, **options: Any) -> None:
        super().__init__(lambda: consumer.Consumer(bootstrap, config, **options))

    assign = _at_once(consumer.Consumer.assign)
    seek = _at_once(consumer.Consumer.seek)
    seek_to_beginning = _at_once(consumer.Consumer.seek_to_beginning)
    seek_to_end = _at_once(consumer.Consumer.seek_to_end)
    partitions_of = _waits(consumer.Consumer.partitions_of)
    position = _waits(consumer.Consumer.position)
    poll = _waits(consumer.Consumer.poll)
    poll_batches = _waits(consumer.Consumer.poll_batches)
    poll_arrow = _waits(consumer.Consumer.poll_arrow)
    beginning_offsets = _waits(consumer.Consumer.beginning_offsets)
    end_offsets = _waits(consumer.Consumer.end_offsets)
    offsets_for_times = _waits(consumer.Consumer.offsets_for_times)


class Admin(Front[admin.Admin]):
    """Creates, changes and describes topics and the cluster."""

    def __init__(self, bootstrap: str | Iterable[str], config: ViewConfig | None = None, **options: Any) -> None:
        super().__init__(lambda: admin.Admin(bootstrap, config, **options))

    create_topic = _waits(admin.Admin.create_topic)
    delete_topic = _waits(admin.Admin.delete_topic)
    alter_topic = _waits(admin.Admin.alter_topic)
    delete_records = _waits(admin.Admin.delete_records)
    elect_leader = _waits(admin.Admin.elect_leader)
    alter_partition_reassignments = _waits(admin.Admin.alter_partition_reassignments)
    list_partition_reassignments = _waits(admin.Admin.list_partition_reassignments)
    unregister_broker = _waits(admin.Admin.unregister_broker)
    create_acls = _waits(admin.Admin.create_acls)
    delete_acls = _waits(admin.Admin.delete_acls)
    describe_acls = _waits(admin.Admin.describe_acls)
    alter_configs = _waits(admin.Admin.alter_configs)
    describe_configs = _waits(admin.Admin.describe_configs)
    update_features = _waits(admin.Admin.update_features)
    describe_features = _waits(admin.Admin.describe_features)
    list_topics = _waits(admin.Admin.list_topics)
    describe_cluster = _waits(admin.Admin.describe_cluster)
    describe_replicas = _waits(admin.Admin.describe_replicas)
    describe_topic = _waits(admin.Admin.describe_topic)
