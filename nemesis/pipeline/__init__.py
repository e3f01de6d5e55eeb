"""From the folders of recorded runs to their verdicts, on Spark or in one process.

The way of the data: ``runs`` (which folders, which shards of them, what is wrong) -> ``local`` in one process, or
``frames`` on Spark, where ``key_by_key`` judges what comes sorted (history -> operations -> anomalies, coverage and a
``tally``; both call the same checks) -> ``judgement`` (a verdict with its reasons, and ``results.json``). ``session``
says whether Spark can run here, and starts it, ``hadoop`` reads the file systems that it knows, ``engine`` chooses.
``weight`` says how much of one topic-partition is judged, ``streaming`` judges a run while it goes on, ``run_objects``
the objects that a run has used, ``corpora`` what is no run of ours. ``spread`` does any work that begins with a number
on a cluster.
pyspark is imported inside functions only: judging one file needs no JVM.
"""

from __future__ import annotations

from nemesis.pipeline.engine import EngineName, judge_run, judge_runs
from nemesis.pipeline.judgement import Judgement, write_results
from nemesis.pipeline.session import EngineUnavailableError, java_available
