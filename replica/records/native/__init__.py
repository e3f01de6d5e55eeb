"""The walks over records and over batches in C, as source; ``walk.so`` is beside it where there was a compiler.

Owns nothing in Python: ``replica.records.walking`` loads the library, for ``runs`` there as well, and
``hatch_build.py`` compiles it.
"""
