"""The ``replica`` command.

Owns the list of subcommands; what they do is in the files beside this one. Whatever is heavy (gRPC, protobuf, the
server) is imported inside the commands, so that ``--help`` and ``health`` answer at once. Data goes to standard output,
everything else to standard error.
"""

from __future__ import annotations

import click

from replica.cli.acl import acl
from replica.cli.certs import certs
from replica.cli.cluster import health, status
from replica.cli.config import config
from replica.cli.config_cluster import quota
from replica.cli.disk import dump_log
from replica.cli.features import features
from replica.cli.format import format_data_directory, format_log_directories, random_id
from replica.cli.group import group
from replica.cli.help import Group, example
from replica.cli.kv import kv
from replica.cli.quorum import quorum
from replica.cli.records import consume, offsets, produce
from replica.cli.start import start_command
from replica.cli.tls import tls_options
from replica.cli.top import top
from replica.cli.topic import cluster, partition, topic

SECTIONS = {
    "Records and topics": ("produce", "consume", "offsets", "topic", "partition"),
    "Keys and values": ("kv", "group"),
    "The cluster": ("cluster", "quorum", "acl", "quota", "features", "status", "top", "health"),
    "A replica and its disk": ("certs", "random-id", "format", "format-log-dir", "config", "start", "dump-log"),
}


@click.group(
    cls=Group,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=example(
        "export REPLICA_BOOTSTRAP=127.0.0.1:9001,127.0.0.1:9002",
        "replica topic create orders --partitions 3",
        "echo apples | replica produce orders",
        "replica consume orders --timeout-ms 2000",
    ),
)
@click.version_option(package_name="highwater-log")
@tls_options
def main() -> None:
    """Run and use the replicas of a Highwater cluster."""


main.add_command(format_data_directory)
main.add_command(format_log_directories)
main.add_command(random_id)
main.add_command(certs)
main.add_command(config)
main.add_command(start_command())
main.add_command(health)
main.add_command(status)
main.add_command(top)
main.add_command(cluster)
main.add_command(topic)
main.add_command(partition)
main.add_command(produce)
main.add_command(consume)
main.add_command(offsets)
main.add_command(kv)
main.add_command(group)
main.add_command(quorum)
main.add_command(acl)
main.add_command(quota)
main.add_command(features)
main.add_command(dump_log)


if __name__ == "__main__":
    main(prog_name="replica")
