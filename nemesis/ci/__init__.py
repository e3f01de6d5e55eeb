"""What a run says to continuous integration, whoever has started it: pytest, a sweep, or the command line.

The way through: ``command`` (``nemesis`` as a process of its own, which ends whatever happens) -> ``judged`` (what it
left in its folder, as one value) -> ``words`` (why it is not valid, in so many lines), ``junit`` (a file that every CI
system reads), ``github`` (annotations and the summary of a step) and ``keeping`` (folders that stay small). Reads files
and starts commands, whose options it does not know; imports neither gRPC nor what judges, so that a test runner that
loads it stays light.
"""

from __future__ import annotations
