"""The ``replica`` command.

``__main__`` lists the subcommands. Of those that run on a replica's own machine, ``format`` gives its disk an identity,
``start`` starts it, and ``disk`` reads its files. The others ask a cluster:

- ``cluster`` asks each replica for itself, ``quorum`` for its voters, which ``voters`` changes;
- ``top``, by ``top_rows``, watches all of them by their metrics;
- ``topic``, with ``topic_reassign``, ``topic_waiting``, ``topic_backup`` and ``replace_broker``, is what administrators
  ask for;
- ``acl`` is who may do what, ``features`` what the cluster may write;
- ``config_cluster`` is settings of running brokers, and quotas of users;
- ``records``, by ``lines``, writes and reads topics;
- ``kv``, with ``kv_reads``, ``kv_txn`` and ``kv_lease``, is the key-value store; ``kv_options`` is what these share;
- ``group`` backs up the state of any machine.

``access`` has the options of ``start`` about who may do what, ``tls`` those of all commands about who one is.

``client`` is what those share that ask a cluster, and ``help`` how all of them explain themselves.
"""

from __future__ import annotations

import gc

gc.set_threshold(50_000, 20, 20)
"""To load modules makes many objects and no garbage: Python's own threshold, 700, took a fifth of a replica's start."""
