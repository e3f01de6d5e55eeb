"""Scenarios as conversations in files: a command, what it printed, and the diff when that changes.

The way of a scenario, file by file: the format is read and written by ``simulator.scenario_files``; ``play`` performs
it, one directive after another, by ``commands`` with ``passing_time`` and ``doing_harm``, on what ``performance``
keeps; ``stage`` is the calm world in which they act, ``views`` how it looks, ``messages`` what arrives in it;
``tables`` show a view as text, ``picture`` and ``page`` as HTML.

There are two kinds of stage. ``quorum_stage`` has one quorum log, with ``campaigns`` as its commands. ``cluster_stage``
has brokers, a controller and one partition: ``cluster_commands`` are its commands, ``cluster_world`` says what it is
like, holds back rounds of fetching, and sees what goes wrong.

A *story* is a scenario that teaches, with prose above its steps; ``collection`` knows them by name.
"""

from __future__ import annotations
