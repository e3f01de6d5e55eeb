"""Settings that are each right by themselves and cannot work together.

Owns what goes together besides numbers of which one must stay below the other (``core.setting_orders``). Each rule says
in one sentence what is wrong and what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from replica.core.config import InvalidConfigError
from replica.core.setting_orders import BROKER, ORDERS

if TYPE_CHECKING:
    from replica.server.options import ServerOptions

EVERY_ADDRESS = {"0.0.0.0": "IPv4", "[::]": "any"}
"""How all addresses of a machine are written; nobody can be reached there."""


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
