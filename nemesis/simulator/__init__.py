"""A whole cluster in one thread: the production core and the production storage in a world made from a seed.

The way of a run, file by file: ``common_seeds`` and ``faults`` make a seed into a ``climate`` and a schedule; ``queue``
is time, each machine's own idea of it as well; ``network`` carries messages, ``disk``, on ``disks.simulated_files``,
keeps what is written, ``node`` drives the core on one machine, in the surroundings that ``steps`` names, ``world`` has
them all; ``injector`` does the schedule to the world, each fault as ``faults`` says, which knows its dice as well, and
``clients`` use it; ``invariants`` watch every step, and ``check_quorum`` what time alone breaks; ``violations`` end a
run, ``rare`` is the table of what seldom happens and ``census`` counts it, ``record`` keeps the history; ``run`` leads
through the phases to the verdict, and ``not_promised`` says what of all that was found a world may lose. Files that
begin with ``cluster``, ``partition`` or ``group`` are for worlds of that kind, and ``group_invariants`` knows what
state machines must be like. Who votes may change in worlds of groups: ``voter_administrator`` has that done,
``voter_book`` knows what logs say of it, ``partition_habits`` watches leaders.

Around one run: ``trace`` tells its story; ``corpus`` makes it a row and its history rows, ``sweep`` runs many side by
side and ``on_spark`` on a cluster, ``tally`` sums them up. A run that fails is written by ``case`` (its steps by
``schedule_lines``) as a scenario that repeats it, and made small by ``shrink``, with ``reductions`` of its parts.

No event loop, no threads, no wall clock: a run is a function of its options.
"""

from __future__ import annotations
