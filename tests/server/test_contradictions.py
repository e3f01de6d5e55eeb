"""Settings that cannot work together are refused with one sentence, and those that just can are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from replica.cli.__main__ import main
from replica.cli.start import server_options_from, settings, start_command
from replica.core.setting_orders import ORDERS, ORDERS_OF_THE_CORE, Order
from replica.core.settings import NUMBERS, PARTS, SEGMENT_BYTES_MAX
from replica.rpc.tls import TlsFiles
from replica.server.contradictions import CONTRADICTIONS
from replica.server.options import ProcessRole, ServerOptions
from replica.storage import LogConfig

EVERY_ORDER = ORDERS_OF_THE_CORE + ORDERS
REQUIRED = {"data-dir": "d", "listen": "127.0.0.1:9001"}


def options_of(given: Mapping[str, Any]) -> ServerOptions:
    """The options of a server with these settings, by their keys; raises click.ClickException."""
    words = [word for key, value in {**REQUIRED, **given}.items() for word in (f"--{key}", str(value))]
    with start_command().make_context("start", words) as context:
        return server_options_from(context.params)


def numbers_of(options: ServerOptions, name: str) -> list[int]:
    """What all parts have under the name of an option."""
    parts = [(getattr(options, part.field), part.prefix) for part in PARTS]
    holders = [(options, ""), *parts]
    names = [(holder, name.removeprefix(prefix)) for holder, prefix in holders if name.startswith(prefix)]
    return [getattr(holder, own) for holder, own in names if hasattr(holder, own)]


def least_companions(name: str) -> dict[str, int]:
    """What must be small where a number is at its least: whatever must stay below it."""
    found: dict[str, int] = {}
    waiting = [name]
    while waiting:
        greater = waiting.pop()
        below = [order.lesser for order in EVERY_ORDER if order.greater == greater and order.lesser not in found]
        found |= {lesser: NUMBERS[lesser].least for lesser in below}
        waiting += below
    return found


def most_companions(name: str) -> dict[str, int]:
    """What must be large where a number is at its most: whatever it must stay below."""
    found: dict[str, int] = {}
    waiting = [name]
    while waiting:
        lesser = waiting.pop()
        above = [order.greater for order in EVERY_ORDER if order.lesser == lesser and order.greater not in found]
        found |= {greater: NUMBERS[greater].most for greater in above}
        waiting += above
    return found


def keys(numbers: Mapping[str, int]) -> dict[str, int]:
    """The same by the keys of settings."""
    return {name.replace("_", "-"): number for name, number in numbers.items()}


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_taken(name: str) -> None:
    """The least and the most of each number can be started with, where the settings that it goes with let it."""
    number = NUMBERS[name]
    for value, others in ((number.least, least_companions(name)), (number.most, most_companions(name))):
        assert value in numbers_of(options_of(keys({**others, name: value})), name)


@pytest.mark.parametrize("name", NUMBERS)
def test_beyond_the_bounds_nothing_is_taken(name: str) -> None:
    """One less than the least and one more than the most are refused, by the command line and by the server."""
    number = NUMBERS[name]
    for value in (number.least - 1, number.most + 1):
        with pytest.raises(click.UsageError, match="is not in the range"):
            options_of(keys({name: value}))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_server_itself_refuses_what_is_out_of_bounds(name: str) -> None:
    """Whoever makes the options of a server without the command line meets the same bounds."""
    number = NUMBERS[name]
    for value in (number.least - 1, number.most + 1):
        context = start_command().make_context("start", ["--data-dir", "d", "--listen", "a:1"])
        with context, pytest.raises(click.ClickException, match="must be"):
            server_options_from({**context.params, name: value})


def test_every_number_is_a_setting() -> None:
    """No number of a setting is without bounds, and no bounds are without a setting."""
    numbers = {str(setting.name) for setting in settings() if isinstance(setting.type, click.IntRange)}
    assert numbers == set(NUMBERS)
    for part in PARTS:
        assert {part.prefix + field.name for field in fields(part.config) if type(field.default) is int} <= numbers


def test_a_segment_is_as_long_as_storage_takes() -> None:
    """The bound that the command line shows is the one of the files."""
    assert LogConfig().segment_bytes == SEGMENT_BYTES_MAX


def at_the_edge(order: Order, excess: int) -> dict[str, int]:
    """Numbers that keep a rule between two just so, or break it by the excess."""
    lesser, greater = NUMBERS[order.lesser], NUMBERS[order.greater]
    low = max(lesser.least, greater.least - order.margin)
    numbers = {order.greater: low + order.margin, order.lesser: low + excess}
    others = [{**least_companions(name), **most_companions(name)} for name in (order.lesser, order.greater)]
    return {**others[0], **others[1], **numbers}


@pytest.mark.parametrize("order", EVERY_ORDER, ids=lambda order: f"{order.lesser}-{order.greater}")
def test_one_number_stays_below_another(order: Order) -> None:
    """The edge itself is taken; one more is refused with both names, both values, and what would come of it."""
    options_of(keys(at_the_edge(order, 0)))
    broken = at_the_edge(order, 1)
    with pytest.raises(click.ClickException) as refused:
        options_of(keys(broken))
    for told in (order.lesser, order.greater, str(broken[order.lesser]), str(broken[order.greater]), order.otherwise):
        assert told in refused.value.message
    assert refused.value.message.count(". ") == 0


def test_numbers_that_a_process_does_not_use_contradict_nothing() -> None:
    """A broker goes by the controller's session timeout, and not by the one that it could have itself."""
    slow = {"broker-heartbeat-interval-ms": 20_000}
    options_of({**slow, "roles": "broker"})
    options_of({**slow, "roles": "controller"})
    with pytest.raises(click.ClickException, match="every broker is fenced"):
        options_of(slow)
    options_of({"min-insync-replicas": 2, "roles": "broker"})


TLS = TlsFiles(ca_file=Path("ca.pem"))
CLASHES: list[tuple[dict[str, Any], str]] = [
    ({"peer_listen": "127.0.0.1:9001", "advertised_address": "a:1"}, "--listen .* and --peer-listen .* the same port"),
    ({"metrics_listen": "0.0.0.0:9001"}, "--listen .* and --metrics-listen .* cannot have the same port"),
    ({"metrics_listen": "[::]:9001"}, "--listen .* and --metrics-listen .* cannot have the same port"),
    ({"peer_listen": "127.0.0.1:9002"}, "with --peer-listen, --voter names where .* give --advertised-address"),
    ({"advertised_address": "0.0.0.0:9001"}, "--advertised-address is 0.0.0.0:9001, where nobody reaches"),
    ({"voters": {1: "a:1", 2: "a:1"}}, "--voter names a:1 for replica 1 and for replica 2"),
    ({"tls_client_auth": True}, "--tls-client-auth says nothing without TLS"),
    ({"tls_client_auth": False}, "--tls-client-auth says nothing without TLS"),
    ({"log_dirs": (Path("a"), Path("d"))}, "each --log-dir must be another directory, and none of them --data-dir"),
    ({"log_dirs": (Path("a"),), "roles": frozenset({ProcessRole.CONTROLLER})}, "--log-dir is for partitions"),
    ({"tls": TLS}, "a replica must say who it is: give --tls-cert-file and --tls-key-file"),
]


def server_options(given: Mapping[str, Any]) -> ServerOptions:
    """The options of a server, without the command line."""
    return ServerOptions(**{"data_dir": Path("d"), "listen": "127.0.0.1:9001", "voters": {1: "a:1"}, **given})


@pytest.mark.parametrize(("given", "complaint"), CLASHES)
def test_what_cannot_work_together_is_refused(given: dict[str, Any], complaint: str) -> None:
    """Each contradiction is one sentence that says what to change."""
    with pytest.raises(ValueError, match=complaint):
        server_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"metrics_listen": "127.0.0.1:9002"},
        {"metrics_listen": "10.0.0.1:9001"},
        {"metrics_listen": "[::1]:9001"},
        {"listen": "0.0.0.0:9001", "metrics_listen": "[::1]:9001"},
        {"listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0"},
        {"peer_listen": "127.0.0.1:9002", "advertised_address": "a:1"},
        {"voters": {1: "a:1", 2: "a:2"}},
        {"tls": TlsFiles(ca_file=Path("ca"), cert_file=Path("cert"), key_file=Path("key")), "tls_client_auth": False},
    ],
)
def test_what_can_work_together_is_taken(given: dict[str, Any]) -> None:
    """What is like a contradiction and is none does not stand in anybody's way."""
    server_options(given)


def test_every_contradiction_has_a_case() -> None:
    """No rule goes without a case that shows that it can refuse."""
    shown = {
        contradiction.rule for contradiction in CONTRADICTIONS for given, _ in CLASHES if _finds(contradiction, given)
    }
    assert shown == {contradiction.rule for contradiction in CONTRADICTIONS}


def _finds(contradiction: Any, given: Mapping[str, Any]) -> bool:
    options = server_options({})
    for name, value in given.items():
        object.__setattr__(options, name, value)
    return any(contradiction.found(options))


def test_client_certificates_without_tls_are_refused_at_start(tmp_path: Path) -> None:
    """Who asks for certificates and has no TLS learns it before anything is served; who asks for nothing starts."""
    given = ["start", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    for flag in ("--tls-client-auth", "--no-tls-client-auth"):
        result = CliRunner().invoke(main, [*given, flag])
        assert (result.exit_code, "--tls-client-auth says nothing without TLS" in result.output) == (1, True)
    assert options_of({}).asks_for_certificates
