"""A whole cluster in one thread: the production core and the production storage in a world made from a seed.

The way of a run, file by file: ``climate`` and ``plan`` make a seed into a climate and a schedule; ``queue`` is time,
``clock`` each machine's own idea of it; ``network`` carries messages, ``files`` and ``disk`` keep what is written,
``node`` drives the core on one machine, ``world`` has them all; ``injector`` does the schedule to the world and
``clients`` use it; ``invariants`` watch every step and ``violations`` end a run, ``census`` counts what is rare,
``record`` keeps the history; ``run`` leads through the phases to the verdict.

No event loop, no threads, no wall clock: a run is a function of its options.
"""

from __future__ import annotations
