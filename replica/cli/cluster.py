"""``replica health`` and ``status``: what asks each replica for itself.

Owns their output and exit codes. ``health`` imports so little that it suits a container's health check.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from replica.cli.client import bootstrap_option, output_option, show
from replica.cli.help import example
from replica.cli.tls import tls_files

if TYPE_CHECKING:
    from replica.client.connections import Connections, Endpoint
    from replica.core.messages import DescribeReplicaResponse

_COLUMNS = (
    "address",
    "replica_id",
    "role",
    "epoch",
    "leader_id",
    "high_watermark",
    "log_end_offset",
    "flushed_end_offset",
)
_timeout = click.option("--timeout-ms", type=click.IntRange(min=1), default=5000, show_default=True)


@click.command(
    epilog=example("replica health --address 127.0.0.1:9001", "replica health --address 127.0.0.1:9001 --ready")
)
@click.option("--address", required=True, metavar="HOST:PORT", envvar="REPLICA_ADDRESS", show_envvar=True)
@click.option("--live", is_flag=True, help="Does its event loop run? This is the default.")
@click.option("--ready", is_flag=True, help="Has it the cluster's metadata, and is its broker registered and unfenced?")
@click.option("--service", metavar="NAME", help="Ask for another name of its health service, such as a service's.")
@click.option("--timeout-ms", type=click.IntRange(min=1), default=1000, show_default=True)
def health(address: str, live: bool, ready: bool, service: str | None, timeout_ms: int) -> None:
    """Exit with 0 if the replica at ADDRESS is alive, or ready, and with 1 if not.

    One that is alive and not ready need not be restarted: it may be waiting for the others.
    """
    from replica.server.health_check import LIVENESS, READINESS, UnhealthyError, check_health

    asked = [*([LIVENESS] if live else ()), *([READINESS] if ready else ()), *(() if service is None else (service,))]
    question, *others = asked or [LIVENESS]
    if others:
        raise click.UsageError("ask one question: --live, --ready or --service")
    try:
        check_health(address, service=question, timeout_ms=timeout_ms, tls=tls_files())
    except UnhealthyError as error:
        raise click.ClickException(str(error)) from error
    click.echo("ready" if question == READINESS else "serving")


@click.command(epilog=example("replica status --bootstrap 127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003"))
@bootstrap_option
@output_option
@_timeout
def status(bootstrap: tuple[str, ...], output: str, timeout_ms: int) -> None:
    """Show the role, epoch and offsets in the metadata log of each replica that is named, and dial no other.

    Exits with 1 if none of them answers.
    """
    import asyncio

    from replica.client.connections import bootstrap_endpoints
    from replica.rpc.addresses import InvalidAddressError

    try:
        rows = asyncio.run(_states(bootstrap_endpoints(bootstrap), timeout_ms))
    except InvalidAddressError as error:
        raise click.UsageError(str(error)) from error
    shown = [{column: ({"role": "unreachable"} | row).get(column) for column in _COLUMNS} for row in rows]
    show(rows if output == "json" else shown, output)
    sys.exit(0 if any(row["error"] is None for row in rows) else 1)


async def _states(endpoints: tuple[Endpoint, ...], timeout_ms: int) -> list[dict[str, Any]]:
    """Ask every replica at once."""
    import asyncio

    from replica.client.connections import GrpcConnections

    connections = GrpcConnections(tls=tls_files())
    try:
        return list(await asyncio.gather(*(_state_of(connections, endpoint, timeout_ms) for endpoint in endpoints)))
    finally:
        await connections.close()


async def _state_of(connections: Connections, endpoint: Endpoint, timeout_ms: int) -> dict[str, Any]:
    from replica.core.messages import DescribeReplicaRequest, DescribeReplicaResponse
    from replica.core.metadata.replay import METADATA_LOG
    from replica.errors import ErrorCode
    from replica.rpc.transport import TransportError

    row: dict[str, Any] = {"address": endpoint.address, "replica_id": None}
    try:
        state = await connections.call(endpoint, DescribeReplicaRequest(topic_partition=METADATA_LOG), timeout_ms)
    except TransportError as error:
        return {**row, "error": str(error)}
    assert isinstance(state, DescribeReplicaResponse), state
    if state.error is not ErrorCode.NONE:
        return {**row, "error": f"{endpoint} answered {state.error}"}
    return {**row, "replica_id": state.replica_id, "error": None, **_state_row(state)}


def _state_row(state: DescribeReplicaResponse) -> dict[str, Any]:
    return {
        "role": state.role,
        "epoch": None if state.leader is None else state.leader.leader_epoch,
        "leader_id": None if state.leader is None else state.leader.leader_id,
        "high_watermark": state.high_watermark,
        "log_end_offset": state.log_end_offset,
        "flushed_end_offset": state.flushed_end_offset,
        "directory_id": state.directory_id,
    }
