"""The ``nemesis`` command.

``__main__`` lists the subcommands, each in the file of its name:

- ``sim``, ``shrink``, ``convict`` and ``story`` simulate; ``sim_progress`` is what they show on the way;
- ``run`` (``demo`` as well), ``soak`` and ``suite`` record runs of real clusters. ``cluster``, ``faults`` and
  ``workload`` are the options of theirs, and ``progress`` is what they show; ``settings`` are those of ``run`` by name,
  for suites and tests, and ``one_run`` is one run that these ask for;
- ``check`` judges what was recorded: runs by ``judge``, while they go on by ``follow``, and histories of other systems
  by ``check_file``, ``check_kafka`` and ``check_objects``;
- ``doctor`` tells what this machine can do, ``synth`` makes histories up.

``exit`` and ``streams`` are how every command ends.
"""
