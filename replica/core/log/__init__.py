"""What every replicated log has, whoever says who leads it: the voters of its quorum, or the controller.

Read in this order: ``epoch_cache`` and ``log_state`` (what is known of a log without reading it), ``recovered`` (how
storage hands it over), ``replicated_log`` (one replica of it, and how it asks its driver for something), ``fencing``
(who is turned away), ``producing`` (when a write is acknowledged), ``serving`` (what a fetch gets), ``following`` (what
a follower takes of an answer), ``inspecting`` (questions that change nothing), ``invariants`` (what must hold of it).

Two kinds are built on it, each with its own roles and its own rule for what is committed: ``replica.core.quorum`` and
``replica.core.partition``.
"""
