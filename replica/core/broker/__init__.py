"""A broker: its standing with the controller, the partitions that it hosts, and what they ask of others.

Read in this order: ``lifecycle`` (registered, alive, leaving), ``hosting`` (which partitions there are, by committed
metadata), ``serving`` (fetches that others send here), ``fetchers`` (fetches that followers here send), ``proposals``
(the ISRs that leaders here want), ``broker`` (all of it as one machine).
"""
