"""``replica quorum``: how the voters of a group stand, and which of them leads. Owns the output of these commands.

Who they are is changed by the commands of ``voters``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import bootstrap_option, output_option, run, show, timeout_option, view_config
from replica.cli.help import Group, example
from replica.cli.voters import add_voter, remove_voter

if TYPE_CHECKING:
    from replica.core.messages import DescribeQuorumResponse
    from replica.core.messages.quorum import QuorumReplicaState
    from replica.ids import Offset


@click.group(cls=Group)
def quorum() -> None:
    """Look at the quorum of a group, move its leadership, and change who votes."""


@quorum.command(epilog=example("replica quorum describe --group kv"))
@click.option("--group", metavar="NAME", help="Of this group; without, of the cluster's metadata.")
@bootstrap_option
@output_option
@timeout_option
def describe(group: str | None, bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show who leads, and how far each voter and observer is, as the leader sees it."""

    async def ask() -> DescribeQuorumResponse:
        from replica.client.groups.quorum import describe_quorum

        return await describe_quorum(bootstrap, group, view_config=view_config(timeout_ms))

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


@quorum.command(epilog=example("replica quorum transfer --to 2"))
@click.option("--group", metavar="NAME", help="Of this group; without, of the cluster's metadata.")
@click.option("--to", "target", type=click.IntRange(min=0), required=True, metavar="ID", help="The voter to lead.")
@bootstrap_option
@timeout_option
def transfer(group: str | None, target: int, bootstrap: tuple[str, ...], timeout_ms: int) -> None:
    """Let another voter lead, and wait until it does.

    The leader takes no more commands, waits until the other has everything, and resigns. If the other is not there in
    half of the time, the leader goes on.
    """

    async def ask() -> DescribeQuorumResponse:
        from replica.client.groups.quorum import transfer_leadership
        from replica.ids import ReplicaId

        return await transfer_leadership(bootstrap, group, ReplicaId(target), view_config=view_config(timeout_ms))

    leader = run(ask).current_leader
    click.echo(f"replica {target} leads in epoch {_known(None if leader is None else leader.leader_epoch)}")


quorum.add_command(add_voter)
quorum.add_command(remove_voter)


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
        "directory_id": state.directory_id,
        "address": state.address or None,
    }


def _known(number: int | None) -> str:
    return "unknown" if number is None else str(number)
