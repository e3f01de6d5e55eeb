"""Is a history linearizable? Operations in, one judgement for each key out.

The way of the data: ``operations`` (what a client asked, when, and what came back) -> ``models`` (what an object may
answer, a small class each) -> ``case`` and the kernels -> ``evidence`` (which operations contradict each other) ->
``judgement`` (verdict, what it took, and the evidence). Nothing here
reads files, knows of time or of an engine, or imports the system that is judged. ``accelerator`` loads the register
search in C, ``native``, where the installation has compiled it; the judgements are the same without.
"""
