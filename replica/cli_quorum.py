"""``replica quorum``: how the voters of a group stand. Owns the output of these commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from replica.cli_client import bootstrap_option, output_option, run, show, timeout_option, view_config

if TYPE_CHECKING:
    from replica.core.messages import DescribeQuorumResponse
    from replica.core.messages.quorum import QuorumReplicaState
    from replica.ids import Offset


@click.group()
def quorum() -> None:
    """Look at the quorum of a group."""


@quorum.command()
@click.option("--group", metavar="NAME", help="Of this group; without, of the cluster's metadata.")
@bootstrap_option
@output_option
@timeout_option
def describe(group: str | None, bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show who leads, and how far each voter and observer is, as the leader sees it."""

    async def ask() -> DescribeQuorumResponse:
        from replica.client.groups.failures import UnknownGroupError
        from replica.client.groups.quorum import describe_quorum

        try:
            return await describe_quorum(bootstrap, group, view_config=view_config(timeout_ms))
        except UnknownGroupError as error:
            raise click.ClickException(f"{error}; check --group, and that replicas were started with it") from error

    described = run(ask)
    rows = _rows(described)
    leader = described.current_leader
    summary = {
        "leader_id": None if leader is None else leader.leader_id,
        "leader_epoch": None if leader is None else leader.leader_epoch,
        "high_watermark": described.high_watermark,
    }
    if output == "json":
        show([{**summary, "replicas": rows}], output)
        return
    click.echo(
        f"leader {_known(summary['leader_id'])}, epoch {_known(summary['leader_epoch'])}, "
        f"high watermark {_known(summary['high_watermark'])}\n"
    )
    show(rows, output)


def _rows(described: DescribeQuorumResponse) -> list[dict[str, Any]]:
    ends = [state.log_end_offset for state in described.current_voters if state.log_end_offset is not None]
    end = max(ends, default=None)
    return [
        *(_row(state, "voter", end) for state in described.current_voters),
        *(_row(state, "observer", end) for state in described.observers),
    ]


def _row(state: QuorumReplicaState, role: str, end: Offset | None) -> dict[str, Any]:
    """One replica; ``lag`` is how many offsets it is behind the longest log of a voter, the leader's as a rule."""
    lag = None if state.log_end_offset is None or end is None else max(0, end - state.log_end_offset)
    return {
        "replica_id": state.replica_id,
        "role": role,
        "log_end_offset": state.log_end_offset,
        "lag": lag,
        "last_fetch_ms_ago": state.last_fetch_ms_ago,
        "last_caught_up_ms_ago": state.last_caught_up_ms_ago,
    }


def _known(number: int | None) -> str:
    return "unknown" if number is None else str(number)
