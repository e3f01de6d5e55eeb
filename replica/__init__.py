"""Highwater's replicated log: a replica, its client, and their command line.

The way of a record, from the outside in and back: ``client`` encodes it with ``records`` and sends it; ``server``
receives it and hands it to ``core``, which decides everything and touches nothing; ``storage`` puts it on disk; and
the answer takes the same way back. ``ids`` and ``errors`` are the words that all of them share; ``v1`` is generated
from ``proto/``; ``cli`` and its siblings are the ``replica`` command.
"""
