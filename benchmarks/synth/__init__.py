"""Histories that are made up: clean by construction, but for the anomalies that were planted at known places.

The way of the data: ``plan`` (how much, and what to plant) -> ``objects`` (registers, logs and lists that serve one
operation at a time) with ``object_plants``, or ``log_world`` (topic-partitions, their producers and consumers) with
``log_plants`` -> ``recording`` and ``replicas`` (what is told of it, as files) -> ``manifest`` (what was planted where)
-> ``build`` (all of it). Whatever happens, happens at one moment between the events that tell of it, so that the
history needs no judge to be known as clean; and what is planted is a few operations at a moment when nothing else
touches their log or object, which no order of operations explains. Nothing here may share code with the judges that are
measured by it.
"""
