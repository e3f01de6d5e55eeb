"""Sweeps: many runs, of which each is counted, however it ends; one that could pick its runs would prove nothing.

The way through: ``command`` (the options, all runs in turn, and how they fared) -> ``document`` (what is common to all
runs, lists to combine, and seeds: of a TOML file, with an error that names key and line for whatever it cannot mean,
and of the command line; and every combination with every seed, as the settings of a run) -> ``play`` (one after the
other, each a process of its own; what failed is kept whole). Imports neither gRPC nor what judges.
"""

from __future__ import annotations
