"""The settings of a replica that the metadata log says: they count for more than those that it was started with.

Owns what holds in sum. What was started with is each replica's own, so that no controller can know whether what it
writes contradicts that: what contradicts here is left out here, and said. So what holds follows from the metadata and
the start alone, whatever came before, and two replicas that were started alike go by the same.

Source: Kafka's ``DynamicBrokerConfig``; KIP-226.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from msgspec import Struct

from replica.core.config import BrokerConfig, ControllerConfig, InvalidConfigError, MetadataConfig, ReplicaConfig
from replica.core.setting_kinds import UpdateMode, Value
from replica.core.setting_orders import ORDERS, ORDERS_OF_THE_CORE, Order
from replica.core.settings import NUMBERS, PARTS, SETTINGS

Numbers = Mapping[str, Sequence[int]]
ConfigT = TypeVar("ConfigT", BrokerConfig, ControllerConfig, MetadataConfig)


class DynamicSettings(Struct, frozen=True, kw_only=True):
    """What the metadata log says and holds, and what it says and cannot hold here, each with the reason."""

    values: Mapping[str, Value]
    left_out: Mapping[str, str]


NOTHING_SAID = DynamicSettings(values={}, left_out={})


def numbers_of(config: ReplicaConfig) -> Numbers:
    """The numbers that a replica was started with, by the names of their settings: those of all parts that know one."""
    found: dict[str, list[int]] = {name: [number] for name, number in config.driver_numbers.items()}
    for part in PARTS:
        held = getattr(config, part.field) or part.config()
        for each in fields(held):
            if part.prefix + each.name in NUMBERS:
                found.setdefault(part.prefix + each.name, []).append(getattr(held, each.name))
    return found


def settings_in_force(started_with: Numbers, told: Mapping[str, str]) -> DynamicSettings:
    """What holds of what a replica is told; of two that contradict each other neither does."""
    values: dict[str, Value] = {}
    left_out: dict[str, str] = {}
    for name, text in told.items():
        try:
            values[name] = read_setting(name, text)
        except InvalidConfigError as fault:
            left_out[name] = str(fault)
    while (found := _contradiction(started_with, values)) is not None:
        order, sentence = found
        for name in {order.lesser, order.greater} & values.keys():
            del values[name]
            left_out[name] = sentence
    return DynamicSettings(values=values, left_out=dict(sorted(left_out.items())))


def read_setting(name: str, text: str, modes: Iterable[UpdateMode] = frozenset(UpdateMode)) -> Value:
    """Read what a replica is told while it runs. Raises InvalidConfigError, with a sentence for its operator."""
    kind = SETTINGS.get(name)
    if kind is None:
        raise InvalidConfigError(f"{name} is no setting that a running replica can be told")
    if kind.mode is UpdateMode.READ_ONLY:
        raise InvalidConfigError(f"{name} needs a restart: start each replica with another value")
    if kind.mode not in modes:
        raise InvalidConfigError(f"{name} is of the whole cluster: set it for all brokers")
    return kind.read(name, text)


def with_values(config: ConfigT, values: Mapping[str, Value]) -> ConfigT:
    """The same part of the core with what the metadata log says of it."""
    known: dict[str, Any] = {each.name: values[each.name] for each in fields(config) if each.name in values}
    return replace(config, **known)


def _contradiction(started_with: Numbers, values: Mapping[str, Value]) -> tuple[Order, str] | None:
    """The first rule between two numbers that something of these values breaks, with the sentence about it."""
    numbers = {name: value for name, value in values.items() if isinstance(value, int) and name in NUMBERS}
    held = {**started_with, **{name: (number,) for name, number in numbers.items()}}
    for order in ORDERS_OF_THE_CORE + ORDERS:
        if order.lesser in numbers or order.greater in numbers:
            try:
                order.check(held)
            except InvalidConfigError as fault:
                return order, str(fault)
    return None
