"""Make a history up and write it.

Owns which model goes into which kind of file: objects and Kafka workloads into one file, a run into a folder.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.synth.log_plants import RUN, TRANSACTIONS, log_scripts
from benchmarks.synth.log_world import LogWorld
from benchmarks.synth.manifest import MANIFEST_SUFFIX, Manifest, Planted
from benchmarks.synth.object_plants import KINDS, object_scripts
from benchmarks.synth.objects import ObjectWorld
from benchmarks.synth.plan import Placing, Plan, PlanError, SynthModel, placings
from benchmarks.synth.recording import LINES, NANOSECONDS, Lines, RunRecorder, TransactionRecorder, partition_name
from benchmarks.synth.replicas import batches, dumps, starts, told
from nemesis.history.writer import HistoryWriter


def kinds_of(model: SynthModel, target: Path) -> Mapping[str, int]:
    """What can be planted in a history of this model that goes to ``target``, and how many keys one of each takes."""
    if model is not SynthModel.KAFKA:
        return dict.fromkeys(KINDS[model], 1)
    kinds = TRANSACTIONS if target.suffix in LINES else RUN
    return {name: 2 if kind.pair is not None else 1 for name, kind in kinds.items()}


def build(plan: Plan, target: Path) -> Manifest:
    """Write the history and its manifest; returns what was planted.

    The manifest is ``synth.manifest`` in the folder of a run, and beside a file it is named as the file with
    ``.manifest`` behind. Raises PlanError for what cannot be made, FileExistsError for a folder that has a run.
    """
    is_file = target.suffix in LINES
    if not is_file and (plan.model is not SynthModel.KAFKA or target.suffix):
        raise PlanError(f"{target} is no file of a known kind: end its name with {', '.join(LINES)}")
    placed = placings(plan, kinds_of(plan.model, target))
    planted: list[Planted] = []
    events = _file(plan, target, planted, placed) if is_file else _run(plan, target, planted, placed)
    manifest = Manifest(plan=plan, events=events, planted=planted)
    manifest.write(target.with_name(target.name + MANIFEST_SUFFIX) if is_file else target / f"synth{MANIFEST_SUFFIX}")
    return manifest


def _run(plan: Plan, folder: Path, planted: list[Planted], placed: list[Placing]) -> int:
    with HistoryWriter(folder) as writer:
        scripts = log_scripts(RUN, planted, partition_name)
        world = LogWorld(plan, RunRecorder(writer), scripts, placed, transactions=False)
        world.run()
        dumped: Counter[tuple[int, str]] = Counter()
        for number, log in enumerate(world.logs):
            for batch in batches(number, log):
                writer.write(batch)
                dumped[batch.replica_id, batch.topic_partition] += batch.base_offset is not None
            for event in told(number, log, writer.next_index):
                writer.write(event)
        for started in starts():
            writer.write(started)
        for dump in dumps(dumped, writer.next_index):
            writer.write(dump)
        declared = {"gapless": [partition_name(number) for number in range(plan.keys)]}
        (folder / "test.json").write_text(json.dumps(declared) + "\n", encoding="utf-8")
        return writer.next_index


def _file(plan: Plan, target: Path, planted: list[Planted], placed: list[Placing]) -> int:
    out = LINES[target.suffix](target)
    try:
        write = _workload if plan.model is SynthModel.KAFKA else _objects
        return write(plan, out, planted, placed)
    finally:
        out.close()


def _workload(plan: Plan, out: Lines, planted: list[Planted], placed: list[Placing]) -> int:
    recorder = TransactionRecorder(out.write)
    LogWorld(plan, recorder, log_scripts(TRANSACTIONS, planted, str), placed, transactions=True).run()
    return recorder.index


def _objects(plan: Plan, out: Lines, planted: list[Planted], placed: list[Placing]) -> int:
    world = ObjectWorld(plan, object_scripts(planted), placed)
    for told_now in world.run():
        for event in told_now:
            about = {"index": event.index, "time": event.index * NANOSECONDS, "process": event.process}
            out.write(about | {"type": event.type, "f": event.f, "key": event.key, "value": event.value})
    return world.index
