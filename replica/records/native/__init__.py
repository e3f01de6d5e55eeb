"""What is done with records in C, as source; ``walk.so`` is beside it where there was a compiler.

The walks over records and over batches, the codec between batches and columns, and the hash of a column of keys. Owns
nothing in Python: ``replica.records.walking`` loads the library for all that call it, ``hatch_build.py`` compiles it.
"""
