"""The report: one page that says what ran, what was promised, and whether every promise was kept.

What befell the records of a log is in ``lives``; ``lost_records`` and ``narrative`` tell it. ``perfetto`` makes traces.

Reads a run folder and nothing else, so a stored run can be reported again years later, without a cluster. The way of
the data, file by file: ``folder`` (the run folder's tables and documents, and what is missing) -> ``operations``
(invocations paired with completions, counted, binned and sampled), ``timeline`` (faults, leaderships, marks),
``log_views`` (each log over time), ``final_logs``, ``evidence``, ``lost_records``, ``judgement``, ``headlines`` and
``narrative`` (verdict, promises, anomalies, and what happened) -> ``data`` (all of it as one frozen ``RunView`` of
``values``) -> ``figures`` (what is drawn, as data for the page's own scripts) -> ``page`` (HTML through a template with
autoescape), and ``text`` for a terminal. Histories of other systems have a page of their own: ``conviction``, and
``conviction_cycle`` and ``conviction_logs`` -> ``conviction_kafka``; the report has the same pictures by way of
``conviction_run``.
"""

from __future__ import annotations

from nemesis.report.page import write_report

__all__ = ["write_report"]
