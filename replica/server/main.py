"""A replica process from start to end: open the disk, bind the port, serve, hand over, close.

Owns the order of these steps and the exit code. Whatever forbids a start (a foreign directory, a damaged segment, a
taken port) is one sentence and exit code 1, before anything is served.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2_grpc  # type: ignore[import-untyped]  # ships no types
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]  # nor does this
from structlog.typing import FilteringBoundLogger

from replica.core.config import InvalidConfigError
from replica.core.events import PeerRefused, ResignRequested
from replica.core.messages import Request, Response
from replica.core.metadata.replay import METADATA_LOG
from replica.core.quorum import QuorumLog
from replica.core.quorum.voter_history import VoterHistory
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import ReplicaId, TopicPartition
from replica.machines import AppliedLog
from replica.rpc.addresses import AddressTable, ClientAddresses, InvalidAddressError, addresses_of, check_address
from replica.rpc.channels import server_options
from replica.rpc.codec import SERVICES
from replica.rpc.tls import TlsError
from replica.rpc.transport import GrpcTransport
from replica.server.clocks import MACHINE_CLOCKS, Clocks, monotonic_ms
from replica.server.connection_limit import ConnectionLimit
from replica.server.descriptors import descriptor_budget, raise_descriptor_limit
from replica.server.driver import Driver
from replica.server.groups import make_groups
from replica.server.health import Health
from replica.server.housekeeping import Housekeeping
from replica.server.leader_addresses import HeardLeaders, LeaderAddresses
from replica.server.live_settings import LiveSettings, service_limits
from replica.server.load import ReplicaLoad
from replica.server.log_lines import configure_logging, logger_of
from replica.server.loop_delay import LoopDelay
from replica.server.memory import freeze_what_is_there, keep_free_memory
from replica.server.memory_limit import MemoryLimit
from replica.server.metrics import Metrics
from replica.server.observer import ReplicaObserver
from replica.server.options import ProcessRole, ServerOptions
from replica.server.peer_watch import DiallingWatch
from replica.server.quotas import Quotas
from replica.server.service import ReplicaService
from replica.server.throttle import Throttle
from replica.server.view import CoreView, ReplicaView
from replica.server.voter_addresses import VoterAddresses
from replica.storage import OS_FILES, BoundedFiles, Files, LogConfig, LogTable, StorageError, open_directory

if TYPE_CHECKING:
    from replica.server.tracing import Tracing

EXIT_STOPPED = 0
EXIT_REFUSED_OR_HALTED = 1
TRACES_EXPORTER = "OTEL_TRACES_EXPORTER"
"""Where traces go: `console`, `otlp`, or nowhere, and then nothing of OpenTelemetry is loaded."""


class StartRefusedError(Exception):
    """Something forbids this replica to start; the message is the one sentence that its operator needs."""


def serve(
    options: ServerOptions, *, rules: Rules | None = None, files: Files | None = None, clocks: Clocks | None = None
) -> int:
    """Run one replica until a signal or a failure ends it; returns the process' exit code.

    ``rules`` are the protocol's own unless a test harness wants to see a wrong one convicted, ``files`` the operating
    system's and ``clocks`` the machine's unless it wants to have its hands on them.
    """
    configure_logging(level=options.log_level)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(options, rules or Rules(), files or OS_FILES, clocks or MACHINE_CLOCKS))
    except (StartRefusedError, StorageError, InvalidConfigError, InvalidAddressError) as refusal:
        logger_of(options.replica_id).error("start_refused", reason=str(refusal))
        sys.stderr.write(f"replica: cannot start: {refusal}\n")
        return EXIT_REFUSED_OR_HALTED


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Prefer uvloop, which takes a third less time per call; it is not available everywhere."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(options: ServerOptions, rules: Rules, files: Files, clocks: Clocks) -> int:
    groups = make_groups(options.groups)
    limit, listeners = raise_descriptor_limit(), 2 if options.peer_listen else 1
    budget = descriptor_budget(limit, connections_max=options.connections_max, listeners=listeners)
    options = replace(options, connections_max=budget.connections)
    with ExitStack() as cleanup:
        storage = _open_storage(options, rules, BoundedFiles(files, open_max=budget.files), groups)
        cleanup.callback(storage.abandon)
        directory = storage.directory
        structlog.contextvars.bind_contextvars(replica_id=directory.replica_id)
        logger_of(directory.replica_id).info(
            "descriptors_divided",
            limit=limit,
            connections=budget.connections,
            partitions_at_once=budget.files,
            logs=len(storage.recovered),
        )
        try:
            process = ReplicaProcess(options=options, rules=rules, storage=storage, groups=groups, clocks=clocks)
            cleanup.callback(process.end_traces)
            await process.bind()
            cleanup.callback(process.serve_metrics())
        except (StartRefusedError, InvalidAddressError, InvalidConfigError):
            # Nothing was written since the logs were opened: the next start need not search them again, and may say
            # as which broker the last one ended.
            storage.close_clean(directory.clean_broker_epoch)
            raise
        return await process.run()


def _open_storage(options: ServerOptions, rules: Rules, files: Files, groups: Iterable[TopicPartition]) -> LogTable:
    """Lock the data directory, check whose it is, and recover its logs. Raises StorageError with one sentence."""
    directory = open_directory(
        options.data_dir,
        cluster_id=options.cluster_id,
        replica_id=options.replica_id,
        log_dirs=options.log_dirs,
        files=files,
    )
    config = LogConfig(segment_bytes=options.log_segment_bytes)
    return LogTable.open(directory, (METADATA_LOG, *groups), config=config, rules=rules)


def _check_roles(options: ServerOptions, storage: LogTable) -> None:
    """Refuse to leave partitions lying about that nobody would keep."""
    held = sorted(name for name, recovered in storage.recovered.items() if recovered.is_of_partition)
    if held and ProcessRole.BROKER not in options.roles:
        raise StartRefusedError(
            f"{storage.directory.path} holds {len(held)} partitions ({held[0]} is one), which only a broker can keep: "
            "add broker to --roles, or choose another data directory"
        )


class ReplicaProcess:
    """The parts of one running replica, wired together."""

    def __init__(
        self,
        *,
        options: ServerOptions,
        rules: Rules,
        storage: LogTable,
        groups: Mapping[TopicPartition, AppliedLog],
        clocks: Clocks = MACHINE_CLOCKS,
    ) -> None:
        self._options, self._storage = options, storage
        _check_roles(options, storage)
        self._replica_id = storage.directory.replica_id
        self._logger: FilteringBoundLogger = logger_of(self._replica_id)
        self._core = self._make_core(rules, groups)
        storage.forget_snapshots()
        heard = HeardLeaders(cluster_id=storage.directory.cluster_id, logs=self._core.logs)
        addresses, told = (self._address_table(dial, heard) for dial in (options.dial, {}))
        self._leaders = LeaderAddresses(told=told, heard=heard)
        self._metrics = Metrics(view := CoreView(self._core))
        self._transport = GrpcTransport(addresses.address_of, tls=options.tls)
        observer = ReplicaObserver(
            view=view,
            addresses=addresses,
            end_offsets={log: recovered.log_end_offset for log, recovered in storage.recovered.items()},
            damaged={log: found.damage for log, found in storage.recovered.items() if found.damage is not None},
            metrics=self._metrics,
            logger=self._logger,
            with_steps=options.log_level == "debug",
        )
        self._tracing = tracing = _tracing_of(storage.directory.cluster_id, view)
        self._driver = Driver(
            core=self._core,
            storage=storage,
            transport=self._transport,
            leaders=self._leaders,
            observer=observer if tracing is None else tracing.observing(observer),
            clocks=clocks,
            watch=DiallingWatch(connections=self._transport, submit=self._on_peer_refused, now_ms=clocks.monotonic_ms),
        )
        self._health = Health(view=view, metrics=self._metrics, logger=self._logger)
        call = self._driver.call if tracing is None else tracing.calling(self._driver.call)
        self._service = self._make_service(call, addresses, clocks)
        self._metrics.watch(ReplicaLoad(self._driver, self._service, storage.directory.tails))
        self._house = Housekeeping(storage=storage, options=options, now_ms=monotonic_ms())
        self._settings = LiveSettings(
            options=options,
            service=self._service,
            house=self._house,
            storage=storage,
            observer=observer,
            logger=self._logger,
        )
        self._driver.apply_settings = self._settings.apply
        self._servers = [("--listen", options.listen, self._make_server(with_peers=not options.peer_listen))]
        """One for all, or one for clients and one for other replicas: by which option, where, and what serves."""
        if options.peer_listen:
            self._servers.append(("--peer-listen", options.peer_listen, self._make_server(with_peers=True)))

    def _make_service(
        self, call: Callable[[Request], Awaitable[Response]], addresses: AddressTable, clocks: Clocks
    ) -> ReplicaService:
        """Make what serves the RPCs of clients by ``call``, and those of replicas."""
        return ReplicaService(
            call=call,
            call_of_replica=self._driver.call,
            leaders=self._leaders,
            addresses=ClientAddresses(addresses, lambda: self._core.metadata.image.brokers),
            logger=self._logger,
            limits=service_limits(self._options),
            counts=self._metrics.requests,
            now_ms=clocks.monotonic_ms,
            authorizer=self._options.access.authorizer(self._core, self._options.groups, self._logger),
            throttle=Throttle(
                Quotas(lambda: self._settings.limits), counts=self._metrics.requests, now_ms=clocks.monotonic_ms
            ),
        )

    def _make_core(self, rules: Rules, groups: Mapping[TopicPartition, AppliedLog]) -> Replica:
        """Make the core of the replica whose disk this is."""
        directory = self._storage.directory
        return Replica(
            config=self._options.core_config(
                cluster_id=directory.cluster_id,
                replica_id=directory.replica_id,
                directory_id=directory.directory_id,
                initial_voters=directory.initial_voters,
                initial_level=directory.meta.feature_level,
                incarnation_id=uuid4().hex,
                previous_broker_epoch=directory.clean_broker_epoch,
            ),
            logs=self._storage.recovered,
            rules=rules,
            random=Random(),
            groups=groups,
        )

    def _make_server(self, *, with_peers: bool) -> grpc.aio.Server:
        options = self._options
        server = grpc.aio.server(
            options=server_options(request_bytes_max=options.request_bytes_max, connections_max=options.connections_max)
        )
        server.add_generic_rpc_handlers(self._service.handlers(with_peers=with_peers))
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, server)
        if options.access.reflection:
            reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        return server

    def _address_table(self, dial: Mapping[ReplicaId, str], heard: HeardLeaders) -> AddressTable:
        voters = VoterAddresses(self._voter_histories)
        return AddressTable(
            advertised=self._options.voters,
            overrides=dial,
            learned=(
                voters.latest,
                self._registered_addresses,
                voters.former,
                self._initial_addresses,
                heard.addresses,
            ),
        )

    def _on_peer_refused(self, evidence: PeerRefused) -> None:
        self._driver.submit(evidence)

    def _registered_addresses(self) -> dict[ReplicaId, str]:
        brokers = self._core.metadata.image.brokers
        return {broker_id: broker.peer_address or broker.address for broker_id, broker in brokers.items()}

    def _voter_histories(self) -> Iterable[VoterHistory]:
        """Of the quorum logs; what the metadata log says of its voters counts for more, so that it comes last."""
        logs = sorted(self._core.logs, key=lambda name: (name == METADATA_LOG, name))
        return (self._core.logs[name].voter_history for name in logs)

    def _initial_addresses(self) -> dict[ReplicaId, str]:
        return addresses_of(self._core.config.initial_voters)

    async def bind(self) -> None:
        """Take the ports; raises StartRefusedError if one cannot be had."""
        bound = []
        for option, listen, server in self._servers:
            check_address(listen, port_min=0)
            try:
                _check_every_address_is_free(listen)
                port = self._add_port(server, option, listen)
            except (OSError, RuntimeError):
                # Without a started server the destructor would warn that it was never awaited.
                await self._stop_servers(None)
                raise StartRefusedError(
                    f"cannot listen on {listen}: the port is taken or the address is not this machine's; "
                    f"stop the process that holds it, or choose another with {option}"
                ) from None
            bound.append(f"{listen.rpartition(':')[0]}:{port}")
        self._address, self._peer_address = bound[0], bound[-1]
        self._limits: list[ConnectionLimit | MemoryLimit] = []
        if (most := self._options.memory_bytes_max) is not None:
            self._limits.append(MemoryLimit(bytes_max=most, end_waiting=self._service.end_waiting_streams))
        if (most := self._options.connections_per_address_max) is not None:
            port, counts = int(bound[0].rpartition(":")[2]), self._metrics.requests
            self._limits.append(ConnectionLimit(per_address_max=most, port=port, logger=self._logger, counts=counts))

    def _add_port(self, server: grpc.aio.Server, option: str, listen: str) -> int:
        """Replicas that have a listener of their own always show each other who they are."""
        tls = self._options.tls
        if tls is None:
            return server.add_insecure_port(listen)
        asks = self._options.asks_for_certificates or option == "--peer-listen"
        try:
            credentials = tls.server_credentials(with_client_auth=asks)
        except (TlsError, OSError) as error:
            raise StartRefusedError(str(error)) from error
        return server.add_secure_port(listen, credentials)

    async def _stop_servers(self, grace_s: float | None) -> None:
        self._service.end_idle_streams()
        await asyncio.gather(*[server.stop(grace_s) for _, _, server in self._servers])

    def serve_metrics(self) -> Callable[[], None]:
        """Serve the metrics page if one was asked for; returns what stops it."""
        if self._options.metrics_listen is None:
            return lambda: None
        check_address(self._options.metrics_listen, port_min=0)
        host, _, port = self._options.metrics_listen.rpartition(":")
        try:
            return self._metrics.listen(host, int(port))
        except OSError as error:
            raise StartRefusedError(f"cannot serve metrics on {self._options.metrics_listen}: {error}") from None

    def end_traces(self) -> None:
        """Export what is left of them, if there are any."""
        if self._tracing is not None:
            self._tracing.close()

    async def run(self) -> int:
        """Serve until a signal comes or the replica halts; returns the exit code."""
        stop_requested = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # What nohup asks for.
                asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
        self._driver.start()
        for failed in self._storage.failed_at_start():
            self._driver.submit(failed, is_first=True)
        await self._health.begin()
        for _, _, server in self._servers:
            await server.start()
        self._logger.info(
            "started",
            address=self._address,
            peer_address=self._peer_address,
            voters=sorted(self._core.config.voters),
            roles=sorted(self._options.roles),
        )
        keep_free_memory()
        freeze_what_is_there()
        loop_delay = LoopDelay(observe=self._metrics.loop_delay_seconds.observe, logger=self._logger)
        ongoing = (self._keep_house(), self._health.run(), loop_delay.run(), *(each.run() for each in self._limits))
        meanwhile = [asyncio.create_task(each) for each in ongoing]
        await _wait_first(stop_requested, self._driver.halted)
        for task in meanwhile:
            task.cancel()
        if self._driver.halted.is_set():
            return await self._end_halted()
        await self._hand_over()
        return await self._end_stopped()

    async def _keep_house(self) -> None:
        """Do what is to be done on the disk from time to time."""
        while True:
            await asyncio.sleep(max(0, self._house.deadline_ms - monotonic_ms()) / 1000)
            try:
                await asyncio.to_thread(self._house.do_due, monotonic_ms())
            except StorageError as error:
                self._driver.performer.on_error(error)

    async def _hand_over(self) -> None:
        """Stop being ready, and wait until others lead what this replica leads and the controller lets it go."""
        self._logger.info("stopping")
        await self._health.end()
        if not any(self._has_other_voters(log) for log in self._core.logs.values()) and not self._other_brokers:
            return
        led = [log for log in self._core.logs.values() if log.role.name == "leader" and self._has_other_voters(log)]
        self._driver.submit(ResignRequested())
        handed_over = await self._driver.wait_until(lambda: self._may_go(led), self._settings.options.handover_wait_ms)
        self._logger.info("resigned", handed_over=handed_over)

    def _has_other_voters(self, log: QuorumLog) -> bool:
        return bool(set(log.voters.ids) - {self._replica_id})

    @property
    def _other_brokers(self) -> set[ReplicaId]:
        return set(self._core.metadata.image.brokers) - {self._replica_id}

    def _may_go(self, led: Sequence[QuorumLog]) -> bool:
        """Whether others lead the quorum logs that this replica has led, and its broker may go."""
        return all(log.leader_id not in (None, self._replica_id) for log in led) and self._broker_may_go()

    def _broker_may_go(self) -> bool:
        """Whether the controller has moved all that this broker leads. One that it has never heard of leads nothing."""
        broker = self._core.broker
        return broker is None or broker.lifecycle.broker_epoch is None or broker.lifecycle.may_shut_down

    async def _end_stopped(self) -> int:
        await self._stop_servers(self._settings.options.stop_grace_ms / 1000)
        await self._driver.stop()
        await self._transport.close()
        if self._driver.halted.is_set():
            return EXIT_REFUSED_OR_HALTED
        broker = self._core.broker
        self._storage.close_clean(None if broker is None else broker.broker_epoch)
        self._logger.info("stopped")
        return EXIT_STOPPED

    async def _end_halted(self) -> int:
        """Stop serving at once: after a failure there is nothing that this replica may still say."""
        await self._stop_servers(None)
        await self._driver.stop()
        await self._transport.close()
        sys.stderr.write(f"replica: halted: {self._driver.halt_reason}\n")
        return EXIT_REFUSED_OR_HALTED


def _tracing_of(cluster_id: str, view: ReplicaView) -> Tracing | None:
    """Follow writes by OpenTelemetry if the environment says where to export spans to. Raises StartRefusedError."""
    name = os.environ.get(TRACES_EXPORTER, "none")
    if name == "none":
        return None
    try:
        from replica.server.tracing import Tracing, UnknownExporterError, exporter_of
    except ImportError as error:
        told = f"{TRACES_EXPORTER} is {name}, and OpenTelemetry is not installed: pip install 'highwater-log[tracing]'"
        raise StartRefusedError(told) from error
    try:
        return Tracing(exporter=exporter_of(name), cluster_id=cluster_id, view=view)
    except UnknownExporterError as error:
        raise StartRefusedError(str(error)) from error


def _check_every_address_is_free(listen: str) -> None:
    """Raise OSError if any of the addresses that ``listen`` stands for is taken: gRPC is content with one of them.

    1. Somebody listens on 127.0.0.1. 2. ``localhost`` is also ::1, which is free, so that gRPC binds that and says
    nothing. 3. Who dials 127.0.0.1 reaches a stranger. An address that this machine does not have is gRPC's to judge.
    """
    host, _, port = listen.rpartition(":")
    for family, kind, _, _, address in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise


async def _wait_first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
