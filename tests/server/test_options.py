"""What a replica is told at start: its roles decide what it is to the cluster, and what cannot work is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from replica.bounds import ANSWER_BYTES_MAX, RECORDS_BYTES_MAX
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
from replica.ids import BrokerEpoch, ReplicaId
from replica.server.options import ProcessRole, ServerOptions
from replica.voters import Voter, VoterSet

VOTER, OTHER = ReplicaId(1), ReplicaId(2)
BROKER, CONTROLLER = frozenset({ProcessRole.BROKER}), frozenset({ProcessRole.CONTROLLER})


def options(
    roles: frozenset[ProcessRole] = BROKER | CONTROLLER,
    advertised_address: str | None = None,
    voters: Mapping[ReplicaId, str] = MappingProxyType({VOTER: "a:1"}),
) -> ServerOptions:
    return ServerOptions(
        data_dir=Path("data"),
        listen="127.0.0.1:0",
        voters=voters,
        roles=roles,
        advertised_address=advertised_address,
        rack="r",
    )


INITIAL = VoterSet((Voter(replica_id=VOTER, directory_id="AAAAAAAAAAAAAAAAAAAAAQ", address="i:1"),))
NOBODY = VoterSet(())


def core_config(given: ServerOptions, replica_id: ReplicaId, initial_voters: VoterSet = INITIAL) -> ReplicaConfig:
    return given.core_config(
        cluster_id="c",
        replica_id=replica_id,
        directory_id="d",
        initial_voters=initial_voters,
        initial_level=1,
        incarnation_id="i",
        previous_broker_epoch=BrokerEpoch(7),
    )


def test_the_metadata_is_taken_down_as_often_as_the_operator_says() -> None:
    """By Kafka's defaults, or as told, whatever part the process has in its cluster."""
    assert core_config(options(), VOTER).metadata == MetadataConfig(
        metadata_log_max_record_bytes_between_snapshots=20 << 20, metadata_log_max_snapshot_interval_ms=3_600_000
    )
    often = MetadataConfig(metadata_log_max_record_bytes_between_snapshots=7)
    for given in (options(), options(BROKER, "b:2")):
        replica_id = VOTER if ProcessRole.CONTROLLER in given.roles else OTHER
        assert core_config(replace(given, metadata=often), replica_id).metadata == often


@pytest.mark.parametrize(
    "name", ["metadata_log_max_record_bytes_between_snapshots", "metadata_log_max_snapshot_interval_ms"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_a_metadata_log_that_is_always_or_never_taken_down_is_refused(name: str, value: int) -> None:
    """A snapshot is due after some bytes and after some time, and both are above nothing."""
    with pytest.raises(InvalidConfigError, match=f"{name} is {value}; it must be above 0"):
        MetadataConfig(**{name: value})


@pytest.mark.parametrize("part", [QuorumConfig, BrokerConfig, ControllerConfig, MetadataConfig, GroupConfig])
def test_a_parameter_that_the_wire_cannot_say_is_refused(part: Callable[..., object]) -> None:
    """No number is above 2^31 - 1: a fetch of 4 GiB could not even be encoded."""
    numbers = [field.name for field in fields(part()) if type(field.default) is int]  # type: ignore[arg-type] # all are dataclasses
    assert numbers
    for name in numbers:
        with pytest.raises(
            InvalidConfigError, match=f"{name} is 4294967296; it must be above 0 and at most 2147483647"
        ):
            part(**{name: 1 << 32})


@pytest.mark.parametrize(
    ("given", "replica_id", "address", "controls"),
    [
        pytest.param(options(), VOTER, "a:1", True, id="both"),
        pytest.param(options(advertised_address="b:2"), VOTER, "b:2", True, id="a voter elsewhere"),
        pytest.param(options(CONTROLLER), VOTER, None, True, id="controller only"),
        pytest.param(options(BROKER, "b:2"), OTHER, "b:2", False, id="broker only"),
        pytest.param(options(advertised_address="b:2"), OTHER, "b:2", True, id="one that may become a voter"),
    ],
)
def test_roles_make_a_process_a_broker_and_a_controller(
    given: ServerOptions, replica_id: ReplicaId, address: str | None, controls: bool
) -> None:
    """A broker has an identity with the address where others reach it, a controller may be elected; one can be both."""
    config = core_config(given, replica_id)
    identity = BrokerIdentity(incarnation_id="i", address=address or "", rack="r", previous_broker_epoch=BrokerEpoch(7))
    assert config.identity == (None if address is None else identity)
    assert (config.controller is not None) == controls


@pytest.mark.parametrize(
    ("given", "replica_id", "initial_voters", "address", "asked"),
    [
        pytest.param(options(voters={}), VOTER, INITIAL, "i:1", (VOTER,), id="nothing is named twice"),
        pytest.param(options(), VOTER, INITIAL, "a:1", (VOTER,), id="the voter's own option counts for more"),
        pytest.param(options(advertised_address="b:2"), OTHER, NOBODY, "b:2", (VOTER,), id="a disk that joins"),
        pytest.param(options(BROKER, "b:2"), OTHER, NOBODY, "b:2", (VOTER,), id="one that never will"),
        pytest.param(options(advertised_address="b:2", voters={}), OTHER, INITIAL, "b:2", (VOTER,), id="elsewhere"),
    ],
)
def test_options_say_whom_to_ask_and_no_option_who_votes(
    given: ServerOptions, replica_id: ReplicaId, initial_voters: VoterSet, address: str, asked: tuple[ReplicaId, ...]
) -> None:
    """Who votes the logs say; the options only say whom to ask, and who is reached where."""
    config = core_config(given, replica_id, initial_voters)
    assert config.identity is not None
    assert (config.identity.address, config.voters, config.initial_voters) == (address, asked, initial_voters)
    assert (config.controller is not None) == (ProcessRole.CONTROLLER in given.roles)


@pytest.mark.parametrize(
    ("given", "replica_id", "initial_voters", "complaint"),
    [
        (options(BROKER), VOTER, INITIAL, "was formatted as a voter but has not the role of a controller"),
        (options(voters={}), OTHER, NOBODY, "formatted without initial voters, so that it knows nobody"),
        (options(), OTHER, NOBODY, "give --advertised-address"),
    ],
)
def test_a_disk_is_refused_where_it_cannot_work(
    given: ServerOptions, replica_id: ReplicaId, initial_voters: VoterSet, complaint: str
) -> None:
    """A voter that cannot decide, one that knows nobody, and one that nobody finds."""
    with pytest.raises(InvalidConfigError, match=complaint):
        core_config(given, replica_id, initial_voters)


@pytest.mark.parametrize(
    ("quorum", "broker"),
    [
        (QuorumConfig(fetch_max_bytes=RECORDS_BYTES_MAX + 1), BrokerConfig()),
        (QuorumConfig(), BrokerConfig(message_max_bytes=RECORDS_BYTES_MAX + 1)),
        (QuorumConfig(), BrokerConfig(fetch_max_bytes=ANSWER_BYTES_MAX + 1)),
        (QuorumConfig(), BrokerConfig(replica_fetch_response_max_bytes=ANSWER_BYTES_MAX + 1)),
    ],
)
def test_answers_that_no_connection_takes_are_refused(quorum: QuorumConfig, broker: BrokerConfig) -> None:
    """What one answer may hold must fit into a message, or whoever asks for it gets nothing, for ever."""
    with pytest.raises(InvalidConfigError, match="it must be at least 1 and at most"):
        ServerOptions(data_dir=Path("data"), listen="a:1", voters={VOTER: "a:1"}, quorum=quorum, broker=broker)


def test_a_peer_listener_has_an_address_of_its_own() -> None:
    """Voters are named by it, another broker has it at the advertised host; clients are told the advertised address."""
    given = replace(options(advertised_address="outside:9092"), peer_listen="0.0.0.0:9093")

    def addresses(given: ServerOptions, replica_id: ReplicaId) -> tuple[str, str]:
        identity = core_config(given, replica_id).identity
        assert identity is not None
        return identity.address, identity.peer_address

    assert addresses(given, VOTER) == ("outside:9092", "a:1")
    assert addresses(replace(given, roles=BROKER), OTHER) == ("outside:9092", "outside:9093")
    assert addresses(replace(given, peer_listen=None), VOTER) == ("outside:9092", "")
    with pytest.raises(InvalidConfigError, match="give --advertised-address"):
        addresses(replace(given, advertised_address=None), VOTER)


def test_a_rack_that_no_controller_would_register_is_refused() -> None:
    """A broker that would be refused for ever does not start."""
    with pytest.raises(InvalidConfigError, match="rack has 250 bytes; at most 249"):
        ServerOptions(data_dir=Path("data"), listen="a:1", voters={VOTER: "a:1"}, rack="r" * 250)
