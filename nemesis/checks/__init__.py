"""The judgement of a run: Arrow columns in, anomaly rows and coverage out.

The way of the data: ``schemas`` (the columns) -> ``partition`` (one topic-partition as numpy arrays),
``replica_events`` (what its replicas told) -> ``observations`` (which value was seen at which offset) -> the checks,
each declared as one value (``check``), one file for each idea: ``placement`` (one value for each offset),
``provenance`` (everything read was written), ``losses`` (everything acknowledged is kept), ``sessions`` (a consumer
goes forward), ``sends`` (a producer's values stand in order), ``transactions`` (which ones happened, and what they may
not see), ``real_time`` (later stands later), ``sequences`` (a producer's batches stand once and in order),
``replica_logs`` (replicas agree), ``high_watermarks`` (committed stays committed), ``in_sync`` (who is called in sync
has it all), ``evidence`` (all of it is there to be looked at), ``objects`` (declared here, judged elsewhere) ->
``unclean_elections`` (why, or where, where that is known) -> ``anomalies`` (rows) -> ``registry`` (all checks) ->
``run_checks`` (all checks over all topic-partitions of a call; of transactions also ``cycles``, which crosses them: by
``precedence``, what stands before what, and where such a graph has circles) -> ``promises`` (what
became of each) -> ``verdict``.

Every check is a pure function of numpy arrays, so that Spark and a single process call the same ones. Nothing here
imports the system that is judged: a checker that shares code with it inherits its faults.
"""

from __future__ import annotations

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Check, Coverage, Found, LogCheck
from nemesis.checks.promises import Checked, Kept
from nemesis.checks.registry import BY_NAME, CHECKS, LOG_CHECKS
from nemesis.checks.run_checks import CheckOptions, Findings, judge_partitions, judge_transactions
from nemesis.checks.schemas import (
    ANOMALY_SCHEMA,
    COVERAGE_SCHEMA,
    LOG_BATCH_SCHEMA,
    MICRO_OPERATION_SCHEMA,
    OPERATION_SCHEMA,
    RUN_EVENT_SCHEMA,
    Severity,
)
from nemesis.checks.verdict import Decision, RunCounts, decide, faults_bit
from nemesis.verdict import Verdict
