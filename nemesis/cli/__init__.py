"""The ``nemesis`` command.

``__main__`` lists the subcommands, each in the file of its name:

- ``sim``, ``shrink``, ``convict`` and ``story`` simulate;
- ``run`` (``demo`` as well) records a run of a real cluster, ``soak`` many. ``cluster``, ``faults`` and ``workload``
  are the options of a run; ``settings`` are those by name, for sweeps and tests, and one run that these ask for;
- ``check`` judges what was recorded: runs by ``verdicts``, while they go on by ``follow``, and histories of other
  systems by ``check_file``, ``check_kafka`` and ``check_objects``; ``explain`` tells what happened in a run;
- ``serve`` shows a store in a browser, ``index`` writes it as pages, ``gc`` deletes runs of it;
- ``doctor`` tells what this machine can do, ``synth`` makes histories up.

``words`` are what several commands take alike, ``progress`` is what they show on the way, and ``exit`` how every
command ends.
"""
