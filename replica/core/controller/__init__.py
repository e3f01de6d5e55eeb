"""The cluster's decisions: a state machine that turns requests and time into metadata records.

The way of a decision: ``controller`` takes a request or a tick and gives it to who decides about it: ``brokers``
(registration, heartbeats, fencing), ``alter_partition`` (what leaders want of their ISR), ``elections``, ``topics``
with ``placement``, ``alter_reassignments``, ``producer_ids``, ``acls``, ``configs``. Whatever changes a partition goes
through ``partition_change``, the one place in which leaders are chosen and epochs are counted; who its replicas are
meanwhile is told by ``reassignment``. ``state`` is what they all work on, ``invariants`` what must hold after each
decision. ``quorum_controller`` stands around all this: it writes the records into the metadata log and tells nobody
before they are committed.
"""
