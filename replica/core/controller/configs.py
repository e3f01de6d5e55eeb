"""The settings of brokers and the quotas of users: changed, all or none, and told.

Everything is checked before the first record is written: names, whether a setting can change while replicas run,
values, and the rules between two numbers, also with those that this controller was started with.

Source: Kafka's ``ConfigurationControlManager``, ``ClientQuotaControlManager``, ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping

from replica.bounds import CONFIG_RESOURCES_MAX
from replica.core.config import InvalidConfigError
from replica.core.controller.state import ControllerState
from replica.core.dynamic_settings import read_setting, settings_in_force
from replica.core.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ResourceConfigs,
)
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.quotas import QUOTAS
from replica.core.metadata.records import ResourceConfigRecord
from replica.core.metadata.resources import (
    ALL_BROKERS,
    ConfigResource,
    ConfigResourceType,
    Configs,
    broker_resource,
    told_to,
    with_config,
)
from replica.core.setting_kinds import UpdateMode, Value, written
from replica.errors import ErrorCode
from replica.ids import ReplicaId


def on_alter_configs(c: ControllerState, request: AlterConfigsRequest, now_ms: int) -> AlterConfigsResponse:
    """Change settings of one resource, all or none."""
    resource, before = request.resource, c.image.configs
    try:
        broker_id = _broker_of(c.image.brokers, resource)
        configs = {name: _canonical(resource, name, text) for name, text in sorted(request.configs.items())}
        wanted = before
        for name, text in configs.items():
            wanted = with_config(wanted, resource, name, text)
        if len(wanted) > CONFIG_RESOURCES_MAX:
            raise InvalidConfigError(f"{CONFIG_RESOURCES_MAX} brokers and users have settings, the most there may be")
        if resource.resource_type is ConfigResourceType.BROKER:
            _check_contradictions(c, wanted, broker_id)
    except InvalidConfigError as invalid:
        return AlterConfigsResponse(error=ErrorCode.INVALID_CONFIG, message=str(invalid))
    known = before.get(resource, {})
    c.append(
        *(
            ResourceConfigRecord(resource=resource, name=name, value=text)
            for name, text in configs.items()
            if known.get(name) != text
        )
    )
    c.follow_settings(now_ms)
    return AlterConfigsResponse(error=ErrorCode.NONE)


def _broker_of(brokers: Mapping[ReplicaId, BrokerRegistration], resource: ConfigResource) -> ReplicaId | None:
    """The broker that is meant; None for all of them, and for users. Raises InvalidConfigError."""
    if resource.resource_type is not ConfigResourceType.BROKER or resource == ALL_BROKERS:
        return None
    for broker_id in brokers:
        if str(broker_id) == resource.name:
            return broker_id
    raise InvalidConfigError(f"no broker has the id {resource.name}")


def _canonical(resource: ConfigResource, name: str, text: str | None) -> str | None:
    """A value as it is to be kept. Raises InvalidConfigError."""
    if text is None:
        return None
    return written(_read(resource, name, text))


def _read(resource: ConfigResource, name: str, text: str) -> Value:
    if resource.resource_type is ConfigResourceType.BROKER:
        return read_setting(name, text, UpdateMode if resource == ALL_BROKERS else (UpdateMode.PER_BROKER,))
    if name not in QUOTAS:
        raise InvalidConfigError(f"{name} is no quota; there are {', '.join(QUOTAS)}")
    return QUOTAS[name].read(name, text)


def _check_contradictions(c: ControllerState, wanted: Configs, broker_id: ReplicaId | None) -> None:
    """Raise InvalidConfigError if something would not hold that holds now, or is new: of the broker, or of any."""
    with_own = [each for each in c.image.brokers if broker_resource(each) in wanted]
    concerned = [None, *with_own] if broker_id is None else [broker_id]
    for each in concerned:
        before, after = (
            settings_in_force(c.numbers, configs.get(ALL_BROKERS, {}) if each is None else told_to(configs, each))
            for configs in (c.image.configs, wanted)
        )
        for name, sentence in after.left_out.items():
            if name not in before.left_out:
                raise InvalidConfigError(sentence if each is None else f"{sentence} (broker {each})")


def on_describe_configs(c: ControllerState, request: DescribeConfigsRequest, _now_ms: int) -> DescribeConfigsResponse:
    """Tell the settings of one kind of resources."""
    return DescribeConfigsResponse(
        error=ErrorCode.NONE,
        resources=tuple(
            ResourceConfigs(resource=resource, configs=configs)
            for resource, configs in c.image.configs.items()
            if resource.resource_type is request.resource_type
        ),
    )
