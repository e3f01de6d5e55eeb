"""Settings that are each right by themselves and cannot work together.

Owns the rules between settings: two numbers of which one must stay below the other, and what else goes together. Each
says in one sentence what is wrong and what comes of it. What the core refuses itself is named here for the reference,
and is not checked a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from replica.core.config import InvalidConfigError
from replica.server.settings import REQUEST_OVERHEAD_BYTES

if TYPE_CHECKING:
    from replica.server.options import ServerOptions

BROKER, CONTROLLER = "broker", "controller"
EVERY_ADDRESS = {"0.0.0.0": "IPv4", "[::]": "any"}
"""How all addresses of a machine are written; nobody can be reached there."""


@dataclass(frozen=True, slots=True)
class Order:
    """``lesser`` and a ``margin`` are at most ``greater``; else comes of it what ``otherwise`` says.

    It holds for processes that have all of these ``roles``: others do not use one of the two.
    """

    lesser: str
    greater: str
    otherwise: str
    margin: int = 0
    roles: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """What must hold, for people."""
        if self.margin <= 1:
            return "must be below" if self.margin else "must be at most"
        return f"must be at least {self.margin} below"

    def check(self, numbers: Mapping[str, Sequence[int]]) -> None:
        """Raise InvalidConfigError for numbers that break the rule: those of all parts that know such a parameter."""
        lesser, greater = max(numbers[self.lesser]), min(numbers[self.greater])
        if lesser + self.margin > greater:
            raise InvalidConfigError(
                f"{self.lesser} ({lesser}) {self.rule} {self.greater} ({greater}), or {self.otherwise}"
            )


ORDERS_OF_THE_CORE = (
    Order("fetch_max_wait_ms", "fetch_timeout_ms", "an idle leader looks dead", margin=1),
    Order("fetch_max_wait_ms", "request_timeout_ms", "an idle leader's answers come too late", margin=1),
    Order("replica_fetch_wait_max_ms", "replica_socket_timeout_ms", "idle leaders answer too late", margin=1),
    Order("replica_fetch_wait_max_ms", "replica_lag_time_max_ms", "a waiting follower looks out of sync"),
)
"""What the core's own dataclasses refuse, before anybody looks at anything here."""

ORDERS = (
    Order("retry_backoff_ms", "fetch_timeout_ms", "one lost fetch makes a leader look dead", margin=1),
    Order("replica_fetch_backoff_ms", "replica_lag_time_max_ms", "a follower that pauses once is out of sync"),
    Order(
        "replica_fetch_min_bytes",
        "replica_fetch_response_max_bytes",
        "every fetch waits for more than its answer may hold",
    ),
    Order(
        "broker_heartbeat_interval_ms",
        "broker_session_timeout_ms",
        "every broker is fenced between two heartbeats",
        margin=1,
        roles=(BROKER, CONTROLLER),
    ),
    Order(
        "min_insync_replicas",
        "default_replication_factor",
        "a topic that is created without numbers of its own cannot have so many in sync",
        roles=(CONTROLLER,),
    ),
    Order("default_replication_factor", "brokers_max", "no cluster has so many brokers", roles=(CONTROLLER,)),
    Order("num_partitions", "partitions_max", "no topic can be created without a number", roles=(CONTROLLER,)),
    Order(
        "message_max_bytes",
        "request_bytes_max",
        "the largest batch is refused with the request that carries it",
        margin=REQUEST_OVERHEAD_BYTES,
    ),
    Order(
        "group_query_max_bytes",
        "request_bytes_max",
        "the largest questions are refused with the request that carries them",
        margin=REQUEST_OVERHEAD_BYTES,
    ),
    Order("group_query_max_bytes", "group_pending_query_bytes_max", "the largest questions never find a place"),
    Order("group_query_max_bytes", "group_pending_watch_bytes_max", "the largest questions never find a place"),
    Order("connection_answer_bytes_max", "answer_bytes_max", "one connection may hold more than all together"),
)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What must hold between ``settings``, as ``rule`` says; ``found`` tells each way in which it does not."""

    settings: tuple[str, ...]
    rule: str
    found: Callable[[ServerOptions], Iterator[str]]


def _shared_ports(options: ServerOptions) -> Iterator[str]:
    listeners = {
        "--listen": options.listen,
        "--peer-listen": options.peer_listen,
        "--metrics-listen": options.metrics_listen,
    }
    given = [(name, address) for name, address in listeners.items() if address is not None]
    for (one, address), (other, other_address) in combinations(given, 2):
        if _is_taken_by(address, other_address):
            yield f"{one} ({address}) and {other} ({other_address}) cannot have the same port: give each its own"


def _is_taken_by(one: str, other: str) -> bool:
    """Whether two listeners would need the same port of the same address. Port 0 is whatever is free."""
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    if int(port) != int(other_port) or int(port) == 0:
        return False
    return host.lower() == other_host.lower() or _has(host, other_host) or _has(other_host, host)


def _has(every: str, host: str) -> bool:
    """Whether the first stands for all addresses, of which the second is one."""
    return EVERY_ADDRESS.get(every) == "any" or (EVERY_ADDRESS.get(every) == "IPv4" and not host.startswith("["))


def _unreachable_addresses(options: ServerOptions) -> Iterator[str]:
    if options.peer_listen is not None and options.advertised_address is None:
        yield (
            "with --peer-listen, --voter names where replicas reach each other: give --advertised-address, where "
            "clients reach this one"
        )
    if options.advertised_address is not None and options.advertised_address.rpartition(":")[0] in EVERY_ADDRESS:
        yield f"--advertised-address is {options.advertised_address}, where nobody reaches this machine: name its own"


def _voters_at_one_address(options: ServerOptions) -> Iterator[str]:
    for (one, address), (other, other_address) in combinations(sorted(options.voters.items()), 2):
        if address == other_address:
            yield f"--voter names {address} for replica {one} and for replica {other}: give each its own address"


def _half_of_tls(options: ServerOptions) -> Iterator[str]:
    if options.tls is None and options.tls_client_auth is not None:
        yield (
            "--tls-client-auth says nothing without TLS, and there are no files for it: give --tls-ca-file, "
            "--tls-cert-file and --tls-key-file, or leave it out"
        )
    if options.tls is not None and None in (options.tls.cert_file, options.tls.key_file):
        yield "a replica must say who it is: give --tls-cert-file and --tls-key-file"


def _useless_log_dirs(options: ServerOptions) -> Iterator[str]:
    paths = [options.data_dir.absolute(), *(path.absolute() for path in options.log_dirs)]
    if len(set(paths)) < len(paths):
        yield "each --log-dir must be another directory, and none of them --data-dir"
    if options.log_dirs and BROKER not in options.roles:
        yield "--log-dir is for partitions, which only a broker keeps: add broker to --roles, or leave it out"


CONTRADICTIONS = (
    Contradiction(("data_dir", "log_dir", "roles"), "are different directories, and a broker's", _useless_log_dirs),
    Contradiction(("listen", "peer_listen", "metrics_listen"), "must not have the same port", _shared_ports),
    Contradiction(
        ("peer_listen", "advertised_address"),
        "go together, and `advertised-address` names a machine",
        _unreachable_addresses,
    ),
    Contradiction(("voter",), "must name each replica at an address of its own", _voters_at_one_address),
    Contradiction(
        ("tls_ca_file", "tls_cert_file", "tls_key_file", "tls_client_auth"),
        "go together: the three files, or nothing",
        _half_of_tls,
    ),
)


def check_contradictions(options: ServerOptions, numbers: Mapping[str, Sequence[int]]) -> None:
    """Raise InvalidConfigError for the first contradiction. ``numbers`` are those of the options, by their names."""
    for order in ORDERS:
        if all(role in options.roles for role in order.roles):
            order.check(numbers)
    for contradiction in CONTRADICTIONS:
        for sentence in contradiction.found(options):
            raise InvalidConfigError(sentence)
