"""What a run says to continuous integration, whoever has started it: pytest, a sweep, or the command line.

The way through: ``command`` (``nemesis`` as a process of its own, which ends whatever happens) -> ``judged`` (what it
left in its folder, as one value, and what of that is kept) -> ``cases`` (why it is not valid, in so many lines) ->
``telling`` (a file that every CI system reads; for GitHub annotations and the summary of a step). Reads files and
starts commands, whose options it does not know; imports neither gRPC nor what judges, so that a test runner that
loads it stays light.
"""

from __future__ import annotations
