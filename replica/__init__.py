"""Highwater's replicated log: a replica, its client, and their command line.

The way of a record, from the outside in and back: ``client`` encodes it with ``records`` and sends it by ``rpc``;
``server`` receives it and hands it to ``core``, which decides everything and touches nothing; ``storage`` puts it on
disk; and the answer takes the same way back. ``ids``, ``errors`` and ``bounds`` are what all of them share; ``v1``
is generated from ``proto/``; ``cli`` is the ``replica`` command.
"""

from __future__ import annotations

import os

# Spark is started by a fork whose child runs gRPC's fork handlers, if there are any: they start threads there, which
# the closing of file descriptors before the exec makes abort. Nobody here goes on with gRPC in a forked process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
