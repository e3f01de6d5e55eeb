"""``replica features``: the feature level of a cluster, which a rolling upgrade ends with."""

from __future__ import annotations

import click

from replica.cli.client import bootstrap_option, output_option, show, timeout_option, with_admin
from replica.cli.help import Group, example


@click.group(cls=Group)
def features() -> None:
    """Look at the feature level of the cluster, and raise it once all replicas run a newer release."""


@features.command(epilog=example("replica features describe"))
@bootstrap_option
@output_option
@timeout_option
def describe(bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show the level of the cluster, and the newest that each broker and voter knows.

    Where that is left out, the controller has not heard from it: it is down, or another one was the controller so far.
    """
    told = with_admin(bootstrap, timeout_ms, lambda admin: admin.describe_features())
    show(
        [
            {
                "replica": each.replica_id,
                "cluster_level": told.feature_level,
                "newest_level": each.newest_feature_level,
            }
            for each in told.replicas
        ],
        output,
    )


@features.command(epilog=example("replica features upgrade --level 2"))
@click.option("--level", required=True, type=click.IntRange(min=1), help="The level that the cluster is to be at.")
@bootstrap_option
@timeout_option
def upgrade(level: int, bootstrap: tuple[str, ...], timeout_ms: int) -> None:
    """Raise the level of the cluster. Refused unless every broker and voter knows it; it is never lowered."""
    with_admin(bootstrap, timeout_ms, lambda admin: admin.update_features(level))
    click.echo(f"the cluster is at feature level {level}")
