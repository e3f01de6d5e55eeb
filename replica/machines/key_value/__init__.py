"""The built-in machine: a key-value store with the semantics of etcd's v3 API.

Read in this order: ``values`` (keys, ranges, bounds), ``commands`` and ``results`` (one class for each thing that is
asked or answered), ``store`` (versions and revisions), ``leases``, ``state`` (both together, and its snapshot),
``operations`` (what a transaction is made of), ``watching``, ``machine`` (the way of a command). ``encoding`` is their
bytes.
"""

from __future__ import annotations

from replica.machines.key_value.encoding import (
    decode_command,
    decode_request,
    decode_response,
    encode_command,
    encode_request,
    encode_response,
)
from replica.machines.key_value.machine import KeyValueMachine
from replica.machines.key_value.values import ALL_KEYS, KeyRange, KeyValue, LeaseId, Tombstone, prefix, single
