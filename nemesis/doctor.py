"""What this machine can do: which clusters can be had, which faults can strike them, and why not the others.

Owns the examination. Each answer is that of whoever would do it, asked or tried, and a reason where the answer is no.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemesis.cluster.faketime import why_no_faketime
from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.netns_probe import TRIALS, probed
from nemesis.errors import UnsupportedError
from nemesis.faults.catalogue import FAULTS
from nemesis.pipeline.session import java_available
from nemesis.systems.catalogue import SYSTEMS, missing

NODES = 3
WhyNot = Mapping[str, str | None]
"""By name, why something cannot be done; absent if it can."""

TRIAL_WORDS = {
    "network": "network namespaces with bridges",
    "filter": "rules that cut links (nft)",
    "dice": "rules that lose packets by chance (nft numgen)",
    "throttle": "links of a limited rate (tc htb)",
    "netem": "late packets (tc netem)",
    "reset": "connections reset at once (ss -K)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was found: of each kind of cluster which faults it can do, of the machine what it has."""

    clusters: Mapping[str, WhyNot]
    machine: WhyNot
    systems: WhyNot

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return asdict(self)


def examined() -> Examined:
    """Ask and try everything; takes a second or two."""
    return Examined(
        clusters={kind.value: _faults_of(kind) for kind in ClusterKind},
        machine=_machine(),
        systems={name: missing(name) for name in SYSTEMS},
    )


def _faults_of(kind: ClusterKind) -> WhyNot:
    try:
        host = new_host(kind, Path(), NODES)
    except UnsupportedError as error:
        return dict.fromkeys(FAULTS, str(error))
    return {kind: host.lacks(fault.need) for kind, fault in FAULTS.items()}


def _machine() -> WhyNot:
    tried = probed()
    can_spark, said = java_available()
    return {
        **{TRIAL_WORDS[name]: tried[name] for name in TRIALS},
        "a container engine": _why_no_engine(),
        "libfaketime": why_no_faketime(),
        "Spark to judge with": None if can_spark else said,
    }


def _why_no_engine() -> str | None:
    from nemesis.cluster.containers_engine import find_engine

    try:
        find_engine()
    except UnsupportedError as error:
        return str(error)
    return None
