"""What replicas import, and what they do before: once for all tests, in the process from which theirs are forked."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from importlib import import_module

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # As ``replica start`` does before it imports gRPC.
for name in ("replica.cli.__main__", "replica.server.main", "nemesis.variants.server", "uvloop"):
    with suppress(ImportError):  # uvloop is not available everywhere.
        import_module(name)
gc.collect()
gc.freeze()
