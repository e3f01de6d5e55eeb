"""The objects that recorded runs have used: which promises they are judged by, and the judgement.

The way of the data: ``operations`` (rows of the history of one object, as operations and as the places that the servers
claim for them) -> ``models`` (what an object of a workload may answer; ``bank`` and ``leased_lock`` are models of their
own) -> ``kernel_and_witness`` (all objects of a call, rows in, anomaly rows out: what both engines call).
"""
