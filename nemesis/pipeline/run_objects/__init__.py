"""The objects that recorded runs have used: which promises they are judged by, and the judgement.

The way of the data: ``operations`` (rows of the history of one object, as operations and as the places that the servers
claim for them; the workload says how they were recorded) -> ``kernel_and_witness`` (all objects of a call, rows in,
anomaly rows out: what both engines call).
"""
