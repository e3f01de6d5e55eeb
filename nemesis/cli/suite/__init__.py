"""Suites: a file that names a matrix of runs, and all of them run and told of.

The way through: ``command`` (the options, and all runs in turn) -> ``document`` (a TOML file, with an error that names
key and line for whatever it cannot mean) -> ``matrix`` (every combination with every seed, as the settings of a run) ->
``play`` (one after the other, each a process of its own; what failed is kept whole) -> ``table`` (how each combination
fared). Imports neither gRPC nor what judges.
"""

from __future__ import annotations
