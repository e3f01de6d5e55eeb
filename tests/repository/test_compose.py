"""compose.yaml: whom it lets in, and that clients are told addresses at which they get in."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from replica.cli.client import CLIENT_DIAL, view_config
from replica.ids import ReplicaId

COMPOSE = (Path(__file__).parents[2] / "compose.yaml").read_text(encoding="utf-8")


def test_what_replicas_tell_clients_is_what_is_published() -> None:
    """Each replica's advertised address is its own published port, of the loopback address alone."""
    told = re.findall(r"REPLICA_ADVERTISED_ADDRESS: (\S+)", COMPOSE)
    published = re.findall(r'ports: \["(\S+):9092"\]', COMPOSE)

    assert told == published
    assert [address.rpartition(":")[0] for address in told] == ["127.0.0.1"] * 3
    assert len(set(told)) == 3


def test_a_client_in_a_container_dials_the_names_that_hold_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands in a container go where REPLICA_CLIENT_DIAL says: to the client's port of each replica."""
    (entries,) = re.findall(rf"{CLIENT_DIAL}: (.+)", COMPOSE)
    monkeypatch.setenv(CLIENT_DIAL, entries)

    assert view_config(1000).dial == {ReplicaId(number): f"replica-{number}:9092" for number in (1, 2, 3)}


def test_without_it_addresses_are_those_that_brokers_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is replaced, and what cannot be read is refused by its name."""
    monkeypatch.delenv(CLIENT_DIAL, raising=False)
    assert view_config(1000).dial == {}
    monkeypatch.setenv(CLIENT_DIAL, "replica-1:9092")
    with pytest.raises(click.UsageError, match=f"{CLIENT_DIAL}: 'replica-1:9092' is not ID=HOST:PORT"):
        view_config(1000)
