"""What a replica process is told at start, as one value.

Owns names and defaults; the bounds of numbers are in ``settings``, what goes together in ``contradictions``. Where the
values come from (arguments, environment, a file) is the command line's business.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from replica.bounds import REQUEST_BYTES_MAX, TEXT_BYTES_MAX
from replica.core.config import (
    BrokerConfig,
    BrokerIdentity,
    ControllerConfig,
    GroupConfig,
    InvalidConfigError,
    MetadataConfig,
    QuorumConfig,
    ReplicaConfig,
)
from replica.core.limits import Limits, LimitTable
from replica.core.settings import NUMBERS, PARTS
from replica.ids import BrokerEpoch, ReplicaId
from replica.rpc.addresses import InvalidAddressError, addresses_of, check_address
from replica.rpc.channels import CONNECTIONS_MAX
from replica.rpc.tls import TlsFiles
from replica.server.access import AccessOptions
from replica.server.contradictions import check_contradictions
from replica.server.groups import check_groups
from replica.storage import LogConfig
from replica.storage.trash import FILE_DELETE_DELAY_MS
from replica.voters import VoterSet


class ProcessRole(StrEnum):
    """What a replica process is to its cluster (Kafka's ``process.roles``)."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The whole configuration of ``replica start``. Addresses are ``HOST:PORT``; port 0 of ``listen`` takes a free one.

    ``voters`` are the advertised addresses of those whom to ask who leads (none: the initial voters of the disk).
    ``dial`` overrides them and those of brokers, entry by entry, for this replica's own dials. ``advertised_address``
    is where others reach this broker, absent for a voter's own entry. With ``peer_listen`` replicas talk to each other
    there and not at ``listen``: ``voters`` are addresses of that, and ``advertised_address`` is for clients. ``groups``
    are those to host: their names, and the names of their state machines. ``producer_ids_per_hour`` is how many
    producers one address may be, ``connections_per_address_max`` how many connections it may have; the rates are what
    each identity may have in a second. ``request_bytes_max`` is how large a request may be,
    ``connection_answer_bytes_max`` and ``answer_bytes_max`` what answers to clients may hold that were not taken yet,
    of one connection and of all. With more memory than
    ``memory_bytes_max`` requests that are not complete are given up.
    With ``tls`` all listeners serve by TLS alone, and other replicas are dialled by it; unless ``tls_client_auth`` is
    false, nobody gets in who has no certificate that is believed, and where other replicas have a listener of their
    own, they always need one. ``access`` says who may do what. Partitions are put into ``log_dirs``, if there are any,
    and otherwise into ``data_dir``, which has all else. ``cluster_id`` and ``replica_id``, when given, must be
    those that the data directory was formatted with.
    """

    data_dir: Path
    listen: str
    voters: Mapping[ReplicaId, str]
    dial: Mapping[ReplicaId, str] = field(default_factory=dict)
    roles: frozenset[ProcessRole] = frozenset(ProcessRole)
    advertised_address: str | None = None
    peer_listen: str | None = None
    tls: TlsFiles | None = None
    tls_client_auth: bool | None = None
    access: AccessOptions = field(default_factory=AccessOptions)
    rack: str | None = None
    cluster_id: str | None = None
    replica_id: ReplicaId | None = None
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    metadata: MetadataConfig = field(default_factory=MetadataConfig)
    group: GroupConfig = field(default_factory=GroupConfig)
    groups: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "info"
    metrics_listen: str | None = None
    client_calls_max: int = 4096
    producer_ids_per_hour: int = 4000
    connections_max: int = CONNECTIONS_MAX
    request_bytes_max: int = REQUEST_BYTES_MAX
    connections_per_address_max: int | None = None
    memory_bytes_max: int | None = None
    producer_byte_rate: int | None = None
    consumer_byte_rate: int | None = None
    request_rate: int | None = None
    connection_answer_bytes_max: int = 32 << 20
    answer_bytes_max: int = 1 << 30
    handover_wait_ms: int = 5000
    stop_grace_ms: int = 500
    log_flush_offset_checkpoint_interval_ms: int = 5000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    file_delete_delay_ms: int = FILE_DELETE_DELAY_MS
    log_segment_bytes: int = LogConfig().segment_bytes
    log_dirs: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for name, value, default in self._numbers():
            if value != default:  # Parts may differ in what they begin with, and an option has the bounds of all.
                NUMBERS[name].check(name, value)
            numbers[name].append(value)
        if not self.roles:
            raise InvalidConfigError("roles is empty; name broker, controller or both")
        for name, text in (("rack", self.rack), ("cluster_id", self.cluster_id)):
            if len((text or "").encode()) > TEXT_BYTES_MAX:
                raise InvalidConfigError(f"{name} has {len((text or '').encode())} bytes; at most {TEXT_BYTES_MAX}")
        self._check_addresses()
        check_groups(self.groups)
        check_contradictions(self, numbers)
        self.access.check(
            has_tls=self.tls is not None,
            asks_everybody=self.tls_client_auth is not False,
            has_peer_listener=self.peer_listen is not None,
        )

    def _numbers(self, *, of_parts: bool = True) -> Iterator[tuple[str, int, object]]:
        """Each number by the name of its option, with its default; one of several parts comes once for each."""
        parts = PARTS if of_parts else ()
        places = [
            (self, "", fields(self)),
            *((getattr(self, part.field), part.prefix, fields(part.config)) for part in parts),
        ]
        for config, prefix, known in places:
            for each in known:
                value = getattr(config, each.name)
                if prefix + each.name in NUMBERS and value is not None:
                    yield prefix + each.name, value, each.default

    def _check_addresses(self) -> None:
        """Whatever is listened at may have port 0."""
        for name, address, port_min in (
            ("listen", self.listen, 0),
            ("peer_listen", self.peer_listen, 0),
            ("metrics_listen", self.metrics_listen, 0),
            ("advertised_address", self.advertised_address, 1),
        ):
            try:
                if address is not None:
                    check_address(address, port_min=port_min)
            except InvalidAddressError as error:
                raise InvalidConfigError(f"{name}: {error}") from None

    @property
    def limit_table(self) -> LimitTable:
        """How much everybody may have of this replica."""
        return LimitTable(
            default=Limits(
                producer_byte_rate=self.producer_byte_rate,
                consumer_byte_rate=self.consumer_byte_rate,
                request_rate=self.request_rate,
            )
        )

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients must show one, where there is TLS."""
        return self.tls_client_auth is not False

    def core_config(
        self,
        *,
        cluster_id: str,
        replica_id: ReplicaId,
        directory_id: str,
        initial_voters: VoterSet,
        initial_level: int,
        incarnation_id: str,
        previous_broker_epoch: BrokerEpoch | None,
    ) -> ReplicaConfig:
        """Build the core's configuration for the replica whose disk this is; raises InvalidConfigError."""
        self._check_roles(replica_id, initial_voters)
        addresses = {**addresses_of(initial_voters), **self.voters}
        voters = self._voters_to_ask(initial_voters)
        is_broker, is_controller = (role in self.roles for role in (ProcessRole.BROKER, ProcessRole.CONTROLLER))
        identity = BrokerIdentity(
            incarnation_id=incarnation_id,
            address=self._advertised_address(replica_id, addresses),
            peer_address=self._peer_address(replica_id, addresses),
            rack=self.rack,
            previous_broker_epoch=previous_broker_epoch,
        )
        return ReplicaConfig(
            cluster_id=cluster_id,
            replica_id=replica_id,
            directory_id=directory_id,
            voters=voters,
            initial_voters=initial_voters,
            quorum=self.quorum,
            metadata=self.metadata,
            group=self.group,
            identity=identity if is_broker else None,
            broker=self.broker,
            controller=self.controller if is_controller else None,
            driver_numbers={name: value for name, value, _ in self._numbers(of_parts=False)},
            initial_level=initial_level,
        )

    def _voters_to_ask(self, initial_voters: VoterSet) -> tuple[ReplicaId, ...]:
        """Whom to ask who leads."""
        if self.voters:
            return tuple(sorted(self.voters))
        if not initial_voters.voters:
            raise InvalidConfigError(
                "this disk was formatted without initial voters, so that it knows nobody: name a replica of the "
                "cluster, or several, with --voter"
            )
        return initial_voters.ids

    def _check_roles(self, replica_id: ReplicaId, initial_voters: VoterSet) -> None:
        """Who may be elected must be able to decide (Kafka's rule). Who is no voter at first may become one."""
        if ProcessRole.CONTROLLER not in self.roles and initial_voters.find(replica_id) is not None:
            raise InvalidConfigError(
                f"replica {replica_id} was formatted as a voter but has not the role of a controller; "
                "give it --roles broker,controller, or format its disk with --no-initial-voters"
            )

    def _peer_address(self, replica_id: ReplicaId, addresses: Mapping[ReplicaId, str]) -> str:
        """Where other replicas reach this one: as a voter is named, or at the advertised host; empty where all do."""
        if self.peer_listen is None or self.advertised_address is None:
            return ""
        host, port = self.advertised_address.rpartition(":")[0], self.peer_listen.rpartition(":")[2]
        address = addresses.get(replica_id, f"{host}:{port}")
        check_address(address)
        return address

    def _advertised_address(self, replica_id: ReplicaId, addresses: Mapping[ReplicaId, str]) -> str:
        address = self.advertised_address or addresses.get(replica_id)
        if address is None:
            raise InvalidConfigError(
                f"no voter that is named is replica {replica_id}, so that nobody knows where to reach it; "
                "give --advertised-address"
            )
        check_address(address)
        return address
