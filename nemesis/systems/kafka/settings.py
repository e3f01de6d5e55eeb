"""The properties of a broker, and the command that runs Kafka's own programs.

Owns their values. Every broker is a controller as well. It has three listeners: for clients and brokers, for
controllers, and one for the harness, which no fault touches. Patience is that of our own replicas under test: a run of
a minute must see sessions end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nemesis.cluster.replica_options import Timing

CLIENT_PORT, CONTROLLER_PORT, HARNESS_PORT = 9092, 9093, 9094
CLUSTER_ID = "aGlnaHdhdGVyLXRlc3Q0MQ"
"""Kafka wants 16 bytes in base64."""
HEAP = "256m"
FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
LOG_LINES = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn")
HIGH_WATERMARKS_MS = 500
"""How often a broker writes its high watermarks down, from where the harness reads them."""


def java_command(java: str, jars: Path, program: str, *arguments: str) -> Sequence[str]:
    """Run one of Kafka's programs."""
    memory = (f"-Xmx{HEAP}", f"-Xms{HEAP}")
    return (java, *memory, *FAST_START, *LOG_LINES, "-cp", str(jars / "*"), program, *arguments)


def broker_properties(
    node: int, *, timing: Timing, folder: Path, clients: str, controllers: Mapping[int, str], harness: str
) -> str:
    """The file of one broker. ``clients`` and ``harness`` are its addresses, ``controllers`` those of all."""
    voters = ",".join(f"{peer}@{address}" for peer, address in controllers.items())
    lines = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controllers[node]},HARNESS://{harness}",
        "advertised.listeners": f"PLAINTEXT://{clients},HARNESS://{harness}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,HARNESS:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": folder,
        "auto.create.topics.enable": "false",
        "controller.quorum.election.timeout.ms": timing.election_timeout_ms,
        "controller.quorum.election.backoff.max.ms": timing.election_backoff_max_ms,
        "controller.quorum.fetch.timeout.ms": timing.fetch_timeout_ms,
        "controller.quorum.request.timeout.ms": timing.request_timeout_ms,
        "broker.session.timeout.ms": timing.broker_session_timeout_ms,
        "broker.heartbeat.interval.ms": timing.broker_heartbeat_interval_ms,
        "replica.lag.time.max.ms": timing.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms": timing.replica_fetch_wait_max_ms,
        "replica.fetch.backoff.ms": timing.replica_fetch_backoff_ms,
        "replica.socket.timeout.ms": timing.replica_socket_timeout_ms,
        "replica.high.watermark.checkpoint.interval.ms": HIGH_WATERMARKS_MS,
        "leader.imbalance.check.interval.seconds": timing.leader_imbalance_check_interval_seconds,
        "controlled.shutdown.enable": "true",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
