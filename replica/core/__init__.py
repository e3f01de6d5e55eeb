"""The protocol as a sans-IO machine: events and the time in, effects out.

Read in this order: ``messages`` (what replicas say to each other), ``events`` and ``effects`` (the only way in and the
only way out), ``epoch_cache`` and ``log_state`` (what is known of a log without reading it), ``rules`` (the decisions
on which promises hang), ``quorum`` (one log kept by a quorum), ``group`` (a state machine on one), ``member`` (what a
replica is in its cluster), ``replica`` (a table of logs, and of who takes what). Nothing here knows a clock, a disk, a
network or a logger; durability is an effect and comes back as an event.
"""
