"""Runs under wrong protocols, and with what may lose records: the story names the cause, and not without it.

Each file in ``stories`` is a run of a cluster of processes, by the command that it names, reduced to what its story
needs: of each kind one or two anomalies, their operations, the faults, and what replicas told of the logs concerned.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.report.data import view_of
from nemesis.report.folder import RunFiles
from nemesis.report.values import RunView
from nemesis.variants.catalogue import DIRECTED_VARIANTS
from tests.variants.causes import CAUSES

STORIES = Path(__file__).parent / "stories"
CONFIGURED = {"power-loss", "unclean-election", "lease-without-time"}
"""Schedules under which the right protocol may break a promise, as it was configured."""


def recorded(name: str) -> dict[str, Any]:
    """What a file of ``stories`` holds."""
    document: dict[str, Any] = json.loads((STORIES / f"{name}.json").read_text(encoding="utf-8"))
    return document


def seen(document: dict[str, Any], without: Collection[str] = ()) -> RunView:
    """A recorded run as the report shows it, without what replicas told by these events."""
    tables = {kind: pa.Table.from_pylist(document[kind], schema=SCHEMAS[kind]) for kind in Kind}
    events = tables[Kind.EVENTS]
    is_told = pc.invert(pc.is_in(events.column("event"), pa.array(sorted(without), pa.string())))
    return view_of(
        RunFiles(
            folder=STORIES,
            test={},
            results=document["results"],
            history=tables[Kind.HISTORY],
            logs=tables[Kind.LOGS],
            events=events.filter(is_told),
            log_files=(),
            missing=(),
        )
    )


def test_every_directed_variant_has_a_story() -> None:
    """No wrong protocol that a live cluster is directed into goes without, and each has a cause that is looked for."""
    assert {path.stem for path in STORIES.glob("*.json")} == DIRECTED_VARIANTS.keys() | CONFIGURED == CAUSES.keys()


@pytest.mark.parametrize("name", CAUSES)
def test_a_story_is_told_as_it_was(name: str) -> None:
    """The sentences are those of the file, which were read and found true and plain."""
    document = recorded(name)
    assert list(seen(document).judgement.narrative) == document["narrative"]


@pytest.mark.parametrize("name", CAUSES)
def test_a_story_names_the_cause_and_not_without_what_tells_of_it(name: str) -> None:
    """What lost the records, or made them differ, is told; taken out of the replicas' reports, it is not."""
    document = recorded(name)
    for cause in CAUSES[name]:
        assert cause.is_named(seen(document).judgement), cause
        assert not cause.is_named(seen(document, without=cause.told_by).judgement), cause


@pytest.mark.parametrize("name", CAUSES)
def test_every_lost_record_of_a_story_has_a_cause(name: str) -> None:
    """Where the replicas have told, no cause is unknown; where they have told nothing, each is, if no check knew it."""
    document = recorded(name)
    everything = {row["event"] for row in document["events"]}
    assert all(record.cause for record in seen(document).judgement.lost)
    silent = seen(document, without=everything).judgement
    known = {row["evidence"].get("cause", "") for row in document["results"]["anomalies"]}
    assert {record.cause for record in silent.lost} <= known
