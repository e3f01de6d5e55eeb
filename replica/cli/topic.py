"""``replica topic``, ``replica partition`` and ``replica cluster``: what administrators ask for.

Owns the output of these commands. The words of options and errors are ``client``'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import (
    bootstrap_option,
    output_option,
    settings,
    show,
    timeout_option,
    with_admin,
)
from replica.cli.help import Group, example
from replica.cli.replace_broker import replace_broker
from replica.cli.topic_backup import topic_backup, topic_restore
from replica.cli.topic_reassign import reassign, reassignments, replica_ids
from replica.cli.topic_waiting import ReplicaEnds, offline_line, offline_replicas, replica_ends, waiting_lines
from replica.ids import OFFSET_MAX, ReplicaId

if TYPE_CHECKING:
    from replica.client.admin import Admin
    from replica.core.messages import DescribeClusterResponse
    from replica.core.metadata.image import TopicImage


@click.group(cls=Group)
def topic() -> None:
    """Create, show, change, move, back up and delete topics."""


topic.add_command(reassign)
topic.add_command(reassignments)
topic.add_command(topic_backup)
topic.add_command(topic_restore)


@topic.command(
    "create",
    epilog=example("replica topic create orders --partitions 3 --replication-factor 3 --config min.insync.replicas=2"),
)
@click.argument("name")
@bootstrap_option
@click.option("--partitions", type=click.IntRange(min=1), help="How many; the cluster's default without it.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Replicas per partition.")
@click.option(
    "--assignment",
    multiple=True,
    metavar="ID,ID,...",
    help="The replicas of a partition, preferred leader first; once per partition, instead of the two counts.",
)
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; once per setting.")
@timeout_option
def topic_create(
    name: str,
    bootstrap: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    assignment: tuple[str, ...],
    configs: tuple[str, ...],
    timeout_ms: int,
) -> None:
    """Create the topic NAME."""
    chosen = settings(configs, "--config")
    replicas = [replica_ids(entry) for entry in assignment]

    async def create(admin: Admin) -> int:
        return await admin.create_topic(
            name,
            partition_count=partitions,
            replication_factor=replication_factor,
            assignment=replicas,
            configs=chosen,
        )

    topic_id = with_admin(bootstrap, timeout_ms, create)
    click.echo(f"created {name} with id {topic_id}")


@topic.command("list", epilog=example("replica topic list"))
@bootstrap_option
@output_option
@timeout_option
def topic_list(bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """List all topics."""
    described = with_admin(bootstrap, timeout_ms, lambda admin: admin.describe_cluster())
    show([_topic_row(image) for image in sorted(described.topics, key=lambda image: image.name)], output)


@topic.command("describe", epilog=example("replica topic describe orders"))
@click.argument("name")
@bootstrap_option
@output_option
@timeout_option
def topic_describe(name: str, bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show the settings of the topic NAME, and of each partition its leader and replicas.

    Of a partition that waits for an operator to choose who leads: what each of its replicas has. Of one that lacks
    replicas in sync: on which of them its log cannot be used.
    """

    async def describe(admin: Admin) -> tuple[TopicImage, ReplicaEnds, dict[int, list[int]]]:
        image = await admin.describe_topic(name)
        ends = await replica_ends(admin, image, timeout_ms)
        return image, ends, await offline_replicas(admin, image, timeout_ms)

    image, ends, offline = with_admin(bootstrap, timeout_ms, describe)
    partitions = _partition_rows(image)
    if output == "json":
        rows = [
            {
                **row,
                "offline_replicas": offline.get(row["partition"], []),
                "waits_for_operator": ends.get(row["partition"]),
            }
            for row in partitions
        ]
        show([{**_topic_row(image), "partitions": rows}], output)
        return
    configs = ", ".join(f"{setting}={value}" for setting, value in sorted(image.configs.items()))
    click.echo(f"{name}: id {image.topic_id}, {len(partitions)} partitions, {configs or 'default settings'}\n")
    show(partitions, output)
    for number, replicas in offline.items():
        click.echo(f"\n{offline_line(name, number, replicas)}")
    for number in ends:
        click.echo("\n" + "\n".join(waiting_lines(name, number, image.partitions[number], ends)))


@topic.command("alter", epilog=example("replica topic alter orders --config min.insync.replicas=1"))
@click.argument("name")
@bootstrap_option
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A new value; once per setting.")
@click.option("--unset", multiple=True, metavar="NAME", help="Return a setting to its default.")
@timeout_option
def topic_alter(
    name: str, bootstrap: tuple[str, ...], configs: tuple[str, ...], unset: tuple[str, ...], timeout_ms: int
) -> None:
    """Change settings of the topic NAME; what is not named stays."""
    changes: dict[str, str | None] = {**settings(configs, "--config"), **dict.fromkeys(unset)}
    if not changes:
        raise click.UsageError("nothing to change; name a setting with --config or --unset")
    with_admin(bootstrap, timeout_ms, lambda admin: admin.alter_topic(name, changes))
    click.echo(f"altered {name}")


@topic.command("delete", epilog=example("replica topic delete orders"))
@click.argument("name")
@bootstrap_option
@timeout_option
def topic_delete(name: str, bootstrap: tuple[str, ...], timeout_ms: int) -> None:
    """Delete the topic NAME with all its records."""
    with_admin(bootstrap, timeout_ms, lambda admin: admin.delete_topic(name))
    click.echo(f"deleted {name}")


@topic.command(
    "delete-records", epilog=example("replica topic delete-records orders --partition 0 --before-offset 100")
)
@click.argument("name")
@bootstrap_option
@click.option("--partition", "number", type=click.IntRange(min=0), required=True, help="Of which partition.")
@click.option(
    "--before-offset",
    type=click.IntRange(min=-1, max=OFFSET_MAX),
    required=True,
    help="Where the partition is to begin: at most its high watermark, which is also meant by -1.",
)
@timeout_option
def topic_delete_records(
    name: str, bootstrap: tuple[str, ...], number: int, before_offset: int, timeout_ms: int
) -> None:
    """Delete the oldest records of a partition of the topic NAME.

    The leader answers when all replicas have done so whose brokers are not fenced.
    """

    async def delete(admin: Admin) -> int:
        from replica.ids import TopicPartition

        topic_partition = TopicPartition(name, number)
        return (await admin.delete_records({topic_partition: before_offset}))[topic_partition]

    low_watermark = with_admin(bootstrap, timeout_ms, delete)
    click.echo(f"{name}-{number} begins at offset {low_watermark}")


@click.group(cls=Group)
def partition() -> None:
    """Move the leadership of partitions."""


@partition.command("elect-leader", epilog=example("replica partition elect-leader orders 0"))
@click.argument("topic_name", metavar="TOPIC")
@click.argument("number", metavar="PARTITION", type=click.IntRange(min=0))
@bootstrap_option
@click.option(
    "--type",
    "election_type",
    type=click.Choice(["preferred", "unclean"]),
    default="preferred",
    show_default=True,
    help="preferred: the first of its replicas. unclean: one that is alive where no other can; records may be lost.",
)
@click.option("--leader", type=click.IntRange(min=0), help="Who is to lead; unclean needs it.")
@timeout_option
def elect_leader(
    topic_name: str, number: int, bootstrap: tuple[str, ...], election_type: str, leader: int | None, timeout_ms: int
) -> None:
    """Let another replica lead a partition."""

    async def elect(admin: Admin) -> None:
        from replica.core.messages import ElectionType
        from replica.ids import ReplicaId, TopicPartition

        await admin.elect_leader(
            TopicPartition(topic_name, number),
            ElectionType(election_type),
            leader_id=None if leader is None else ReplicaId(leader),
        )

    with_admin(bootstrap, timeout_ms, elect)
    click.echo(f"{topic_name}-{number} has a new leader")


@click.group(cls=Group)
def cluster() -> None:
    """Look at the cluster, replace brokers, and forget those that are gone."""


@cluster.command("describe", epilog=example("replica cluster describe"))
@bootstrap_option
@output_option
@timeout_option
def cluster_describe(bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show the brokers, the controller, and how many partitions lack replicas or a leader."""
    described = with_admin(bootstrap, timeout_ms, lambda admin: admin.describe_cluster())
    brokers, summary = _broker_rows(described), _summary(described)
    if output == "json":
        show([{**summary, "brokers": brokers}], output)
        return
    click.echo(
        "\n".join(f"{name.replace('_', ' ')}: {'-' if value is None else value}" for name, value in summary.items())
    )
    click.echo()
    show(brokers, output)


cluster.add_command(replace_broker)


@cluster.command("unregister", epilog=example("replica cluster unregister --broker-id 4"))
@bootstrap_option
@click.option("--broker-id", type=click.IntRange(min=0), required=True, help="A broker that is gone for good.")
@timeout_option
def cluster_unregister(bootstrap: tuple[str, ...], broker_id: int, timeout_ms: int) -> None:
    """Forget a broker that is stopped, and of which no partition has a replica."""
    with_admin(bootstrap, timeout_ms, lambda admin: admin.unregister_broker(ReplicaId(broker_id)))
    click.echo(f"broker {broker_id} is unregistered")


# --- rows -----------------------------------------------------------------------------------------------------------


def _topic_row(image: TopicImage) -> dict[str, Any]:
    return {
        "name": image.name,
        "topic_id": image.topic_id,
        "partitions": len(image.partitions),
        "replicas": max((len(registration.replicas) for registration in image.partitions.values()), default=0),
        "configs": dict(sorted(image.configs.items())),
    }


def _partition_rows(image: TopicImage) -> list[dict[str, Any]]:
    return [
        {
            "partition": number,
            "leader_id": registration.leader_id,
            "leader_epoch": registration.leader_epoch,
            "replicas": list(registration.replicas),
            "isr": list(registration.isr),
            "elr": list(registration.elr),
            "last_known_leader": registration.last_known_leader,
            "leader_recovery_state": registration.leader_recovery_state.value,
            "partition_epoch": registration.partition_epoch,
            "adding_replicas": list(registration.adding_replicas),
            "removing_replicas": list(registration.removing_replicas),
        }
        for number, registration in sorted(image.partitions.items())
    ]


def _broker_rows(described: DescribeClusterResponse) -> list[dict[str, Any]]:
    registrations = [registration for image in described.topics for registration in image.partitions.values()]
    return [
        {
            "broker_id": broker.broker_id,
            "address": broker.address,
            "rack": broker.rack,
            "state": _state(fenced=broker.fenced, leaving=broker.in_controlled_shutdown),
            "broker_epoch": broker.broker_epoch,
            "directory_id": broker.directory_id,
            "leads": sum(registration.leader_id == broker.broker_id for registration in registrations),
            "replicas": sum(broker.broker_id in registration.replicas for registration in registrations),
        }
        for broker in sorted(described.brokers, key=lambda broker: broker.broker_id)
    ]


def _state(*, fenced: bool, leaving: bool) -> str:
    return "fenced" if fenced else "shutting down" if leaving else "active"


def _summary(described: DescribeClusterResponse) -> dict[str, Any]:
    registrations = [registration for image in described.topics for registration in image.partitions.values()]
    controller = described.controller
    return {
        "cluster_id": described.cluster_id,
        "controller_id": None if controller is None else controller.leader_id,
        "controller_epoch": None if controller is None else controller.leader_epoch,
        "metadata_offset": described.metadata_offset,
        "topics": len(described.topics),
        "partitions": len(registrations),
        "under_replicated_partitions": sum(len(item.isr) < len(item.replicas) for item in registrations),
        "offline_partitions": sum(item.leader_id is None for item in registrations),
    }
