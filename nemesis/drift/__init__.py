"""Whether a long run takes more and more: of memory, descriptors, threads, processor, disk and time.

The way through: ``series`` (what the run has kept, as medians of windows of time) -> ``judgement`` (whether
numbers rise, and go on rising: of each quantity of each replica drift, none, or unknown) -> ``chart``. Needs the
run's folder only, and imports nothing of a cluster.
"""
